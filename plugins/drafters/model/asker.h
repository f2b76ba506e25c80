/* SPDX-License-Identifier: Apache-2.0 */
/* A drafter that takes the guesses of the draft model, as many as pay (candidates.h): the
 * drafters model and heads, which differ in what the core runs. */
#ifndef ASKER_H
#define ASKER_H

#include <llmserve/drafter.h>

#include "candidates.h"

struct asker_params {
  int64_t depth;
};

#define ASKER_PARAM                                                                      \
  LLS_PARAM_INT(struct asker_params, depth, "0", 0, CANDIDATES_MAX, "tokens",            \
                "guesses of each request before each step; 0 is as many as pay",         \
                .flags = LLS_PARAM_RELOADABLE)

extern const struct lls_drafter_vtable asker_vtable;

#endif
