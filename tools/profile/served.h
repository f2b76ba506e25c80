/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that a server has run, from a history (core/record/decision_log.h, T lines). */
#ifndef LLS_PROFILE_TOOL_SERVED_H
#define LLS_PROFILE_TOOL_SERVED_H

#include "tools/profile/fit.h"

/* Steps with the same sums, each chunk and each decode of a step as long as the others.
 * What is in `out` is to be freed in any case. */
int lls_served_steps_read(const char *path, struct lls_profile_steps *out,
                          struct lls_error *err);

/* How far rates are from steps: estimated over measured, the median of it, and how far
 * the median step is off either way. NaN of no steps. */
struct lls_served_fit {
  double times, error;
};
int lls_served_steps_fit(const struct lls_profile_point *, size_t n,
                         const struct lls_cost_rates *, struct lls_served_fit *out);

#endif
