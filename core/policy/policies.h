/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugins of an instance, one of each kind: code, state, and the struct lls_host
 * that each plugin sees.
 *
 * A reload makes a second set beside the running one. A policy that stays has the same
 * pointers in both sets, so that comparing pointers tells whether it was replaced. Sets
 * are destroyed on [main]; the set in use belongs to [step].
 */
#ifndef LLS_POLICY_POLICIES_H
#define LLS_POLICY_POLICIES_H

#include "core/instance/loop_options.h"
#include "core/instance/running_policy.h"

/*
 * Makes a set with the hosts of the chosen policies, whose create callbacks are not
 * called yet. A kind without a chosen module stays a gap in the set. On failure nothing
 * is left to free and err names the plugin.
 */
int lls_policies_prepare(struct lls_instance *, const struct lls_loop_policies *chosen,
                         struct lls_policies *out, struct lls_error *err);
/* Calls the create callbacks. On failure err names the plugin, and the caller destroys
 * the set. Meanwhile nothing is read that a change of the running set would write. */
int lls_policies_create(struct lls_policies *, struct lls_error *err);
/* Sets the kinds that the set lacks to the running policies. */
void lls_policies_fill(struct lls_policies *, const struct lls_policies *running);
/* Destroys the policies of the set that `kept` (NULL: an empty set) does not share. */
void lls_policies_destroy(struct lls_policies *, const struct lls_policies *kept);

#endif
