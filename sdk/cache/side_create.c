/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of side.h: how large each is, and what moves a block from slab to slab. All
 * memory is allocated here, once; nothing on the step path allocates. */
#include "side_inside.h"
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Room in the journal, so that plans may change their mind some times. */
#define CHANGES_PER_BLOCK    24
#define CHANGES_PER_SEQUENCE 64
#define REPEATS              4

/* That a step moves from slab to slab, beside what its last reserve needs: some 40 us of
 * a device's memory of 3 TB/s. */
static const uint64_t most_moved_bytes = UINT64_C(64) << 20;

/* Lists the copy of a block from slab to slab. Any group of its size serves: the bytes
 * are copied as they are. */
static void copy_within(struct lls_pol_side *m, uint32_t block_units, uint32_t from,
                        uint32_t to)
{
  struct lls_copy copy = {.order = LLS_COPY_BEFORE_STEP,
                          .n_slots = (uint16_t)m->block_tokens,
                          .source = from,
                          .target = to};
  uint32_t group = 0, kind = lls_pol_slabs_class(&m->slabs[LLS_TIER_DEVICE], block_units);
  while (group < m->n_groups && m->kinds[LLS_TIER_DEVICE][group] != kind)
    group++;
  for (uint32_t i = group; i < m->n_groups; i++)
    if (side_is_state(m, i) && m->kinds[LLS_TIER_DEVICE][i] == kind)
      group = i; /* whose copies are of all bytes of all units */
  if (group == m->n_groups) {
    group = 0; /* only its full blocks have a form of their own */
    copy.source_form = copy.target_form = (uint8_t)m->full[LLS_TIER_DEVICE][group].form;
  }
  if (m->one_group) {
    copy.source_form = copy.target_form =
        (uint8_t)m->host->engine->groups[group]->forms[0].form;
    group = 0;
  }
  if (side_is_state(m, group))
    copy.n_slots = 0;
  copy.group = (uint8_t)group;
  lls_pol_side_copy(m, &copy);
}

/* Copies the blocks of a device slab, and tells all that name them. */
static bool moved(void *context, uint32_t first, uint32_t block_units, const uint32_t *to,
                  uint32_t n)
{
  const struct lls_pol_tree_tier *tier = context;
  struct lls_pol_side *m = tier->tree->manager;
  for (uint32_t i = 0; i < n; i++) {
    if (to[i] == LLS_POL_NIL)
      continue;
    if (!lls_pol_side_can_copy(m, 1))
      return false;
    copy_within(m, block_units, first + i * block_units, to[i]);
    lls_pol_tree_moved(&m->tree, tier->number, first + i * block_units, to[i]);
  }
  lls_pol_rows_moved(&m->rows, first, block_units, to, n);
  return m->moved == NULL || m->moved(m, first, block_units, to, n);
}

/* The class of blocks of that size, which is new if there was none. */
static uint32_t class_of(uint32_t *sizes, uint32_t *n, uint32_t units)
{
  uint32_t i = 0;
  while (i < *n && sizes[i] != units)
    i++;
  if (i == *n)
    sizes[(*n)++] = units;
  return i;
}

/* The sizes of a tier's blocks, each once, and the classes of each group. Full blocks of
 * group 0 may have a form of their own. */
static uint32_t classes_of(struct lls_pol_side *m, uint32_t tier, uint32_t full_form,
                           uint32_t *sizes)
{
  uint32_t n = 0;
  for (uint32_t group = 0; group < m->n_groups; group++) {
    const struct lls_group *g = m->host->engine->groups[group];
    const struct lls_group_form *full = &g->forms[0];
    if (group == 0 && m->converts && full_form != LLS_FORM_NONE &&
        lls_group_form_of(g, full_form))
      full = lls_group_form_of(g, full_form);
    m->kinds[tier][group] = class_of(sizes, &n, g->forms[0].block_units);
    m->full[tier][group] = (struct lls_pol_side_form){
        .form = full->form, .kind = class_of(sizes, &n, full->block_units)};
  }
  return n;
}

static int make_tier(struct lls_pol_side *m, uint32_t tier, uint32_t units,
                     uint32_t full_form)
{
  uint32_t sizes[LLS_POL_MAX_GROUPS + 1], n = classes_of(m, tier, full_form, sizes);
  struct lls_pol_slabs *s = &m->slabs[tier];
  s->journal = &m->journal;
  s->owner.moved = tier == LLS_TIER_DEVICE ? moved : NULL;
  int rc = lls_pol_slabs_init(s, units, sizes, n);
  if (rc < 0)
    return rc;
  for (uint32_t group = 0; group < m->n_groups; group++) {
    m->units[tier][group] = lls_pol_slabs_units(s, m->kinds[tier][group]);
    m->full[tier][group].units = lls_pol_slabs_units(s, m->full[tier][group].kind);
  }
  /* a block becomes small before its former units are free */
  s->spare = tier == LLS_TIER_DEVICE && side_has_small(m, tier, 0);
  return lls_pol_slabs_usable(s) > 0 ? 0 : -EINVAL;
}

static int make_slabs(struct lls_pol_side *m, const struct lls_cache_geometry *g)
{
  int rc = make_tier(m, LLS_TIER_DEVICE, g->device_units, g->device_form);
  m->slabs[LLS_TIER_DEVICE].most_moved =
      g->unit_bytes > 0 ? (uint32_t)(most_moved_bytes / g->unit_bytes) : 0;
  m->n_tiers = 1;
  if (rc < 0 || g->host_units == 0)
    return rc;
  m->n_tiers = 2;
  rc = make_tier(m, LLS_TIER_HOST, g->host_units, g->host_form);
  if (rc == -EINVAL) { /* no block has room there */
    m->n_tiers = 1;
    rc = 0;
  }
  return rc;
}

static int make_tree(struct lls_pol_side *m, const struct lls_cache_geometry *g)
{
  struct lls_pol_tree *t = &m->tree;
  t->journal = &m->journal;
  t->block_tokens = m->block_tokens;
  t->n_groups = m->n_groups;
  t->n_tiers = m->shares_host ? m->n_tiers : 1;
  t->groups = m->host->engine->groups;
  t->manager = m;
  t->leaves = t->n_tiers > 1 ? side_leaves : NULL;
  t->shows_changes = g->shows_changes != 0;
  for (uint32_t tier = 0; tier < t->n_tiers; tier++)
    t->tiers[tier].slabs = &m->slabs[tier];
  return lls_pol_tree_init(t);
}

static int make_leases(struct lls_pol_side *m)
{
  m->leases.tree = &m->tree;
  m->leases.share = 0.3;
  return lls_pol_leases_init(&m->leases);
}

static int make_rows(struct lls_pol_side *m, uint32_t blocks)
{
  const struct lls_engine_caps *e = m->host->engine;
  struct lls_pol_rows *r = &m->rows;
  r->journal = &m->journal;
  r->block_tokens = m->block_tokens;
  r->n_groups = m->n_groups;
  r->n_slots = e->max_requests + m->more_slots;
  r->row_blocks = (e->max_context + m->block_tokens - 1) / m->block_tokens;
  /* no list is longer than the pool where all blocks stay */
  if (m->keeps_all || e->groups[0]->kind == LLS_GROUP_FULL)
    r->row_blocks =
        lls_pol_min(r->row_blocks, lls_pol_slabs_blocks(&m->slabs[LLS_TIER_DEVICE]));
  if (m->own_groups > 0) { /* its manager may give each slot of a block to another one */
    uint32_t device = lls_pol_slabs_blocks(&m->slabs[LLS_TIER_DEVICE]);
    r->row_blocks = lls_pol_max(r->row_blocks, lls_pol_min(e->max_context, device));
    blocks = r->n_slots;
  }
  for (uint32_t group = 0; group < m->n_groups; group++)
    r->states |= (uint32_t)(e->groups[group]->kind == LLS_GROUP_STATE) << group;
  if (r->states != 0)
    r->row_blocks = lls_pol_max(r->row_blocks, LLS_POL_MAX_STATES);
  uint32_t least = m->more_slots > 0 ? 2 * e->max_sequences : e->max_sequences;
  r->n_rows = lls_pol_rows_affordable(r, least, lls_pol_min(r->n_slots, blocks));
  return lls_pol_rows_init(r);
}

static int make_parts(struct lls_pol_side *m, const struct lls_cache_geometry *g)
{
  uint32_t blocks = 0, most = 0;
  int rc = make_slabs(m, g);
  for (uint32_t tier = 0; tier < m->n_tiers && rc == 0; tier++) {
    uint32_t n = lls_pol_slabs_blocks(&m->slabs[tier]);
    blocks += n;
    most = lls_pol_max(most, n);
  }
  if (rc == 0)
    rc = make_tree(m, g);
  if (rc == 0)
    rc = make_leases(m);
  if (rc == 0)
    rc = make_rows(m, blocks);
  if (rc < 0)
    return rc;
  uint64_t changes =
      REPEATS * (CHANGES_PER_BLOCK * (uint64_t)blocks +
                 CHANGES_PER_SEQUENCE * (uint64_t)m->host->engine->max_sequences) +
      m->more_changes;
  m->journal.max = changes < UINT32_MAX ? (uint32_t)changes : UINT32_MAX;
  m->max_wishing = m->rows.states != 0 ? m->host->engine->max_sequences : 0;
  m->wish_changes = SIDE_CHANGES * m->max_wishing;
  m->leaving_changes = side_leaving_changes(m);
  m->journal.changes =
      table_alloc((size_t)m->journal.max + m->wish_changes + m->leaving_changes,
                  sizeof *m->journal.changes);
  m->wishes = calloc(m->rows.n_slots, sizeof *m->wishes);
  m->wishing = calloc((size_t)m->max_wishing + 1, sizeof *m->wishing);
  m->max_copies = 2 * blocks + m->more_copies;
  m->copies = calloc(m->max_copies, sizeof *m->copies);
  m->pending = calloc(m->max_copies, sizeof *m->pending);
  m->marks = calloc(most, sizeof *m->marks);
  m->waits = calloc(m->rows.n_slots, sizeof *m->waits);
  return m->journal.changes && m->copies && m->pending && m->marks && m->waits &&
                 m->wishes && m->wishing
             ? 0
             : -ENOMEM;
}

int lls_pol_side_create(struct lls_pol_side *m, const struct lls_host *host,
                        const struct lls_cache_geometry *g)
{
  m->host = host;
  m->block_tokens = g->block_tokens;
  m->n_groups = host->engine->n_groups;
  if (m->n_groups == 0 || m->n_groups > LLS_POL_MAX_GROUPS)
    return host->fail(host->context, -EINVAL, "%u groups of layers: 1 to %u can be kept",
                      m->n_groups, LLS_POL_MAX_GROUPS);
  if (g->block_tokens == 0 || g->block_tokens > UINT16_MAX)
    return host->fail(host->context, -EINVAL, "blocks of %u tokens: 1 to 65535 can be",
                      g->block_tokens);
  int rc = make_parts(m, g);
  if (rc == -EINVAL)
    return host->fail(host->context, rc,
                      "a pool of %u units, blocks of %u tokens: a sequence needs a block "
                      "of %u units",
                      g->device_units, g->block_tokens,
                      host->engine->groups[0]->forms[0].block_units);
  if (rc < 0)
    return host->fail(host->context, rc, "no memory to keep track of %u units",
                      g->device_units + g->host_units);
  lls_pol_side_make_empty(m);
  return 0;
}

void lls_pol_side_make_empty(struct lls_pol_side *m)
{
  for (uint32_t tier = 0; tier < m->n_tiers; tier++)
    lls_pol_slabs_make_empty(&m->slabs[tier]);
  lls_pol_tree_make_empty(&m->tree);
  lls_pol_leases_make_empty(&m->leases);
  m->crowded = false;
  lls_pol_rows_make_empty(&m->rows);
  m->n_copies = m->n_pending = m->n_waiting = m->n_wishing = 0;
  memset(m->wishes, 0, m->rows.n_slots * sizeof *m->wishes);
  memset(m->waits, 0, m->rows.n_slots * sizeof *m->waits);
  if (m->make_empty != NULL)
    m->make_empty(m);
}

void lls_pol_side_destroy(struct lls_pol_side *m)
{
  for (uint32_t tier = 0; tier < LLS_POL_TIERS; tier++)
    lls_pol_slabs_destroy(&m->slabs[tier]);
  lls_pol_tree_destroy(&m->tree);
  lls_pol_leases_destroy(&m->leases);
  lls_pol_rows_destroy(&m->rows);
  free(m->journal.changes);
  free(m->copies);
  free(m->pending);
  free(m->marks);
  free(m->waits);
  free(m->wishes);
  free(m->wishing);
}
