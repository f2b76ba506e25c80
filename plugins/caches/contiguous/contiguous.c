/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contiguous cache manager's interface to the core: each sequence gets one region
 * when it starts, for the greatest length it may reach. It is the baseline of
 * comparisons, in which most of a region is unused for most of the time.
 */
#include "contiguous.h"

#include <llmserve/policy/count.h>

#include <errno.h>
#include <stdlib.h>

static struct sequence *sequence_of(struct contiguous *m, const struct lls_request *r)
{
  struct sequence *s = r->slot < m->n_slots ? &m->sequences[r->slot] : NULL;
  return s != NULL && s->admitted && s->request == r->id ? s : NULL;
}

/* ---- life ----------------------------------------------------------------------- */

static bool allocate(struct contiguous *m)
{
  m->sequences = calloc(m->n_slots, sizeof *m->sequences);
  m->listed = calloc(m->n_slots, sizeof *m->listed);
  m->order = calloc(m->n_slots + 1, sizeof *m->order);
  m->entries = calloc(m->n_blocks, sizeof *m->entries);
  m->lists = calloc(m->n_slots, sizeof *m->lists);
  m->copies = calloc(m->max_copies, sizeof *m->copies);
  m->journal = calloc(m->max_changes, sizeof *m->journal);
  return m->sequences && m->listed && m->order && m->entries && m->lists && m->copies &&
         m->journal;
}

static void destroy(void *self)
{
  struct contiguous *m = self;
  free(m->sequences);
  free(m->listed);
  free(m->order);
  free(m->entries);
  free(m->lists);
  free(m->copies);
  free(m->journal);
  free(m);
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  uint32_t units = host->engine->groups[0]->forms[0].block_units;
  if (g->device_units < units || g->block_tokens == 0 || g->block_tokens > UINT16_MAX)
    return host->fail(host->context, -EINVAL,
                      "a pool of %u units, blocks of %u tokens: a sequence needs a block "
                      "of %u units, for 1 to 65535 tokens",
                      g->device_units, g->block_tokens, units);
  struct contiguous *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->host = host;
  m->params = *(const struct params *)params;
  m->block_tokens = g->block_tokens;
  m->units = units;
  m->n_blocks = g->device_units / units;
  m->n_slots = host->engine->max_requests;
  m->max_copies = m->n_blocks;
  m->max_changes = 4 * m->n_slots + 64;
  if (!allocate(m)) {
    destroy(m);
    return host->fail(host->context, -ENOMEM, "no memory to keep track of %u units",
                      g->device_units);
  }
  *self = m;
  return 0;
}

static int admit(void *self, const struct lls_request *r)
{
  struct contiguous *m = self;
  if (r->slot >= m->n_slots || m->sequences[r->slot].admitted)
    return -EINVAL;
  m->sequences[r->slot] = (struct sequence){.request = r->id, .admitted = true};
  m->listed[r->slot].blocks = 0;
  return 0;
}

static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  struct contiguous *m = self;
  (void)how; /* nothing is worth keeping: no other request can use it */
  if (sequence_of(m, r) != NULL)
    contiguous_set(m, r->slot, (struct sequence){0});
}

/* ---- the transaction ------------------------------------------------------------ */

static int begin(void *self)
{
  struct contiguous *m = self;
  if (m->open)
    return -EBUSY;
  m->open = true;
  m->n_changes = m->n_copies = 0;
  m->held_at_begin = m->held;
  return 0;
}

static uint32_t mark(void *self)
{
  return ((struct contiguous *)self)->n_changes;
}

static int rollback(void *self, uint32_t to)
{
  struct contiguous *m = self;
  if (!m->open || to > m->n_changes)
    return -EINVAL;
  contiguous_undo(m, to);
  return 0;
}

static int commit(void *self)
{
  struct contiguous *m = self;
  if (!m->open)
    return -EINVAL;
  m->open = false;
  m->n_changes = 0;
  lls_pol_count_copies(m->host, m->copies, m->n_copies);
  return 0;
}

/* Returns the blocks of the region for r, at least for `tokens`, at most those of the
 * cache. */
static uint32_t region_of(const struct contiguous *m, const struct lls_request *r,
                          uint64_t tokens)
{
  uint32_t all = m->n_blocks * m->block_tokens, context = m->host->engine->max_context;
  uint32_t reserved = reservation_of(r, m->params.reserve, (uint32_t)m->params.max_len,
                                     all < context ? all : context);
  uint32_t blocks = blocks_of(m, reserved > tokens ? reserved : tokens);
  return blocks < m->n_blocks ? blocks : m->n_blocks;
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct contiguous *m = self;
  const struct sequence *s = sequence_of(m, r);
  (void)flags;
  if (s == NULL || !m->open)
    return -EINVAL;
  if (form != LLS_FORM_NONE && form != LLS_FORM_KV)
    return -ENOTSUP;
  uint64_t length = (uint64_t)s->cached + tokens;
  if (blocks_of(m, length) > m->n_blocks)
    return LLS_RESERVE_NEVER;
  if (blocks_of(m, length) <= s->blocks)
    return LLS_RESERVE_OK;
  return contiguous_place(m, r->slot, region_of(m, r, length)) ? LLS_RESERVE_OK
                                                               : LLS_RESERVE_LATER;
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct contiguous *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || !m->open)
    return -EINVAL;
  if (mode == LLS_PREEMPT_DEFER)
    return 0;
  if (mode != LLS_PREEMPT_RECOMPUTE)
    return mode == LLS_PREEMPT_SWAP ? -ENOTSUP : -EINVAL;
  if (m->n_changes == m->max_changes)
    return -ENOBUFS;
  contiguous_set(m, r->slot, (struct sequence){.request = r->id, .admitted = true});
  return 0;
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  struct sequence *s = sequence_of(self, r);
  if (s != NULL && s->blocks > 0)
    s->cached = cached_tokens;
}

/* ---- questions ------------------------------------------------------------------ */

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  const struct contiguous *m = self;
  if (tier == LLS_TIER_HOST)
    out->total_units = out->free_units = out->reserved_units = 0;
  if (tier != LLS_TIER_DEVICE)
    return tier == LLS_TIER_HOST ? 0 : -ENOTSUP;
  out->total_units = m->units * m->n_blocks;
  out->free_units = m->units * (m->n_blocks - m->held);
  out->reserved_units =
      m->open && m->held > m->held_at_begin ? m->units * (m->held - m->held_at_begin) : 0;
  return 0;
}

/* A request never needs more than its prompt and max_new_tokens, whatever asks
 * for more. */
static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  struct contiguous *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  if (form != LLS_FORM_NONE && form != LLS_FORM_KV)
    return -ENOTSUP;
  uint64_t most = (uint64_t)r->prompt_tokens + r->max_new_tokens;
  uint64_t length = (uint64_t)s->cached + tokens;
  if (length > most)
    length = most;
  uint32_t blocks = blocks_of(m, length);
  if (blocks > s->blocks && blocks <= m->n_blocks)
    blocks = region_of(m, r, length);
  out->new_units = blocks > s->blocks ? m->units * (blocks - s->blocks) : 0;
  out->restore_units = 0;
  return 0;
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  struct contiguous *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  *out = (struct lls_cache_info){
      .size = out->size,
      .residency = s->blocks > 0 ? LLS_RESIDENT_DEVICE : LLS_RESIDENT_NONE,
      .form = s->blocks > 0 ? LLS_FORM_KV : LLS_FORM_NONE,
      .device_units = m->units * s->blocks,
      .owned_units = m->units * s->blocks,
      .cached_tokens = s->cached,
      .free_slots = s->blocks * m->block_tokens - s->cached,
  };
  return 0;
}

/* Fills the list that has the region's own place among the lists. */
static void list_region(struct contiguous *m, const struct sequence *s,
                        struct listed *listed)
{
  if (listed->base == s->base && listed->blocks == s->blocks)
    return;
  for (uint32_t i = 0; i < s->blocks; i++)
    m->entries[s->base + i] = (struct lls_block_entry){
        .block = (s->base + i) * m->units,
        .first_token = i * m->block_tokens,
        .count = (uint16_t)m->block_tokens,
        .form = LLS_FORM_KV,
    };
  *listed = (struct listed){s->base, s->blocks};
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  struct contiguous *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL || s->blocks == 0)
    return -EINVAL;
  list_region(m, s, &m->listed[r->slot]);
  m->lists[r->slot] =
      (struct lls_group_list){.entries = m->entries + s->base, .n_entries = s->blocks};
  *out = (struct lls_block_table){.n_groups = 1, .lists = &m->lists[r->slot]};
  return 0;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  const struct contiguous *m = self;
  *out = m->copies;
  return m->n_copies;
}

static uint32_t preempt_modes(void *self)
{
  (void)self;
  return 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER;
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct contiguous *m = self;
  double cached = 0;
  for (uint32_t i = 0; i < m->n_order; i++)
    cached += m->sequences[m->order[i]].cached;
  sink->number(sink->context, "blocks", m->n_blocks);
  sink->number(sink->context, "blocks_free", m->n_blocks - m->held);
  sink->number(sink->context, "blocks_largest_gap", contiguous_largest_gap(m));
  sink->number(sink->context, "tokens_reserved", (double)m->held * m->block_tokens);
  sink->number(sink->context, "tokens_cached", cached);
}

static int audit(void *self, const struct lls_sink *sink)
{
  return contiguous_audit(self, sink);
}

static const struct lls_param parameters[] = {
    RESERVATION_PARAMETERS(struct params),
};

static const struct lls_cache_caps caps = {
    .size = sizeof caps,
    .kinds = 1u << LLS_GROUP_FULL,
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
    .stats = stats,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "contiguous",
    .version = "1.0",
    .description =
        "one contiguous region per sequence, sized for the longest answer (Orca)",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
