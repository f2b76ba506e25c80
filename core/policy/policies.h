/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugins at work in an instance, one of each kind: code, state, and the host each of
 * them sees.
 *
 * A set is made beside the running one during a reload and shares with it what stays, so
 * that "the same" is a question of pointers. Destroyed on [main]; the set in use
 * belongs to [step].
 */
#ifndef LLS_POLICY_POLICIES_H
#define LLS_POLICY_POLICIES_H

#include "core/instance/loop_options.h"
#include "core/instance/running_policy.h"

/*
 * A set of the chosen policies, all but created; where none is chosen (no module) it has
 * a gap. On failure nothing is left and the sentence names the plugin.
 */
int lls_policies_prepare(struct lls_instance *, const struct lls_loop_policies *chosen,
                         struct lls_policies *out, struct lls_error *err);
/* Creates them. On failure the sentence names the plugin, and the set is to be destroyed.
 * Nothing else is read meanwhile that a change of the running set would write. */
int lls_policies_create(struct lls_policies *, struct lls_error *err);
/* Closes the gaps with what runs. */
void lls_policies_fill(struct lls_policies *, const struct lls_policies *running);
/* Destroys what `kept` (NULL: nothing is) does not share. */
void lls_policies_destroy(struct lls_policies *, const struct lls_policies *kept);

#endif
