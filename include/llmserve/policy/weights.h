/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights by name in one parameter of llmserve.ini: "alice:3, bob:0.5". Names are those
 * of tenants (lls_request.tenant_name) or whatever else a policy weighs; they have no
 * commas, and blanks around them do not count. A name that is not listed has 1.
 */
#ifndef LLS_POL_WEIGHTS_H
#define LLS_POL_WEIGHTS_H

#include <llmserve/host.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In create and reconfigure: 0, or -EINVAL and why, which names the parameter. */
int lls_pol_weights_check(const struct lls_host *, const char *parameter,
                          const char *weights);

/* The weight in a text that was checked. Looks through all of it: ask once a request. */
double lls_pol_weight(const char *weights, const char *name);

#ifdef __cplusplus
}
#endif

#endif
