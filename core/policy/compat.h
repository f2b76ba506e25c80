/* SPDX-License-Identifier: Apache-2.0 */
/* Do these policies, this cache manager and this engine go together? Asked at
 * start and in a reload. */
#ifndef LLS_POLICY_COMPAT_H
#define LLS_POLICY_COMPAT_H

#include "core/instance/instance.h"

/* Chooses the preempt mode; -ENOTSUP with a sentence that names what is missing. */
int lls_compat_check(const struct lls_instance *, const struct lls_policies *,
                     uint32_t *preempt_mode, struct lls_error *err);
/* True if this cache manager offers hidden form. */
bool lls_compat_has_hidden_form(const struct lls_policies *);
/* True if it moves sequences between the tiers while others compute. */
bool lls_compat_has_transfers(const struct lls_instance *,
                              const struct lls_cache_vtable *);
/* [main] While no step runs: the scheduler measures with the cost service. */
int lls_compat_calibrate(const struct lls_instance *, const struct lls_policies *,
                         struct lls_error *err);

#endif
