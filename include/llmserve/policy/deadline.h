/* SPDX-License-Identifier: Apache-2.0 */
/* How long a chunk of prompts may be for its step to end in time, by the cost model. */
#ifndef LLS_POL_DEADLINE_H
#define LLS_POL_DEADLINE_H

#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The contents of the step beside the chunk. */
struct lls_pol_deadline_step {
  uint32_t context;        /* tokens before the chunk */
  uint32_t n_decodes;      /* 0: no decodes */
  const uint32_t *decodes; /* (n_decodes) their contexts */
};

/* The most tokens of low..high whose modelled step is within the deadline; low if even
 * that is too long. Time grows with tokens, so it is found by bisection. */
uint32_t lls_pol_deadline_tokens(const struct lls_cost *,
                                 const struct lls_pol_deadline_step *, uint32_t low,
                                 uint32_t high, int64_t deadline_ns);

#ifdef __cplusplus
}
#endif

#endif
