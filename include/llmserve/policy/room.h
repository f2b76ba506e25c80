/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many tokens of prompts a step has time for, by the cost model. The estimate is
 * for the step so far, with each of its chunks after the cached part of its prompt
 * (such as a shared prefix), and one chunk more. A single chunk without context that
 * represented all of them made four steps in five late when prompts followed prefixes,
 * and no agent's deadline was met.
 *
 *   lls_pol_room_begin      when the decodes of the step are known
 *   within_ns               the policy sets it to the time that the step may take
 *   lls_pol_room_tokens     for each prompt: the tokens that there is time for
 *   lls_pol_room_add        the tokens that actually run
 */
#ifndef LLS_POL_ROOM_H
#define LLS_POL_ROOM_H

#include <llmserve/host.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Estimated separately; further chunks are combined into one. */
#define LLS_POL_ROOM_CHUNKS 16

struct lls_pol_room {
  const struct lls_cost *cost;
  int64_t within_ns; /* LLS_NEVER: the cost model has no estimates */
  uint32_t n_decodes, n_chunks;
  const uint32_t *decodes; /* (n_decodes) contexts of the decodes */
  struct lls_chunk_shape chunks[LLS_POL_ROOM_CHUNKS + 1];
};

/* Begins a step with these decodes, whose array the caller must keep; within_ns is
 * LLS_NEVER. */
void lls_pol_room_begin(struct lls_pol_room *, const struct lls_cost *,
                        const uint32_t *decodes, uint32_t n_decodes);
/* Returns true if the cost model has estimates. */
bool lls_pol_room_known(const struct lls_cost *);
/* Returns the time of the step with `tokens` after `context` added. */
int64_t lls_pol_room_ns(struct lls_pol_room *, uint32_t context, uint32_t tokens);
/* Returns the most tokens, from low to most, that after `context` end within the time;
 * low if even those do not. within_ns must be set. */
uint32_t lls_pol_room_tokens(struct lls_pol_room *, uint32_t context, uint32_t low,
                             uint32_t most);
/* Adds the tokens to the step. */
void lls_pol_room_add(struct lls_pol_room *, uint32_t context, uint32_t tokens);

#ifdef __cplusplus
}
#endif

#endif
