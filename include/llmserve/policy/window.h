/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sequence in blocks of block_tokens tokens in group 0, which may be a WINDOW: how many
 * leading blocks no step reads any more, and how many are held at most.
 */
#ifndef LLS_POL_WINDOW_H
#define LLS_POL_WINDOW_H

#include <llmserve/host.h>
#include <llmserve/policy/number.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_window {
  const struct lls_group *group;
  uint32_t tokens; /* 0 = none: everything is held */
  uint32_t block_tokens;
  uint32_t step_tokens; /* most tokens of a step */
};

static inline struct lls_pol_window
lls_pol_window_of(const struct lls_engine_caps *engine, uint32_t block_tokens)
{
  const struct lls_group *group = engine->groups[0];
  const struct lls_pol_window w = {group, group->window, block_tokens,
                                   engine->max_step_tokens};
  return w;
}

static inline uint32_t lls_pol_window_blocks(const struct lls_pol_window *w,
                                             uint64_t tokens)
{
  return (uint32_t)((tokens + w->block_tokens - 1) / w->block_tokens);
}

/* Returns the number of leading blocks that no step after `cached` tokens reads. */
static inline uint32_t lls_pol_window_gone(const struct lls_pol_window *w,
                                           uint32_t cached)
{
  return lls_group_begin(w->group, cached) / w->block_tokens;
}

/*
 * Returns for how many of `tokens` after `cached` ones a reserve takes memory: all; or,
 * with a window, as many as a step can compute, plus those to be copied from another
 * instance (the view has the number cached there). Later tokens reuse blocks that left
 * the window by then, so a prompt may be longer than the pool, independent of how much
 * is reserved.
 */
static inline uint32_t lls_pol_window_reserved(const struct lls_pol_window *w,
                                               const struct lls_request *r,
                                               uint32_t cached, uint32_t tokens)
{
  return w->tokens == 0 || r->cached_tokens > cached
             ? tokens
             : lls_pol_min(tokens, w->step_tokens);
}

/* Returns the most blocks that the sequence of r holds at once while it grows from
 * `cached` tokens, of which `gone` blocks were freed, by `tokens` more, in the longest
 * possible steps. */
static inline uint32_t lls_pol_window_peak(const struct lls_pol_window *w,
                                           const struct lls_request *r, uint32_t cached,
                                           uint32_t gone, uint32_t tokens)
{
  uint32_t all = lls_pol_window_blocks(w, (uint64_t)cached + tokens);
  uint32_t left = all - lls_pol_min(all, gone);
  uint32_t step =
      lls_pol_min(lls_pol_min(tokens, lls_request_pending(r)), w->step_tokens);
  uint32_t most = lls_pol_window_blocks(w, (uint64_t)w->tokens + step) + 1;
  return w->tokens == 0 ? left : lls_pol_min(left, most);
}

#ifdef __cplusplus
}
#endif

#endif
