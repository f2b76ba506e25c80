/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prefill instance (DistServe, 4.3). Whole prompts, first come, first served, as the
 * memory allows; a prefilled request is offered to the decode instance with least to do
 * (place.h), and its blocks stay here until they have been copied. So when decode is slow
 * the memory fills up with them and no new prompt fits: that is all the back-pressure
 * there is. What decode instances offer is taken over as there is room, and offered
 * again.
 */
#ifndef LLS_POL_PREFILLER_H
#define LLS_POL_PREFILLER_H

#include <llmserve/policy/place.h>
#include <llmserve/policy/step.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_prefiller {
  struct lls_pol_place place;
  uint32_t idle_plans; /* one after the other in which nothing was done */
};

/* A request's scratch word: of the instance that it was offered to, enum lls_refusal or
 * 0. */
#define LLS_POL_PREFILLER_ANSWER 1

struct lls_pol_prefiller_limits {
  uint32_t tokens, batch; /* of prompts in a step, and prompts */
  double keep_free;       /* part of the cache that prompts leave to other uses */
};

void lls_pol_prefiller_plan(struct lls_pol_prefiller *, const struct lls_host *,
                            const struct lls_pol_prefiller_limits *,
                            const struct lls_step_view *, struct lls_plan *);
/* on_refused; true: no decode instance takes it. */
bool lls_pol_prefiller_refused(const struct lls_request *, uint32_t refusal);

#ifdef __cplusplus
}
#endif

#endif
