/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest cache manager: the pool is cut into regions of a full context each, and
 * a sequence has one region or none.
 */
#include "t/cache_base.h"

#include <stdio.h>

#define NONE LLS_POL_NIL

#define CHANGES 6 /* in the journal, when a sequence's region changes */

struct sequence {
  uint32_t region, cached;
};

struct null {
  struct base base;
  uint32_t region_blocks, n_regions, n_taken;
  struct sequence *sequences;      /* (n_slots) */
  uint32_t *taken;                 /* (n_regions) */
  struct lls_block_entry *entries; /* (n_regions, region_blocks) */
  struct lls_group_list *lists;    /* (n_regions) */
};

static void clear(struct null *n)
{
  base_close(&n->base);
  free(n->sequences);
  free(n->taken);
  free(n->entries);
  free(n->lists);
}

static void destroy(void *self)
{
  clear(self);
  free(self);
}

static int set_up(struct null *n, const struct lls_host *host,
                  const struct lls_cache_geometry *g)
{
  const struct lls_engine_caps *e = host->engine;
  int rc = base_open(&n->base, host, g, CHANGES * 4 * e->max_requests);
  uint32_t blocks = g->device_units / n->base.units;
  n->region_blocks = lls_pol_min(base_blocks(&n->base, e->max_context), blocks);
  n->n_regions = n->region_blocks > 0 ? blocks / n->region_blocks : 0;
  n->sequences = calloc(n->base.n_slots, sizeof *n->sequences);
  n->taken = calloc(n->n_regions + 1, sizeof *n->taken);
  n->entries = calloc((size_t)n->n_regions * n->region_blocks + 1, sizeof *n->entries);
  n->lists = calloc(n->n_regions + 1, sizeof *n->lists);
  if (rc < 0 || !n->sequences || !n->taken || !n->entries || !n->lists) {
    clear(n);
    return -ENOMEM;
  }
  for (uint32_t i = 0; i < n->n_regions * n->region_blocks; i++)
    n->entries[i] = base_entry(&n->base, i % n->region_blocks, i * n->base.units);
  return 0;
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  struct null *n = calloc(1, sizeof *n);
  int rc = n != NULL ? set_up(n, host, g) : -ENOMEM;
  (void)params;
  if (rc < 0)
    free(n);
  else
    *self = n;
  return rc;
}

/* Gives the sequence this region in place of the one that it has, or NONE. */
static void put(struct null *n, struct sequence *s, uint32_t region)
{
  if (s->region != NONE) {
    base_set(n, &n->taken[s->region], 0);
    base_set(n, &n->n_taken, n->n_taken - 1);
  }
  if (region != NONE) {
    base_set(n, &n->taken[region], 1);
    base_set(n, &n->n_taken, n->n_taken + 1);
  }
  base_set(n, &s->region, region);
  base_set(n, &s->cached, 0);
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct null *n = self;
  struct sequence *s = &n->sequences[r->slot];
  (void)form;
  (void)flags;
  if (s->cached + (uint64_t)tokens > (uint64_t)n->region_blocks * n->base.block_tokens)
    return LLS_RESERVE_NEVER;
  if (s->region != NONE)
    return LLS_RESERVE_OK;
  if (!base_has_room(n, CHANGES))
    return LLS_RESERVE_LATER;
  for (uint32_t i = 0; i < n->n_regions; i++)
    if (!n->taken[i]) {
      put(n, s, i);
      return LLS_RESERVE_OK;
    }
  return LLS_RESERVE_LATER;
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct null *n = self;
  if (mode != LLS_PREEMPT_RECOMPUTE)
    return -ENOTSUP;
  if (!base_has_room(n, CHANGES))
    return -ENOBUFS;
  put(n, &n->sequences[r->slot], NONE);
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
  struct null *n = self;
  (void)how;
  put(n, &n->sequences[r->slot], NONE);
}

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  const struct null *n = self;
  uint32_t units = tier == LLS_TIER_DEVICE ? n->base.units * n->region_blocks : 0;
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
                       ? n->base.units * n->region_blocks
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
  out->device_units = out->owned_units = n->base.units * n->region_blocks;
  out->free_slots = n->region_blocks * n->base.block_tokens - s->cached;
  return 0;
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  const struct null *n = self;
  uint32_t region = n->sequences[r->slot].region, count = n->region_blocks;
  if (region == NONE)
    return -EINVAL;
  *out = base_table(&n->lists[region], n->entries + (size_t)region * count, count);
  return 0;
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  ((struct null *)self)->sequences[r->slot].cached = cached_tokens;
}

static int audit(void *self, const struct lls_sink *sink)
{
  const struct null *n = self;
  char line[64];
  for (uint32_t i = 0; i < n->base.n_slots; i++) {
    const struct sequence *s = &n->sequences[i];
    if (s->region == NONE || !n->taken[s->region])
      continue;
    snprintf(line, sizeof line, "slot %u: region %u, cached %u", i, s->region, s->cached);
    sink->text(sink->context, line);
  }
  return 0;
}

static const struct lls_cache_vtable vtable = {
    BASE_OWN,         BASE_TRANSACTION,   BASE_PLAIN,
    .create = create, .release = release, .table = table,
};

BASE_PLUGIN("null", "a region per sequence", &vtable);
