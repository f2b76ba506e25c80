/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing the policies of an instance under live requests.
 *
 *   prepare   [any] the new ones beside the running ones, still to be created by
 *             lls_policies_create; steps go on meanwhile. The rest is [main]:
 *   approve   while the step thread is parked: reconfigure, check; all that may fail
 *   install   then, or disapprove: hand over state, replace, destroy what was replaced
 *
 * Each either does all or leaves everything as it was; of several instances all are
 * approved before one is installed. What is [step] of a change (telling
 * the new policies which requests are alive) is done by adoption.c in the step after.
 */
#ifndef LLS_LOOP_RELOAD_H
#define LLS_LOOP_RELOAD_H

#include "core/loop/loop.h"
#include "core/policy/policies.h"

struct lls_reload {
  const struct lls_loop_change *change;
  struct lls_policies next; /* with gaps where a policy stays */
  uint32_t preempt_mode;    /* once approved */
};

int lls_reload_prepare(struct lls_instance *, const struct lls_loop_change *,
                       struct lls_reload *, struct lls_error *err);
int lls_reload_approve(struct lls_instance *, struct lls_reload *, struct lls_error *err);
void lls_reload_disapprove(struct lls_instance *, struct lls_reload *);
void lls_reload_install(struct lls_instance *, struct lls_reload *);
/* Instead of install. */
void lls_reload_abandon(struct lls_reload *);

#endif
