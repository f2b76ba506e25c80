/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of only prompts, first come, first served: whole prompts in order of arrival,
 * while their number, their tokens and their memory fit (DistServe's prefill side).
 * Memory for a whole prompt is reserved when it begins.
 */
#ifndef LLS_POL_PROMPTS_H
#define LLS_POL_PROMPTS_H

#include <llmserve/policy/step.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_prompts { /* limits of one plan */
  const struct lls_engine_caps *engine;
  uint32_t budget, batch; /* most tokens and most prompts in a step */
};

/* Continues a prompt that was begun. */
void lls_pol_prompts_go_on(const struct lls_pol_prompts *, struct lls_pol_step *,
                           const struct lls_request *);
/* Adds a waiting prompt. Returns false if no later one may be tried. */
bool lls_pol_prompts_admit(const struct lls_pol_prompts *, struct lls_pol_step *,
                           const struct lls_request *);

#ifdef __cplusplus
}
#endif

#endif
