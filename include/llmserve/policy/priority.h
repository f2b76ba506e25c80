/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduling by priority: in every step the requests with the smallest keys run, up to
 * a batch, whether or not they are on the device. A request on the device that is not
 * chosen keeps its memory until one before it needs it; then requests are preempted,
 * the last in order first.
 *
 * The first request in order always runs: it may take the memory of all others. So some
 * request always completes, if not every request soon.
 *
 * An engine that cannot mix runs only the chosen prompts, if any has memory, else the
 * chosen decodes. Requests off the device stay in a heap from step to step; those on
 * the device are few, and are sorted in each step, since their keys change with every
 * token.
 */
#ifndef LLS_POL_PRIORITY_H
#define LLS_POL_PRIORITY_H

#include <llmserve/policy/ranked.h>
#include <llmserve/policy/step.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_priority_params {
  int64_t max_tokens, max_seqs;
  double watermark;
  int64_t preempt;
};

#define LLS_POL_PRIORITY_PARAMETERS(STRUCT, SEQUENCES)                                   \
  LLS_POL_STEP_MAX_TOKENS(STRUCT), LLS_POL_STEP_MAX_SEQS(STRUCT, SEQUENCES),             \
      LLS_POL_STEP_PARAMETERS(STRUCT)

struct lls_pol_priority {
  struct lls_pol_ranked waiting;
  struct lls_pol_heap running; /* for the plan being made: requests not yet considered */
  struct lls_pol_heap_entry
      *deferred; /* (max_requests) decodes to be considered after prompts */
  uint32_t n_deferred;
};

struct lls_pol_priority_rules { /* rules of one plan */
  const struct lls_pol_priority_params *params;
  bool whole; /* prompts are cut only if no step would hold them */
  bool evict; /* a waiting request may take the memory of running ones that rank after
               * it */
  /* units to keep free by offloading requests that were not chosen; while more are
   * free, the next requests in order are uploaded */
  uint32_t reserve;
  bool closed;   /* only swapped requests are admitted to the device */
  bool uploaded; /* a request on the host runs only after an upload */
  /* requests on the device that must not run, because they are to be offloaded; NULL:
   * none */
  bool (*leaves)(void *scheduler, const struct lls_request *);
};

int lls_pol_priority_init(struct lls_pol_priority *, struct lls_pol_scheduler *,
                          lls_pol_ranked_key *);
void lls_pol_priority_free(struct lls_pol_priority *);
void lls_pol_priority_plan(struct lls_pol_priority *,
                           const struct lls_pol_priority_rules *,
                           const struct lls_step_view *, struct lls_plan *);

#ifdef __cplusplus
}
#endif

#endif
