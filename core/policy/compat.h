/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a scheduler, a cache manager, a predictor, a drafter and the engine go
 * together, at start and in a reload. */
#ifndef LLS_POLICY_COMPAT_H
#define LLS_POLICY_COMPAT_H

#include <stdbool.h>
#include <stdint.h>

struct lls_cache_vtable;
struct lls_error;
struct lls_instance;
struct lls_policies;

/* The policies' common choices. */
struct lls_compat {
  uint32_t preempt_mode; /* enum lls_preempt_mode */
  bool drafts;           /* the drafter is called */
};

/* Checks what the scheduler needs and chooses what the policies do together. Returns
 * -ENOTSUP if something is missing; err names it. */
int lls_compat_check(const struct lls_instance *, const struct lls_policies *,
                     struct lls_compat *out, struct lls_error *err);
/* Returns true if the cache manager offers hidden form. */
bool lls_compat_has_hidden_form(const struct lls_policies *);
/* Returns true if the cache manager moves sequences between the tiers while other
 * requests compute. */
bool lls_compat_has_transfers(const struct lls_instance *,
                              const struct lls_cache_vtable *);
/* [main] Lets the scheduler measure with the cost service, while no step runs. */
int lls_compat_calibrate(const struct lls_instance *, const struct lls_policies *,
                         struct lls_error *err);

#endif
