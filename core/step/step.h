/* SPDX-License-Identifier: Apache-2.0 */
/* One step of an instance; see step.c. Everything here is [step]. */
#ifndef LLS_STEP_STEP_H
#define LLS_STEP_STEP_H

#include <stdbool.h>
#include <stdint.h>

struct lls_instance;

/* Runs one step. *busy: it computed or copied something. Returns false if a stop was
 * requested or the engine failed. */
bool lls_instance_step(struct lls_instance *, bool *busy);
/* Updates the status. lls_instance_step does so itself unless it sets `deferred`. */
void lls_instance_count(struct lls_instance *);
/* Handles the inbox's messages, except those that only a step can handle. */
void lls_instance_receive(struct lls_instance *, int64_t now_ns);
/* Returns for how long no step is needed; LLS_NEVER: until a message is posted. */
int64_t lls_instance_idle_ns(const struct lls_instance *);

#endif
