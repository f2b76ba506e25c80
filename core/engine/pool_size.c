/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How large the cache pool is: as the configuration says, or what a trial run leaves
 * free on a device with memory of its own (memory_profile.c), or enough for
 * max_sequences sequences, but at most half of the free memory, so that the machine
 * stays usable.
 *
 * A sequence may hold its whole context. Where layers have a sliding window and the cache
 * manager frees the blocks before it, a sequence holds only the window, the tokens of a
 * step, and one partly used block at each end (groups.c).
 */
#include <errno.h>
#include <stdio.h>

#include "core/base/least.h"
#include "core/engine/engine_internal.h"

#define MIB(bytes) ((size_t)(bytes) >> 20)

static uint32_t units_in(const struct lls_engine *e, size_t bytes)
{
  size_t units = bytes / lls_unit_bytes(&e->pool_shape);
  return units > UINT32_MAX ? UINT32_MAX : (uint32_t)units;
}

/* Returns the most tokens that a sequence holds at once in any layer; `why` gets the
 * reason. */
static uint32_t sequence_tokens(const struct lls_engine *e, char *why, size_t size)
{
  const struct lls_engine_options *o = &e->options;
  const struct lls_group *g = &e->groups[e->caps.n_groups - 1].seen;
  uint32_t context = e->caps.max_context, window = e->groups[0].seen.window;
  size_t slides = (size_t)window + o->max_tokens + 2 * (size_t)o->block_tokens;
  if (o->gives_back && window > 0 && slides < context) {
    snprintf(why, size, "a window of %u, a step of %u and two blocks", window,
             o->max_tokens);
    return (uint32_t)slides;
  }
  if (o->gives_back && g->window > 0)
    snprintf(why, size, "the context, and windows of %u layers",
             e->config.layers - e->groups[0].seen.layers);
  else
    snprintf(why, size, "the context");
  return context;
}

/* Units for max_sequences sequences. Only some layers have windows or states where there
 * are several groups; then the tokens of a step, which are more than those windows have,
 * and two states that a step may write after the one it reads, are counted once for all
 * sequences. */
static size_t full_units(const struct lls_engine *e)
{
  size_t n = e->options.max_sequences, context = e->caps.max_context;
  if (e->caps.n_groups == 1)
    return lls_engine_units_for(e, context) * n;
  return lls_engine_resting_units(e, context) * n +
         lls_engine_units_for(e, e->options.max_tokens);
}

/* Returns how many of the bytes that are free a draft model will take. A device with
 * memory of its own has allocated its memory already; a layer that guesses is left out,
 * with its cache, if there is no room for it. */
static size_t left_beside(const struct lls_engine *e, size_t available)
{
  const struct lls_engine_options *o = &e->options;
  if (e->device->has_own_memory)
    return 0;
  if (o->heads == NULL)
    return lls_least_size(available, o->beside_bytes);
  size_t layer = lls_weights_bytes_of(o->heads, &e->weights, &e->model);
  return o->beside_bytes < available && layer < available - o->beside_bytes
             ? layer + o->beside_bytes
             : 0;
}

static int default_bytes(struct lls_engine *e, size_t *bytes, struct lls_error *err)
{
  const struct lls_engine_options *o = &e->options;
  char why[96];
  size_t total, available, unit = lls_unit_bytes(&e->pool_shape);
  int rc = e->device->ops->memory(e->device, &total, &available);
  if (rc < 0)
    return lls_fail(err, rc, "the device does not tell its free memory");
  available /= lls_engine_sharers(e);
  available -= left_beside(e, available);
  uint32_t tokens = sequence_tokens(e, why, sizeof why);
  size_t full = full_units(e) * unit;
  size_t least = lls_engine_units_for(e, o->max_tokens) * unit;
  *bytes = full;
  snprintf(e->pool_reason, sizeof e->pool_reason, "%u sequences of %u tokens: %s",
           o->max_sequences, tokens, why);
  if (o->cache_share > 0 || full > available / 2) {
    double share = o->cache_share > 0 ? o->cache_share : 0.5;
    *bytes = (size_t)((double)available * share);
    if (o->cache_share > 0)
      *bytes = lls_engine_without_scratch(e, *bytes);
    snprintf(e->pool_reason, sizeof e->pool_reason,
             "%g %% of %zu MiB that are free; %u sequences of %u tokens (%s) are %zu MiB",
             100 * share, MIB(available), o->max_sequences, tokens, why, MIB(full));
  }
  if (*bytes < least) {
    *bytes = least;
    snprintf(e->pool_reason, sizeof e->pool_reason, "one step of %u tokens needs it",
             o->max_tokens);
  }
  return 0;
}

/* Gives every rank's pool the size of the smallest one, because all ranks use the same
 * block tables. */
static int agree_on_units(struct lls_engine *e, struct lls_error *err)
{
  struct lls_ranks *ranks = e->options.ranks;
  struct lls_pool_shape *shape = &e->pool_shape;
  uint32_t mine[2] = {shape->device_units, shape->host_units}, all[LLS_MAX_RANKS][2];
  if (!lls_engine_is_shared(e))
    return 0;
  if (ranks->ops->exchange(ranks, mine, sizeof mine, all) < 0)
    return lls_ranks_failed(ranks, err);
  for (uint32_t rank = 0; rank < ranks->size; rank++) {
    shape->device_units = lls_least_u32(shape->device_units, all[rank][0]);
    shape->host_units = lls_least_u32(shape->host_units, all[rank][1]);
  }
  return 0;
}

/* True if a trial run sizes the pool. Ranks of one model do not use it: they may share
 * the memory of a machine, and all would have to run their trials together. */
bool lls_engine_measures_memory(const struct lls_engine *e)
{
  return e->device->has_own_memory && e->options.pool.gpu_memory_utilization > 0 &&
         !lls_engine_is_shared(e);
}

static int choose_bytes(struct lls_engine *e, size_t *bytes, struct lls_error *err)
{
  *bytes = e->options.cache_bytes;
  snprintf(e->pool_reason, sizeof e->pool_reason, "[cache] device_memory says so");
  if (*bytes > 0)
    return 0;
  if (!lls_engine_measures_memory(e))
    return default_bytes(e, bytes, err);
  snprintf(e->pool_reason, sizeof e->pool_reason,
           "what [cache] gpu_memory_utilization = %g leaves",
           e->options.pool.gpu_memory_utilization);
  return lls_engine_profile_memory(e, bytes, err);
}

int lls_engine_make_pool(struct lls_engine *e, struct lls_error *err)
{
  size_t bytes;
  int rc = choose_bytes(e, &bytes, err);
  if (rc < 0)
    return rc;
  e->pool_shape.device_units = units_in(e, bytes);
  e->pool_shape.host_units = units_in(e, lls_engine_host_bytes(e, bytes));
  rc = agree_on_units(e, err);
  if (rc < 0)
    return rc;
  size_t least = lls_engine_units_for(e, 1);
  if (e->pool_shape.device_units < least)
    return lls_fail(err, -EINVAL,
                    "a cache of %zu KiB does not hold one block of keys and values "
                    "(%zu KiB)",
                    bytes / 1024, least * lls_unit_bytes(&e->pool_shape) / 1024);
  if (e->caps.forms & LLS_BIT_HIDDEN)
    e->pool_shape.scratch_blocks = lls_engine_scratch_blocks(e);
  rc = e->device->ops->pool_create(e->device, &e->pool_shape, &e->pool, err);
  if (rc < 0)
    return lls_fail_at(err, rc, "cache of %zu MiB", MIB(bytes));
  bool prepared = e->options.cache_bytes == 0 && lls_engine_measures_memory(e);
  return prepared ? 0 : lls_engine_prepare(e, err);
}
