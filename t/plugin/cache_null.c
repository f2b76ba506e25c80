/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest cache manager: the pool is cut into regions of a full context each, and
 * a sequence has one region or none. Rollback uses a list of (sequence, previous
 * region).
 */
#include <llmserve/cache.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define NONE UINT32_MAX

struct sequence {
  uint32_t region, cached;
};

struct undo {
  uint32_t slot;
  struct sequence before;
};

struct null {
  uint32_t units; /* of a block */
  uint32_t block_tokens, region_blocks, n_regions, n_slots, n_taken, n_undo, max_undo;
  struct sequence *sequences;      /* (n_slots) */
  bool *taken;                     /* (n_regions) */
  struct lls_block_entry *entries; /* (n_regions, region_blocks) */
  struct lls_group_list *lists;    /* (n_regions) */
  struct undo *undo;               /* (max_undo) */
};

static void destroy(void *self)
{
  struct null *n = self;
  free(n->sequences);
  free(n->taken);
  free(n->entries);
  free(n->lists);
  free(n->undo);
  free(n);
}

static void fill_entries(struct null *n)
{
  for (uint32_t i = 0; i < n->n_regions * n->region_blocks; i++)
    n->entries[i] = (struct lls_block_entry){
        .block = i * n->units,
        .first_token = i % n->region_blocks * n->block_tokens,
        .count = (uint16_t)n->block_tokens,
    };
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  struct null *n = calloc(1, sizeof *n);
  (void)params;
  if (n == NULL)
    return -ENOMEM;
  n->block_tokens = g->block_tokens;
  n->n_slots = host->engine->max_requests;
  n->units = host->engine->groups[0]->forms[0].block_units;
  n->region_blocks = (host->engine->max_context + g->block_tokens - 1) / g->block_tokens;
  if (n->region_blocks > g->device_units / n->units)
    n->region_blocks = g->device_units / n->units;
  n->n_regions = n->region_blocks > 0 ? g->device_units / n->units / n->region_blocks : 0;
  n->max_undo = 4 * n->n_slots;
  n->sequences = calloc(n->n_slots, sizeof *n->sequences);
  n->taken = calloc(n->n_regions + 1, sizeof *n->taken);
  n->entries = calloc((size_t)n->n_regions * n->region_blocks + 1, sizeof *n->entries);
  n->lists = calloc(n->n_regions + 1, sizeof *n->lists);
  n->undo = calloc(n->max_undo, sizeof *n->undo);
  if (!n->sequences || !n->taken || !n->entries || !n->lists || !n->undo) {
    destroy(n);
    return -ENOMEM;
  }
  fill_entries(n);
  *self = n;
  return 0;
}

static void put(struct null *n, uint32_t slot, struct sequence s)
{
  struct sequence *old = &n->sequences[slot];
  if (old->region != NONE)
    n->taken[old->region] = false, n->n_taken--;
  if (s.region != NONE)
    n->taken[s.region] = true, n->n_taken++;
  *old = s;
}

static void change(struct null *n, uint32_t slot, struct sequence s)
{
  n->undo[n->n_undo++] = (struct undo){slot, n->sequences[slot]};
  put(n, slot, s);
}

static int begin(void *self)
{
  ((struct null *)self)->n_undo = 0;
  return 0;
}

static uint32_t mark(void *self)
{
  return ((struct null *)self)->n_undo;
}

static int rollback(void *self, uint32_t to)
{
  struct null *n = self;
  while (n->n_undo > to) {
    n->n_undo--;
    put(n, n->undo[n->n_undo].slot, n->undo[n->n_undo].before);
  }
  return 0;
}

static int commit(void *self)
{
  (void)self;
  return 0;
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct null *n = self;
  struct sequence *s = &n->sequences[r->slot];
  (void)form;
  (void)flags;
  if (s->cached + (uint64_t)tokens > (uint64_t)n->region_blocks * n->block_tokens)
    return LLS_RESERVE_NEVER;
  if (s->region != NONE)
    return LLS_RESERVE_OK;
  if (n->n_undo == n->max_undo)
    return LLS_RESERVE_LATER;
  for (uint32_t i = 0; i < n->n_regions; i++)
    if (!n->taken[i]) {
      change(n, r->slot, (struct sequence){.region = i});
      return LLS_RESERVE_OK;
    }
  return LLS_RESERVE_LATER;
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct null *n = self;
  if (mode != LLS_PREEMPT_RECOMPUTE)
    return -ENOTSUP;
  if (n->n_undo == n->max_undo)
    return -ENOBUFS;
  change(n, r->slot, (struct sequence){.region = NONE});
  return 0;
}

static int admit(void *self, const struct lls_request *r)
{
  struct null *n = self;
  n->sequences[r->slot] = (struct sequence){.region = NONE};
  return 0;
}

static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  (void)how;
  put(self, r->slot, (struct sequence){.region = NONE});
}

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  const struct null *n = self;
  uint32_t units = tier == LLS_TIER_DEVICE ? n->units * n->region_blocks : 0;
  out->total_units = units * n->n_regions;
  out->free_units = units * (n->n_regions - n->n_taken);
  out->reserved_units = 0;
  return tier <= LLS_TIER_HOST ? 0 : -ENOTSUP;
}

static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  const struct null *n = self;
  (void)form;
  out->new_units = n->sequences[r->slot].region == NONE && tokens > 0
                       ? n->units * n->region_blocks
                       : 0;
  out->restore_units = 0;
  return 0;
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  const struct null *n = self;
  const struct sequence *s = &n->sequences[r->slot];
  *out = (struct lls_cache_info){.size = out->size, .cached_tokens = s->cached};
  if (s->region == NONE)
    return 0;
  out->residency = LLS_RESIDENT_DEVICE;
  out->form = LLS_FORM_KV;
  out->device_units = out->owned_units = n->units * n->region_blocks;
  out->free_slots = n->region_blocks * n->block_tokens - s->cached;
  return 0;
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  const struct null *n = self;
  uint32_t region = n->sequences[r->slot].region, count = n->region_blocks;
  if (region == NONE)
    return -EINVAL;
  n->lists[region] = (struct lls_group_list){
      .entries = n->entries + (size_t)region * count, .n_entries = count};
  *out = (struct lls_block_table){.n_groups = 1, .lists = &n->lists[region]};
  return 0;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  (void)self;
  *out = NULL;
  return 0;
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  ((struct null *)self)->sequences[r->slot].cached = cached_tokens;
}

static uint32_t preempt_modes(void *self)
{
  (void)self;
  return 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER;
}

static int audit(void *self, const struct lls_sink *sink)
{
  const struct null *n = self;
  char line[64];
  for (uint32_t i = 0; i < n->n_slots; i++) {
    const struct sequence *s = &n->sequences[i];
    if (s->region == NONE || !n->taken[s->region])
      continue;
    snprintf(line, sizeof line, "slot %u: region %u, cached %u", i, s->region, s->cached);
    sink->text(sink->context, line);
  }
  return 0;
}

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
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "null",
    .version = "1.0",
    .description = "test fixture: a region per sequence",
    .licence = "Apache-2.0",
    .vtable = &vtable,
};
