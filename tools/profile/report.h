/* SPDX-License-Identifier: Apache-2.0 */
/* Reports a fit's errors: a table for people, and the measured steps as CSV. The last
 * steps, from `used` on, were held out of the fit. */
#ifndef LLS_PROFILE_TOOL_REPORT_H
#define LLS_PROFILE_TOOL_REPORT_H

#include "tools/profile/rounds.h"

void lls_profile_print_fit(const struct lls_profile_steps *, size_t used,
                           const struct lls_cost_rates *);
int lls_profile_write_steps(const char *path, const struct lls_profile_steps *,
                            size_t used, const struct lls_cost_rates *,
                            struct lls_error *err);

#endif
