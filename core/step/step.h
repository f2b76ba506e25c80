/* SPDX-License-Identifier: Apache-2.0 */
/* One step of an instance; see step.c. Everything here is [step]. */
#ifndef LLS_STEP_STEP_H
#define LLS_STEP_STEP_H

#include "core/instance/instance.h"

/* One step. *busy: something ran. False return: stop was asked for or the engine failed.
 */
bool lls_instance_step(struct lls_instance *, bool *busy);
/* Brings the status up to date; lls_instance_step does, unless it leaves it `deferred`.
 */
void lls_instance_count(struct lls_instance *);
/* Takes the inbox, except for the things that only a step can do. */
void lls_instance_receive(struct lls_instance *, int64_t now_ns);
/* How long nothing needs to be done, LLS_NEVER = until something is posted. */
int64_t lls_instance_idle_ns(const struct lls_instance *);

#endif
