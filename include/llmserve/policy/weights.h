/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights by name in one parameter of llmserve.ini: "alice:3, bob:0.5". The names are
 * tenants (lls_request.tenant_name), or other things that a policy weighs; they contain
 * no commas, and blanks around them are ignored. A name that is not listed has weight
 * 1.
 */
#ifndef LLS_POL_WEIGHTS_H
#define LLS_POL_WEIGHTS_H

#include <llmserve/host.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For create and reconfigure. Returns 0; or -EINVAL, with a sentence that names the
 * parameter. */
int lls_pol_weights_check(const struct lls_host *, const char *parameter,
                          const char *weights);

/* Returns the weight of a name in a checked text. It scans the whole text: call it once
 * per request. */
double lls_pol_weight(const char *weights, const char *name);

#ifdef __cplusplus
}
#endif

#endif
