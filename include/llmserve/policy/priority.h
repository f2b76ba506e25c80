/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduling by priority: in every step the requests with the smallest keys run, up to a
 * batch, wherever they are. A request on the device that is not chosen keeps its memory
 * until one before it needs it; then it is preempted, the last in order first.
 *
 * The first in order always runs: it may take the memory of all others. So something
 * always ends, if not everything soon.
 *
 * An engine that can't mix gets the chosen prompts alone, if any has room, else the
 * chosen decodes. Those off the device are in a heap from step to step; those on it are
 * few and are ordered anew in each, since their keys change with every token.
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
  struct lls_pol_heap running; /* of the plan in the making: not yet looked at */
  struct lls_pol_heap_entry
      *deferred; /* (max_requests) decodes that wait for their pass */
  uint32_t n_deferred;
};

struct lls_pol_priority_rules { /* of one plan */
  const struct lls_pol_priority_params *params;
  bool whole; /* prompts are cut only if no step would hold them */
  bool evict; /* a waiting request may take the memory of running ones after it */
  /* units that requests not chosen keep free by leaving for the host; while more are
   * free, the next ones come back from there */
  uint32_t reserve;
  bool closed;   /* of those off the device only swapped requests may come back */
  bool uploaded; /* a request on the host runs when it has been uploaded, not before */
  /* requests on the device that must not run, since they are to leave; NULL: none */
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
