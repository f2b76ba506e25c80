/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes the policies of an instance under live requests.
 *
 *   prepare   [any] allocates the new policies beside the running ones, while steps run;
 *             lls_policies_create then creates them. The next two are [main]:
 *   approve   while the step thread is parked: reconfigures and checks; may fail
 *   install   (or disapprove) hands over state, replaces, destroys the old policies
 *
 * Each either does everything or leaves everything as before. Of several instances all
 * are approved before the first is installed. The [step] part of a change (reporting
 * live requests to the new policies) is done by adoption.c in the next step.
 */
#ifndef LLS_POLICY_RELOAD_H
#define LLS_POLICY_RELOAD_H

#include "core/instance/loop_options.h"
#include "core/policy/compat.h"
#include "core/policy/policies.h"

struct lls_reload {
  const struct lls_loop_change *change;
  struct lls_policies next; /* the policies to install; kinds that stay are empty */
  struct lls_compat compat; /* set by approve */
};

int lls_reload_prepare(struct lls_instance *, const struct lls_loop_change *,
                       struct lls_reload *, struct lls_error *err);
int lls_reload_approve(struct lls_instance *, struct lls_reload *, struct lls_error *err);
void lls_reload_disapprove(struct lls_instance *, struct lls_reload *);
void lls_reload_install(struct lls_instance *, struct lls_reload *);
/* Destroys the prepared policies, instead of install. */
void lls_reload_abandon(struct lls_reload *);

#endif
