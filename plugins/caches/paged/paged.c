/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paged cache manager's interface to the core: parameters, creation, the transaction,
 * and the queries that change nothing. See paged.h for the idea, README for the paper.
 *
 * All memory is allocated here, once; nothing on the step path allocates. The block lists
 * are the largest part: every list has room for a full context, so that it lies in one
 * piece and never moves. Untouched room costs address space only; rows are reused last
 * in, first out, and there are no more of them than blocks to be held, or than fit in
 * most_row_bytes (beyond that many sequences at once, reserve says LATER).
 */
#include "paged.h"

#include <llmserve/policy/count.h>
#include <llmserve/policy/state.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const size_t most_row_bytes = (size_t)1 << 30;

static struct sequence *sequence_of(struct paged *m, const struct lls_request *r)
{
  struct sequence *s = r->slot < m->n_slots ? &m->sequences[r->slot] : NULL;
  return s != NULL && s->admitted && s->request == r->id ? s : NULL;
}

/* ---- life ----------------------------------------------------------------------- */

static void size_up(struct paged *m, const struct lls_cache_geometry *g)
{
  const struct lls_engine_caps *e = m->host->engine;
  m->block_tokens = g->block_tokens;
  m->units = e->groups[0]->forms[0].block_units;
  m->n_blocks = g->device_units / m->units;
  m->n_host_blocks = g->host_units / m->units;
  m->n_slots = e->max_requests;
  m->window = lls_pol_window_of(e, g->block_tokens);
  m->row_blocks = blocks_of(m, e->max_context);
  if (m->window.tokens == 0)
    m->row_blocks = lls_pol_min(m->row_blocks, m->n_blocks);
  size_t row_bytes = m->row_blocks * sizeof *m->entries;
  uint32_t affordable = (uint32_t)(row_bytes > 0 ? most_row_bytes / row_bytes : 0);
  m->n_rows = lls_pol_min(lls_pol_min(m->n_slots, m->n_blocks + m->n_host_blocks),
                          lls_pol_max(affordable, e->max_sequences));
  m->max_copies = 2 * m->n_host_blocks + e->max_sequences;
  uint64_t blocks = m->n_blocks + (uint64_t)m->n_host_blocks;
  uint64_t changes =
      4 * (CHANGES_PER_BLOCK * blocks + CHANGES_PER_VERB * (uint64_t)e->max_sequences);
  m->journal.max = changes < UINT32_MAX ? (uint32_t)changes : UINT32_MAX;
  m->index.journal = &m->journal;
  m->index.block_tokens = m->block_tokens;
  m->index.n_blocks = m->n_blocks;
  m->index.orphans = m->window.tokens > 0;
}

static bool allocate(struct paged *m)
{
  uint32_t most = lls_pol_max(lls_pol_max(m->n_blocks, m->n_host_blocks), m->n_rows);
  m->host_next = calloc(m->n_host_blocks + 1, sizeof *m->host_next);
  m->row_next = calloc(m->n_rows, sizeof *m->row_next);
  m->sequences = calloc(m->n_slots, sizeof *m->sequences);
  m->entries = calloc((size_t)m->n_rows * m->row_blocks, sizeof *m->entries);
  m->lists = calloc(m->n_slots, sizeof *m->lists);
  m->marks = calloc(most, sizeof *m->marks);
  m->copies = calloc(m->max_copies, sizeof *m->copies);
  m->journal.changes = calloc(m->journal.max, sizeof *m->journal.changes);
  return lls_pol_prefixes_init(&m->index) == 0 && m->host_next && m->row_next &&
         m->sequences && m->entries && m->lists && m->marks && m->copies &&
         m->journal.changes;
}

static void make_empty(struct paged *m)
{
  lls_pol_prefixes_make_empty(&m->index);
  for (uint32_t b = 0; b < m->n_blocks; b++)
    m->index.blocks[b].next = b + 1 < m->n_blocks ? b + 1 : LLS_POL_NIL;
  m->free_head = 0;
  m->n_free = m->n_blocks;
  lls_pol_chain_stack(&m->host_head, m->host_next, m->n_host_blocks);
  m->n_host_free = m->n_host_blocks;
  lls_pol_chain_stack(&m->row_head, m->row_next, m->n_rows);
  m->n_rows_free = m->n_rows;
  for (uint32_t i = 0; i < m->n_slots; i++)
    m->sequences[i] = (struct sequence){.row = LLS_POL_NIL};
}

static void destroy(void *self)
{
  struct paged *m = self;
  lls_pol_prefixes_free(&m->index);
  free(m->host_next);
  free(m->row_next);
  free(m->sequences);
  free(m->entries);
  free(m->lists);
  free(m->marks);
  free(m->copies);
  free(m->journal.changes);
  free(m);
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  const struct params *p = params;
  uint32_t units = host->engine->groups[0]->forms[0].block_units;
  if (g->device_units < units || g->block_tokens == 0 || g->block_tokens > UINT16_MAX)
    return host->fail(host->context, -EINVAL,
                      "a pool of %u units, blocks of %u tokens: a sequence needs a block "
                      "of %u units, for 1 to 65535 tokens",
                      g->device_units, g->block_tokens, units);
  struct paged *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->host = host;
  m->prefix_sharing = p->prefix_sharing;
  size_up(m, g);
  if (!allocate(m)) {
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
  struct paged *m = self;
  if (r->slot >= m->n_slots || m->sequences[r->slot].admitted)
    return -EINVAL;
  m->sequences[r->slot] =
      (struct sequence){.request = r->id, .admitted = true, .row = LLS_POL_NIL};
  return 0;
}

/* KEEP_PREFIX: blocks in the index stay there for other requests until their memory is
 * needed. Host blocks are never kept: they are in no index. */
static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  struct paged *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL)
    return;
  const struct sequence before = *s;
  paged_drop(m, s);
  if (!(how->flags & LLS_KEEP_PREFIX))
    paged_forget(m, &before);
  s->admitted = false;
}

/* ---- the transaction ------------------------------------------------------------ */

static int begin(void *self)
{
  struct paged *m = self;
  int rc = lls_pol_journal_begin(&m->journal);
  if (rc < 0)
    return rc;
  m->n_copies = m->n_evicted = 0;
  m->available_at_begin = available(m);
  return 0;
}

static uint32_t mark(void *self)
{
  return ((struct paged *)self)->journal.n;
}

static int rollback(void *self, uint32_t to)
{
  return lls_pol_journal_rollback(&((struct paged *)self)->journal, to);
}

static int commit(void *self)
{
  struct paged *m = self;
  int rc = lls_pol_journal_commit(&m->journal);
  if (rc < 0)
    return rc;
  lls_pol_count_copies(m->host, m->copies, m->n_copies);
  lls_pol_count(m->host, "blocks_evicted", m->n_evicted);
  return 0;
}

static int prefix(void *self, const struct lls_request *r, bool take,
                  struct lls_prefix *out)
{
  struct paged *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || (take && !m->journal.open))
    return -EINVAL;
  out->tokens = paged_prefix(m, s, r, take);
  return 0;
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct paged *m = self;
  struct sequence *s = sequence_of(m, r);
  (void)flags; /* nothing here can be displaced by slots */
  if (s == NULL || !m->journal.open)
    return -EINVAL;
  if (form != LLS_FORM_NONE && form != LLS_FORM_KV)
    return -ENOTSUP;
  return paged_reserve(m, s, r, tokens);
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct paged *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || !m->journal.open)
    return -EINVAL;
  if (!can_note(m, held(s)))
    return -ENOBUFS;
  switch (mode) {
  case LLS_PREEMPT_RECOMPUTE:
    paged_drop(m, s);
    return 0;
  case LLS_PREEMPT_SWAP:
    return m->n_host_blocks == 0 ? -ENOTSUP : paged_swap_out(m, s);
  case LLS_PREEMPT_DEFER:
    return 0;
  default:
    return -EINVAL;
  }
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  struct paged *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || s->place != ON_DEVICE || m->journal.open)
    return;
  s->cached = cached_tokens;
  if (m->prefix_sharing)
    paged_index(m, s, r);
  paged_trim(m, s);
}

/* ---- questions ------------------------------------------------------------------ */

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  const struct paged *m = self;
  switch (tier) {
  case LLS_TIER_DEVICE:
    out->total_units = m->units * m->n_blocks;
    out->free_units = m->units * available(m);
    out->reserved_units = m->journal.open && m->available_at_begin > available(m)
                              ? m->units * (m->available_at_begin - available(m))
                              : 0;
    return 0;
  case LLS_TIER_HOST:
    out->total_units = m->units * m->n_host_blocks;
    out->free_units = m->units * m->n_host_free;
    out->reserved_units = 0;
    return 0;
  default:
    return -ENOTSUP;
  }
}

static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  struct paged *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  if (form != LLS_FORM_NONE && form != LLS_FORM_KV)
    return -ENOTSUP;
  uint32_t wanted = paged_peak(m, s, r, tokens);
  out->new_units = wanted > held(s) ? m->units * (wanted - held(s)) : 0;
  out->restore_units = s->place == ON_HOST ? m->units * held(s) : 0;
  return 0;
}

static void describe_device(const struct paged *m, const struct sequence *s,
                            struct lls_cache_info *out)
{
  uint32_t shared = paged_shared_blocks(m, s);
  out->residency = LLS_RESIDENT_DEVICE;
  out->form = LLS_FORM_KV;
  out->device_units = m->units * held(s);
  out->owned_units = m->units * (held(s) - shared);
  out->shared_tokens = lls_pol_min(shared * m->block_tokens, s->cached);
  out->free_slots = s->past * m->block_tokens - s->cached;
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  struct paged *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  *out = (struct lls_cache_info){.size = out->size, .cached_tokens = s->cached};
  switch (s->place) {
  case ON_DEVICE:
    describe_device(m, s, out);
    break;
  case ON_HOST:
    out->residency = LLS_RESIDENT_HOST;
    out->form = LLS_FORM_KV;
    out->host_units = m->units * held(s);
    out->missing_tokens = s->cached;
    break;
  default:
    out->residency = LLS_RESIDENT_NONE;
  }
  return 0;
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  struct paged *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL || s->place != ON_DEVICE)
    return -EINVAL;
  m->lists[r->slot] = (struct lls_group_list){.entries = list_of(m, s->row) + s->gone,
                                              .n_entries = held(s)};
  *out = (struct lls_block_table){.n_groups = 1, .lists = &m->lists[r->slot]};
  return 0;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  const struct paged *m = self;
  *out = m->copies;
  return m->n_copies;
}

static uint32_t preempt_modes(void *self)
{
  const struct paged *m = self;
  return 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER |
         (m->n_host_blocks > 0 ? 1u << LLS_PREEMPT_SWAP : 0);
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct paged *m = self;
  sink->number(sink->context, "blocks", m->n_blocks);
  sink->number(sink->context, "blocks_free", m->n_free);
  sink->number(sink->context, "blocks_reusable", m->index.n_reusable);
  sink->number(sink->context, "host_blocks", m->n_host_blocks);
  sink->number(sink->context, "host_blocks_free", m->n_host_free);
}

static int audit(void *self, const struct lls_sink *sink)
{
  return paged_audit(self, sink);
}

static int export_state(void *self, struct lls_blob *out)
{
  return paged_export(self, out);
}

/* Replaces the state by an exported one. If that can't be taken over, or contradicts
 * itself, the manager is empty afterwards. */
static int import_state(void *self, const struct lls_blob *in)
{
  struct paged *m = self;
  int rc = lls_pol_state_audit(m, paged_import(m, in), audit);
  if (rc < 0)
    make_empty(m);
  return rc;
}

static size_t kept(void *self, struct lls_kept_block *out, size_t max)
{
  return paged_kept(self, out, max);
}

static size_t adopt(void *self, struct lls_kept_block *blocks, size_t n)
{
  return paged_adopt(self, blocks, n);
}

static int reconfigure(void *self, const void *params)
{
  struct paged *m = self;
  m->prefix_sharing = ((const struct params *)params)->prefix_sharing;
  return 0;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_BOOL(struct params, prefix_sharing, "on",
                   "keep full blocks of finished and running requests and give them to "
                   "later ones with the same prefix",
                   .flags = LLS_PARAM_RELOADABLE),
};

static const struct lls_cache_caps caps = {
    .size = sizeof caps,
    .kinds = 1u << LLS_GROUP_FULL | 1u << LLS_GROUP_WINDOW,
    .forms = 1u << LLS_FORM_KV,
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
    .stats = stats,
    .reconfigure = reconfigure,
    .export_state = export_state,
    .import_state = import_state,
    .kept = kept,
    .adopt = adopt,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "paged",
    .version = "1.0",
    .description = "blocks on demand, recompute or swap, automatic prefix sharing",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
