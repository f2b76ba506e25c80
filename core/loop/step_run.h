/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a step thread, and its steps. */
#ifndef LLS_LOOP_STEP_RUN_H
#define LLS_LOOP_STEP_RUN_H

#include "core/instance/step_thread.h"

/* Shared by all instances of a loop. */
struct lls_step_thread_shared {
  const struct lls_loop_options *options;
  const struct lls_slots *slots;
  struct lls_delivery *delivery;
  const struct lls_topology *topology; /* the topology of all instances */
  struct lls_instance *const *peers;   /* (n) */
  const _Atomic uint64_t *cancelled;   /* (slots) */
  size_t events_per_step;
};

/* [main] Called after lls_instance_describe. The thread must be freed even if this
 * fails. */
int lls_step_thread_init(struct lls_step_thread *, const struct lls_step_thread_shared *,
                         const struct lls_loop_instance *, struct lls_error *err);
/* [main] Makes the local part of an instance in another process. `here`: an instance of
 * this process, already made. */
int lls_step_thread_init_remote(struct lls_step_thread *,
                                const struct lls_step_thread_shared *,
                                const struct lls_step_thread *here, uint32_t index,
                                uint32_t role, struct lls_error *err);
int lls_step_thread_start(struct lls_step_thread *,
                          struct lls_error *err); /* [main] starts the thread */
/* [main] Ends the thread. Returns false if it has not ended within timeout_ns
 * (LLS_NEVER: waits). */
bool lls_step_thread_stop(struct lls_step_thread *, int64_t timeout_ns);
/* [main] Destroys the policies. To be called for all instances before any is freed:
 * until they are joined, a predictor's threads post predictions to all instances. */
void lls_step_thread_end_policies(struct lls_step_thread *);
void lls_step_thread_free(struct lls_step_thread *);

/* [step] Runs one step and publishes its events. Returns false if it was the last. */
bool lls_step_thread_step(struct lls_step_thread *);

#endif
