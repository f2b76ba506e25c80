/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of side.h: how large each is, and what moves a block from slab to slab. All
 * memory is allocated here, once; nothing on the step path allocates. */
#include <llmserve/policy/side.h>

#include <errno.h>
#include <stdlib.h>

/* Room in the journal, so that plans may change their mind some times. */
#define CHANGES_PER_BLOCK    24
#define CHANGES_PER_SEQUENCE 64
#define REPEATS              4

/* That a step moves from slab to slab, beside what its last reserve needs: some 40 us of
 * a device's memory of 3 TB/s. */
static const uint64_t most_moved_bytes = UINT64_C(64) << 20;

/* Copies the blocks of a device slab, and tells all that name them. */
static bool moved(void *context, uint32_t first, uint32_t block_units, const uint32_t *to,
                  uint32_t n)
{
  const struct lls_pol_tree_tier *tier = context;
  struct lls_pol_side *m = tier->tree->manager;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t from = first + i * block_units, group = 0;
    if (to[i] == LLS_POL_NIL)
      continue;
    if (m->n_copies == m->max_copies)
      return false;
    while (m->units[group] != block_units)
      group++; /* any group of the class: the bytes are copied as they are */
    m->copies[m->n_copies] = (struct lls_copy){
        .order = LLS_COPY_BEFORE_STEP,
        .group = (uint8_t)group,
        .n_slots = (uint16_t)m->block_tokens,
        .source = from,
        .target = to[i],
    };
    lls_pol_journal_set(&m->journal, &m->n_copies, m->n_copies + 1);
    lls_pol_tree_moved(&m->tree, tier->number, from, to[i]);
  }
  lls_pol_rows_moved(&m->rows, first, block_units, to, n);
  return true;
}

/* The sizes of the groups' blocks, each once, and the class of each group. */
static uint32_t classes_of(struct lls_pol_side *m, uint32_t *sizes)
{
  uint32_t n = 0;
  for (uint32_t group = 0; group < m->n_groups; group++) {
    uint32_t units = m->host->engine->groups[group]->forms[0].block_units, i = 0;
    while (i < n && sizes[i] != units)
      i++;
    if (i == n)
      sizes[n++] = units;
    m->units[group] = units;
    m->kinds[group] = i;
  }
  return n;
}

static int make_slabs(struct lls_pol_side *m, const struct lls_cache_geometry *g)
{
  uint32_t sizes[LLS_POL_MAX_GROUPS], n = classes_of(m, sizes);
  int rc = 0;
  m->n_tiers = g->host_units > 0 ? 2 : 1;
  for (uint32_t tier = 0; tier < m->n_tiers && rc == 0; tier++) {
    struct lls_pol_slabs *s = &m->slabs[tier];
    s->journal = &m->journal;
    s->owner.moved = tier == LLS_TIER_DEVICE ? moved : NULL;
    s->most_moved = g->unit_bytes > 0 ? (uint32_t)(most_moved_bytes / g->unit_bytes) : 0;
    rc = lls_pol_slabs_init(s, tier == LLS_TIER_DEVICE ? g->device_units : g->host_units,
                            sizes, n);
    if (rc == -EINVAL && tier == LLS_TIER_HOST) { /* no block has room there */
      m->n_tiers = 1;
      rc = 0;
    }
  }
  return rc;
}

static int make_tree(struct lls_pol_side *m)
{
  struct lls_pol_tree *t = &m->tree;
  t->journal = &m->journal;
  t->block_tokens = m->block_tokens;
  t->n_groups = m->n_groups;
  t->n_tiers = 1;
  t->groups = m->host->engine->groups;
  t->manager = m;
  t->tiers[LLS_TIER_DEVICE].slabs = &m->slabs[LLS_TIER_DEVICE];
  return lls_pol_tree_init(t);
}

static int make_rows(struct lls_pol_side *m, uint32_t blocks)
{
  const struct lls_engine_caps *e = m->host->engine;
  struct lls_pol_rows *r = &m->rows;
  r->journal = &m->journal;
  r->block_tokens = m->block_tokens;
  r->n_groups = m->n_groups;
  r->n_slots = e->max_requests;
  r->row_blocks = (e->max_context + m->block_tokens - 1) / m->block_tokens;
  /* no list is longer than the pool where all blocks stay */
  if (m->keeps_all || e->groups[0]->kind == LLS_GROUP_FULL)
    r->row_blocks =
        lls_pol_min(r->row_blocks, lls_pol_slabs_blocks(&m->slabs[LLS_TIER_DEVICE]));
  r->n_rows =
      lls_pol_rows_affordable(r, e->max_sequences, lls_pol_min(r->n_slots, blocks));
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
    rc = make_tree(m);
  if (rc == 0)
    rc = make_rows(m, blocks);
  if (rc < 0)
    return rc;
  uint64_t changes =
      REPEATS * (CHANGES_PER_BLOCK * (uint64_t)blocks +
                 CHANGES_PER_SEQUENCE * (uint64_t)m->host->engine->max_sequences);
  m->journal.max = changes < UINT32_MAX ? (uint32_t)changes : UINT32_MAX;
  m->journal.changes = calloc(m->journal.max, sizeof *m->journal.changes);
  m->max_copies = 2 * blocks;
  m->copies = calloc(m->max_copies, sizeof *m->copies);
  m->marks = calloc(most, sizeof *m->marks);
  return m->journal.changes && m->copies && m->marks ? 0 : -ENOMEM;
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
                      g->device_units, g->block_tokens, m->units[0]);
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
  lls_pol_rows_make_empty(&m->rows);
}

void lls_pol_side_destroy(struct lls_pol_side *m)
{
  for (uint32_t tier = 0; tier < LLS_POL_TIERS; tier++)
    lls_pol_slabs_destroy(&m->slabs[tier]);
  lls_pol_tree_destroy(&m->tree);
  lls_pol_rows_destroy(&m->rows);
  free(m->journal.changes);
  free(m->copies);
  free(m->marks);
}
