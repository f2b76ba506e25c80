/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The price of an eviction. A request whose cache was copied to the host returns within
 * milliseconds; a dropped cache must be prefilled again. Under overload the device may do
 * little else: 13,425 preemptions for 83 prompts of 6,000 tokens, 3 tokens/s instead of
 * 250 (alise, Llama-3-8B on an A100-40G).
 */
#ifndef EVICTION_H
#define EVICTION_H

#include <llmserve/scheduler.h>

/* Device units of the running request that has the most. */
static inline uint32_t eviction_largest(const struct lls_step_view *v)
{
  uint32_t largest = 0;
  for (uint32_t i = 0; i < v->n_running; i++) {
    struct lls_cache_info info = {.size = sizeof info};
    v->cache->info(v->cache->context, v->running[i], &info);
    largest = info.device_units > largest ? info.device_units : largest;
  }
  return largest;
}

/* Free units of a tier; 0 if the cache has no such tier. */
static inline uint32_t eviction_room(const struct lls_step_view *v, uint32_t tier)
{
  struct lls_capacity c = {.size = sizeof c};
  return v->cache->capacity(v->cache->context, tier, &c) < 0 ? 0 : c.free_units;
}

/* True if an eviction would drop the cache of the largest running request: swapping is
 * off, or the host has no room for it. */
static inline bool eviction_drops(const struct lls_step_view *v)
{
  return v->preempt_mode != LLS_PREEMPT_SWAP ||
         eviction_room(v, LLS_TIER_HOST) < eviction_largest(v);
}

/* True if requests wait and memory is so short that a request as large as the largest
 * running one could be admitted only after an eviction. */
static inline bool eviction_is_near(const struct lls_step_view *v)
{
  return v->n_waiting + v->n_preempted > 0 &&
         eviction_room(v, LLS_TIER_DEVICE) < eviction_largest(v);
}

#endif
