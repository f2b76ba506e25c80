/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiered cache manager's interface to the core: parameters, creation, the
 * transaction, and the queries that change nothing. See tiered.h for the idea, README for
 * the paper.
 *
 * All memory is allocated here, once. A sequence that holds units has a row with room for
 * two lists of a full context, one that moves has two; untouched room costs address space
 * only.
 */
#include "tiered.h"

#include <llmserve/policy/count.h>

#include <llmserve/policy/state.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const size_t most_row_bytes = (size_t)1 << 30;

static struct sequence *sequence_of(struct tiered *m, const struct lls_request *r)
{
  struct sequence *s = r->slot < m->n_slots ? &m->sequences[r->slot] : NULL;
  return s != NULL && s->admitted && s->request == r->id ? s : NULL;
}

/* ---- life -------------------------------------------------------------------------- */

/* Which full blocks are to be narrow, and how many units each block takes. */
static void size_blocks(struct tiered *m, const struct lls_cache_geometry *g)
{
  const struct lls_group *group = m->host->engine->groups[0];
  const struct lls_group_form *narrow = lls_group_form_of(group, LLS_FORM_INT8);
  m->narrow[false] = g->device_form == LLS_FORM_INT8 && narrow != NULL;
  m->narrow[true] = g->host_form == LLS_FORM_INT8 && narrow != NULL;
  m->units[WIDE] = group->forms[0].block_units;
  m->units[NARROW] = m->narrow[true] ? narrow->block_units : 0;
  m->index_units = m->units[m->narrow[false] ? NARROW : WIDE];
}

static void size_up(struct tiered *m, const struct lls_cache_geometry *g)
{
  const struct lls_engine_caps *e = m->host->engine;
  uint32_t least = m->units[NARROW] > 0 ? m->units[NARROW] : m->units[WIDE];
  uint32_t blocks = g->device_units / m->index_units, on_host = g->host_units / least;
  m->block_tokens = g->block_tokens;
  m->unit_bytes = g->unit_bytes;
  m->n_slots = e->max_requests;
  m->index.journal = &m->journal;
  m->index.block_tokens = m->block_tokens;
  m->index.n_blocks = blocks;
  m->window = lls_pol_window_of(e, g->block_tokens);
  m->index.orphans = m->window.tokens > 0;
  m->row_blocks = blocks_of(m, e->max_context);
  if (m->window.tokens == 0)
    m->row_blocks = lls_pol_min(m->row_blocks, blocks);
  size_t row_bytes = m->row_blocks * sizeof *m->entries;
  uint32_t affordable = (uint32_t)(most_row_bytes / row_bytes);
  uint64_t all = (uint64_t)blocks + on_host;
  m->n_rows = lls_pol_min(
      lls_pol_min(2 * m->n_slots, (uint32_t)(all < UINT32_MAX ? all : UINT32_MAX)),
      lls_pol_max(affordable, 2 * e->max_sequences));
  m->pending.max = blocks; /* all may be handed over here in one step */
  m->now.max = m->pending.max + 2 * (on_host + e->max_sequences);
  uint64_t changes = 256 * (all + e->max_sequences);
  m->journal.max = changes < UINT32_MAX ? (uint32_t)changes : UINT32_MAX;
}

static bool allocate(struct tiered *m, const struct lls_cache_geometry *g)
{
  const uint32_t wide[] = {m->units[WIDE], 0};
  uint32_t most = lls_pol_max(g->device_units, g->host_units);
  if (chains_init(&m->tiers[0], &m->journal, g->device_units,
                  m->narrow[false] ? m->units : wide, true) < 0 ||
      chains_init(&m->tiers[1], &m->journal, g->host_units,
                  m->narrow[true] ? m->units : wide, false) < 0)
    return false;
  m->holders = calloc(m->tiers[0].n_slabs + (size_t)1, sizeof *m->holders);
  m->row_next = calloc(m->n_rows, sizeof *m->row_next);
  m->sequences = calloc(m->n_slots, sizeof *m->sequences);
  m->entries = calloc((size_t)m->n_rows * m->row_blocks, sizeof *m->entries);
  m->lists = calloc(m->n_slots, sizeof *m->lists);
  m->marks = calloc(most, sizeof *m->marks);
  m->row_marks = calloc(m->n_rows, sizeof *m->row_marks);
  m->touched = calloc(m->n_slots, sizeof *m->touched);
  m->moving = calloc(m->n_slots, sizeof *m->moving);
  m->pending.copies = calloc(m->pending.max, sizeof *m->pending.copies);
  m->now.copies = calloc(m->now.max, sizeof *m->now.copies);
  m->journal.changes = calloc(m->journal.max, sizeof *m->journal.changes);
  return lls_pol_prefixes_init(&m->index) == 0 && m->holders && m->row_next &&
         m->sequences && m->entries && m->lists && m->marks && m->row_marks &&
         m->touched && m->moving && m->pending.copies && m->now.copies &&
         m->journal.changes;
}

static void make_empty(struct tiered *m)
{
  for (uint32_t i = 0; i < 2; i++)
    chains_make_empty(&m->tiers[i]);
  memset(m->holders, 0, m->tiers[0].n_slabs * sizeof *m->holders);
  m->n_idle = 0;
  lls_pol_prefixes_make_empty(&m->index);
  lls_pol_chain_stack(&m->row_head, m->row_next, m->n_rows);
  m->n_rows_free = m->n_rows;
  for (uint32_t i = 0; i < m->n_slots; i++)
    m->sequences[i] = (struct sequence){.row = LLS_POL_NIL, .to_row = LLS_POL_NIL};
  m->n_moving = m->n_touched = m->pending.n = m->now.n = m->n_evicted = 0;
}

static void destroy(void *self)
{
  struct tiered *m = self;
  chains_free(&m->tiers[0]);
  chains_free(&m->tiers[1]);
  free(m->holders);
  lls_pol_prefixes_free(&m->index);
  free(m->row_next);
  free(m->sequences);
  free(m->entries);
  free(m->lists);
  free(m->marks);
  free(m->row_marks);
  free(m->touched);
  free(m->moving);
  free(m->pending.copies);
  free(m->now.copies);
  free(m->journal.changes);
  free(m);
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  struct tiered *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->host = host;
  m->params = *(const struct params *)params;
  size_blocks(m, g);
  uint32_t least = m->units[WIDE] * (1 + spare_slabs(m));
  if (g->device_units < least || g->block_tokens == 0 || g->block_tokens > UINT16_MAX) {
    free(m);
    return host->fail(
        host->context, -EINVAL,
        "a pool of %u units, blocks of %u tokens: a sequence needs %u units, "
        "and blocks of 1 to 65535 tokens",
        g->device_units, g->block_tokens, least);
  }
  size_up(m, g);
  if (!allocate(m, g)) {
    destroy(m);
    return host->fail(host->context, -ENOMEM, "no memory to keep track of %u units",
                      g->device_units + g->host_units);
  }
  make_empty(m);
  *self = m;
  return 0;
}

static int admit(void *self, const struct lls_request *r)
{
  struct tiered *m = self;
  if (r->slot >= m->n_slots || m->sequences[r->slot].admitted)
    return -EINVAL;
  struct sequence *s = &m->sequences[r->slot];
  bool touched = s->touched;
  *s = (struct sequence){.request = r->id,
                         .admitted = true,
                         .row = LLS_POL_NIL,
                         .to_row = LLS_POL_NIL,
                         .touched = touched};
  return 0;
}

/* KEEP_PREFIX: blocks in the index stay there for other requests until their memory is
 * needed. Host blocks are never kept: they are in no index. */
static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  struct tiered *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL)
    return;
  const struct sequence before = *s;
  tiered_drop(m, s);
  if (!(how->flags & LLS_KEEP_PREFIX))
    tiered_forget(m, &before);
  s->admitted = false;
}

/* ---- the transaction --------------------------------------------------------------- */

static int begin(void *self)
{
  struct tiered *m = self;
  int rc = lls_pol_journal_begin(&m->journal);
  if (rc < 0)
    return rc;
  m->free_at_begin = free_units_of(m, false);
  memcpy(m->now.copies, m->pending.copies, m->pending.n * sizeof *m->now.copies);
  m->now.n = m->pending.n;
  m->pending.n = 0;
  return 0;
}

static uint32_t mark(void *self)
{
  return ((struct tiered *)self)->journal.n;
}

static int rollback(void *self, uint32_t to)
{
  return lls_pol_journal_rollback(&((struct tiered *)self)->journal, to);
}

static int commit(void *self)
{
  struct tiered *m = self;
  int rc = lls_pol_journal_commit(&m->journal);
  if (rc < 0)
    return rc;
  while (m->n_touched > 0)
    tiered_name_forms(m, &m->sequences[m->touched[--m->n_touched]]);
  tiered_list_transfers(m);
  lls_pol_count_copies(m->host, m->now.copies, m->now.n);
  lls_pol_count(m->host, "blocks_evicted", m->n_evicted);
  m->n_evicted = 0;
  return 0;
}

static int prefix(void *self, const struct lls_request *r, bool take,
                  struct lls_prefix *out)
{
  struct tiered *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || (take && !m->journal.open))
    return -EINVAL;
  out->tokens = tiered_prefix(m, s, r, take);
  return 0;
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct tiered *m = self;
  struct sequence *s = sequence_of(m, r);
  (void)flags; /* nothing here can be displaced by slots */
  if (s == NULL || !m->journal.open)
    return -EINVAL;
  if (form != LLS_FORM_NONE && form != LLS_FORM_KV)
    return -ENOTSUP;
  return tiered_reserve(m, s, r, tokens);
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct tiered *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || !m->journal.open)
    return -EINVAL;
  if (!tiered_can_note(m, s->held - s->gone))
    return -ENOBUFS;
  switch (mode) {
  case LLS_PREEMPT_RECOMPUTE:
    tiered_drop(m, s);
    return 0;
  case LLS_PREEMPT_SWAP:
    return m->tiers[1].n_slabs > 0 ? tiered_swap_out(m, s) : -ENOTSUP;
  case LLS_PREEMPT_DEFER:
    return 0;
  default:
    return -ENOTSUP;
  }
}

static int start(void *self, const struct lls_request *r, bool to_host,
                 uint64_t *transfer)
{
  struct tiered *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || !m->journal.open)
    return -EINVAL;
  if (m->tiers[1].n_slabs == 0)
    return -ENOTSUP;
  int rc = tiered_start(m, s, to_host);
  *transfer = s->transfer;
  return rc;
}

static int offload(void *self, const struct lls_request *r, uint64_t *transfer)
{
  return start(self, r, true, transfer);
}

static int upload(void *self, const struct lls_request *r, uint64_t *transfer)
{
  return start(self, r, false, transfer);
}

static void on_transfer(void *self, uint64_t transfer)
{
  tiered_transferred(self, (uint32_t)transfer);
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  struct tiered *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s != NULL && s->place == ON_DEVICE && s->transfer == 0 && !m->journal.open)
    tiered_computed(m, s, r, cached_tokens);
}

/* ---- questions --------------------------------------------------------------------- */

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  const struct tiered *m = self;
  if (tier > LLS_TIER_HOST)
    return -ENOTSUP;
  bool on_host = tier == LLS_TIER_HOST;
  uint32_t n_free = free_units_of(m, on_host);
  uint32_t slabs = m->tiers[on_host].n_slabs - (on_host ? 0 : spare_slabs(m));
  out->total_units = slabs * m->tiers[on_host].slab_units;
  out->free_units = n_free;
  out->reserved_units = !on_host && m->journal.open && m->free_at_begin > n_free
                            ? m->free_at_begin - n_free
                            : 0;
  out->unit_bytes = m->unit_bytes;
  return 0;
}

static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  struct tiered *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  if (form != LLS_FORM_NONE && form != LLS_FORM_KV)
    return -ENOTSUP;
  out->new_units = tiered_units_needed(m, s, r, tokens);
  out->restore_units = s->place == ON_HOST ? units_of(m, s, false, s->held) : 0;
  return 0;
}

static uint32_t residency_of(const struct sequence *s)
{
  if (s->transfer != 0)
    return LLS_RESIDENT_MOVING;
  return s->place == NOWHERE     ? LLS_RESIDENT_NONE
         : s->place == ON_DEVICE ? LLS_RESIDENT_DEVICE
                                 : LLS_RESIDENT_HOST;
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  struct tiered *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  uint32_t on_device = s->place == ON_DEVICE ? units_of(m, s, false, s->held) : 0;
  uint32_t shared = tiered_shared_blocks(m, s);
  uint32_t on_host = s->place == ON_HOST ? units_of(m, s, true, s->held) : 0;
  *out = (struct lls_cache_info){
      .size = out->size,
      .residency = residency_of(s),
      .form = s->place == NOWHERE ? LLS_FORM_NONE : LLS_FORM_KV,
      .device_units = on_device,
      .owned_units = on_device - m->index_units * shared,
      .host_units = on_host,
      .cached_tokens = s->cached,
      .shared_tokens = shared * m->block_tokens,
      .missing_tokens = s->place == ON_HOST ? s->cached : 0,
      .free_slots = s->held * m->block_tokens - s->cached,
  };
  return 0;
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  struct tiered *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL || s->place != ON_DEVICE)
    return -EINVAL;
  m->lists[r->slot] = (struct lls_group_list){.entries = list_of(m, s->row) + s->gone,
                                              .n_entries = s->held - s->gone};
  *out = (struct lls_block_table){.n_groups = 1, .lists = &m->lists[r->slot]};
  return 0;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  const struct tiered *m = self;
  *out = m->now.copies;
  return m->now.n;
}

static uint32_t preempt_modes(void *self)
{
  const struct tiered *m = self;
  uint32_t modes = 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER;
  return m->tiers[1].n_slabs > 0 ? modes | 1u << LLS_PREEMPT_SWAP : modes;
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct tiered *m = self;
  uint32_t int8 = 0;
  for (uint32_t i = 0; i < m->n_slots; i++) {
    const struct sequence *s = &m->sequences[i];
    uint32_t leading = int8_blocks(m, s, false);
    if (s->place == ON_DEVICE && s->transfer == 0)
      int8 += leading - lls_pol_min(leading, s->gone);
  }
  const struct {
    const char *name;
    double value;
  } numbers[] = {
      {"units", m->tiers[0].n_slabs * m->tiers[0].slab_units},
      {"units_free", chains_free_units(&m->tiers[0])},
      {"units_reusable", m->index_units * m->index.n_reusable},
      {"host_units", m->tiers[1].n_slabs * m->tiers[1].slab_units},
      {"host_units_free", chains_free_units(&m->tiers[1])},
      {"int8_blocks", int8},
      {"moving", m->n_moving},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sink->number(sink->context, numbers[i].name, numbers[i].value);
}

static int audit(void *self, const struct lls_sink *sink)
{
  return tiered_audit(self, sink);
}

static int export_state(void *self, struct lls_blob *out)
{
  return tiered_export(self, out);
}

/* Replaces the state by an exported one. If that can't be taken over, or contradicts
 * itself, the manager is empty afterwards. */
static int import_state(void *self, const struct lls_blob *in)
{
  struct tiered *m = self;
  int rc = lls_pol_state_audit(m, tiered_import(m, in), audit);
  if (rc < 0)
    make_empty(m);
  return rc;
}

static int reconfigure(void *self, const void *params)
{
  ((struct tiered *)self)->params = *(const struct params *)params;
  return 0;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_FLOAT(struct params, share, "0.8", 0.01, 1, "",
                    "part of a step's time that moving sequences may use the link for",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(struct params, prefix_sharing, "on",
                   "keep full blocks of finished and running requests and give them to "
                   "later ones with the same prefix",
                   .flags = LLS_PARAM_RELOADABLE),
};

static const struct lls_cache_caps caps = {
    .size = sizeof caps,
    .kinds = 1u << LLS_GROUP_FULL | 1u << LLS_GROUP_WINDOW,
    .forms = 1u << LLS_FORM_KV | 1u << LLS_FORM_INT8,
};

static const struct lls_cache_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .caps = &caps,
    .create = create,
    .destroy = destroy,
    .capacity = capacity,
    .need = need,
    .begin = begin,
    .mark = mark,
    .rollback = rollback,
    .commit = commit,
    .reserve = reserve,
    .preempt = preempt,
    .admit = admit,
    .release = release,
    .info = info,
    .table = table,
    .copies = copies,
    .computed = computed,
    .preempt_modes = preempt_modes,
    .audit = audit,
    .prefix = prefix,
    .offload = offload,
    .upload = upload,
    .on_transfer = on_transfer,
    .stats = stats,
    .reconfigure = reconfigure,
    .export_state = export_state,
    .import_state = import_state,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "tiered",
    .version = "1.0",
    .description = "device and host, moved ahead while others compute, int8 (ALISE)",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
