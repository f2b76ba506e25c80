/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of prompts alone, first come, first served: whole prompts in order of arrival
 * while they are few enough, their tokens are and their memory is there (DistServe's
 * prefill side). Memory for all of a prompt is reserved when it begins.
 */
#ifndef LLS_POL_PROMPTS_H
#define LLS_POL_PROMPTS_H

#include <llmserve/policy/step.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_prompts { /* of one plan */
  const struct lls_engine_caps *engine;
  uint32_t budget, batch; /* tokens and prompts in a step */
};

/* One that was begun goes on. */
void lls_pol_prompts_go_on(const struct lls_pol_prompts *, struct lls_pol_step *,
                           const struct lls_request *);
/* The next of those that wait; false: none after it may be tried. */
bool lls_pol_prompts_admit(const struct lls_pol_prompts *, struct lls_pol_step *,
                           const struct lls_request *);

#ifdef __cplusplus
}
#endif

#endif
