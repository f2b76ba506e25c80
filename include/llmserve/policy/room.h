/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many tokens of prompts a step has time for, by the cost model. The step is priced
 * as it is so far, all of its chunks behind what is cached of their prompts (a prefix
 * that others have left is), and one chunk more. One chunk that stood for all of them,
 * with no context, made four steps in five late where prompts came behind prefixes, and
 * no deadline of an agent was kept.
 *
 *   lls_pol_room_begin      the decodes of the step are known
 *   within_ns               is set by the policy, to what the step may take
 *   lls_pol_room_tokens     for each prompt: what of it there is time for
 *   lls_pol_room_add        so many of them run
 */
#ifndef LLS_POL_ROOM_H
#define LLS_POL_ROOM_H

#include <llmserve/host.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_POL_ROOM_CHUNKS 16 /* priced one by one; the others of a step as one more */

struct lls_pol_room {
  const struct lls_cost *cost;
  int64_t within_ns; /* LLS_NEVER: nobody knows what a step takes */
  uint32_t n_decodes, n_chunks;
  const uint32_t *decodes; /* (n_decodes) their contexts */
  struct lls_chunk_shape chunks[LLS_POL_ROOM_CHUNKS + 1];
};

/* A step of these decodes, which stay the caller's; within_ns is LLS_NEVER. */
void lls_pol_room_begin(struct lls_pol_room *, const struct lls_cost *,
                        const uint32_t *decodes, uint32_t n_decodes);
/* The cost model has an answer. */
bool lls_pol_room_known(const struct lls_cost *);
/* The time of the step as it is, with so many tokens behind a context more. */
int64_t lls_pol_room_ns(struct lls_pol_room *, uint32_t context, uint32_t tokens);
/* The most tokens of low..most behind a context that end within the time; low where even
 * those do not. within_ns must be known. */
uint32_t lls_pol_room_tokens(struct lls_pol_room *, uint32_t context, uint32_t low,
                             uint32_t most);
/* They are in the step. */
void lls_pol_room_add(struct lls_pol_room *, uint32_t context, uint32_t tokens);

#ifdef __cplusplus
}
#endif

#endif
