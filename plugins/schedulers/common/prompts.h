/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of prompts alone, first come, first served: whole prompts in order of arrival
 * while they are few enough, their tokens are and their memory is there (DistServe's
 * prefill side). Memory for all of a prompt is reserved when it begins.
 */
#ifndef PROMPTS_H
#define PROMPTS_H

#include "step.h"

struct prompts { /* of one plan */
  const struct lls_engine_caps *engine;
  uint32_t budget, batch; /* tokens and prompts in a step */
};

/* One that was begun goes on. */
void prompts_go_on(const struct prompts *, struct step *, const struct lls_request *);
/* The next of those that wait; false: nobody after it may be tried. */
bool prompts_admit(const struct prompts *, struct step *, const struct lls_request *);

#endif
