/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prefill instance (DistServe, 4.3). It runs whole prompts, first come, first served,
 * as memory allows. A prefilled request is offered to the least loaded decode instance
 * (place.h), and its blocks stay here until they have been copied. So if decoding is
 * slow, memory fills up with them and no new prompt fits: this is the only
 * back-pressure. Requests that decode instances offer are taken over as memory allows,
 * and offered again.
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
  uint32_t idle_plans; /* consecutive plans that did nothing */
};

/* A request's scratch word: the answer of the instance that it was offered to, enum
 * lls_refusal or 0. */
#define LLS_POL_PREFILLER_ANSWER 1

struct lls_pol_prefiller_limits {
  uint32_t tokens, batch; /* most prompt tokens in a step, and most prompts */
  double keep_free;       /* fraction of the cache that prompts leave free */
};

void lls_pol_prefiller_plan(struct lls_pol_prefiller *, const struct lls_host *,
                            const struct lls_pol_prefiller_limits *,
                            const struct lls_step_view *, struct lls_plan *);
/* For on_refused. Returns true if no decode instance takes the request. */
bool lls_pol_prefiller_refused(const struct lls_request *, uint32_t refusal);

#ifdef __cplusplus
}
#endif

#endif
