/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that a server has run, from a history (core/record/decision_log.h, T
 * lines). */
#ifndef LLS_PROFILE_TOOL_SERVED_H
#define LLS_PROFILE_TOOL_SERVED_H

#include "tools/profile/fit.h"

/* Reads the steps. The history has a step's sums only, so its chunks, and its decodes,
 * get equal lengths. `out` is to be freed in any case. */
int lls_served_steps_read(const char *path, struct lls_profile_steps *out,
                          struct lls_error *err);

/* The error of rates on served steps: the median of estimated over measured time, and
 * the median step's error in either direction. NaN if there are no steps. */
struct lls_served_fit {
  double times, error;
};
int lls_served_steps_fit(const struct lls_profile_point *, size_t n,
                         const struct lls_cost_rates *, struct lls_served_fit *out);

#endif
