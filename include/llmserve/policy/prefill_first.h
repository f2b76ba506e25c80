/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continuous batching, prefill first: vLLM's scheduling, with any order of the waiting
 * requests. A step has either prefills or decodes, so it runs on every engine. Waiting
 * requests precede running ones as long as their whole prompts fit the memory above the
 * watermark; when memory runs out, the newest running request is preempted.
 *
 * The oldest running request is never preempted, so in whatever order requests are
 * admitted, some request always completes.
 */
#ifndef LLS_POL_PREFILL_FIRST_H
#define LLS_POL_PREFILL_FIRST_H

#include <llmserve/policy/step.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_prefill_first_params {
  int64_t max_tokens, max_seqs;
  double watermark;
  int64_t preempt;
};

#define LLS_POL_PREFILL_FIRST_PARAMETERS(STRUCT)                                         \
  LLS_POL_STEP_MAX_TOKENS(STRUCT), LLS_POL_STEP_MAX_SEQS(STRUCT, "256"),                 \
      LLS_POL_STEP_PARAMETERS(STRUCT)

/* The order in which requests are admitted. `next` is called until a request does not
 * fit, and then not again in that step. */
struct lls_pol_admission {
  void *context;
  /* Returns each waiting request of the view at most once; NULL: no more. */
  const struct lls_request *(*next)(void *context);
  /* Optional: the request is in the plan. */
  void (*let_in)(void *context, const struct lls_request *);
  bool skip_misfits; /* continue after a request that does not fit */
};

void lls_pol_prefill_first_plan(const struct lls_host *,
                                const struct lls_pol_prefill_first_params *,
                                const struct lls_pol_admission *,
                                const struct lls_step_view *, struct lls_plan *);
/* Admits waiting requests in order of arrival. */
void lls_pol_prefill_first_plan_in_order(const struct lls_host *,
                                         const struct lls_pol_prefill_first_params *,
                                         const struct lls_step_view *, struct lls_plan *);

#ifdef __cplusplus
}
#endif

#endif
