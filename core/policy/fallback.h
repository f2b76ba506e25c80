/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in order, which always works; see fallback.c. Everything here is [step]. */
#ifndef LLS_POLICY_FALLBACK_H
#define LLS_POLICY_FALLBACK_H

struct lls_instance;
struct lls_plan;
struct lls_step_view;

void lls_fallback_plan(struct lls_instance *, const struct lls_step_view *,
                       struct lls_plan *);

#endif
