/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a step thread, and the steps that it runs. */
#ifndef LLS_LOOP_STEP_RUN_H
#define LLS_LOOP_STEP_RUN_H

#include "core/instance/step_thread.h"

/* Shared by all instances of a loop. */
struct lls_step_thread_shared {
  const struct lls_loop_options *options;
  const struct lls_slots *slots;
  struct lls_delivery *delivery;
  const struct lls_topology *topology; /* complete */
  struct lls_instance *const *peers;   /* (n) */
  const _Atomic uint64_t *cancelled;   /* (slots) */
  size_t events_per_step;
};

/* [main] Described before (lls_instance_describe). On failure it is to be freed. */
int lls_step_thread_init(struct lls_step_thread *, const struct lls_step_thread_shared *,
                         const struct lls_loop_instance *, struct lls_error *err);
/* [main] Of an instance in another process, once one that is here is made. */
int lls_step_thread_init_remote(struct lls_step_thread *,
                                const struct lls_step_thread_shared *,
                                const struct lls_step_thread *here, uint32_t index,
                                uint32_t role, struct lls_error *err);
int lls_step_thread_start(struct lls_step_thread *,
                          struct lls_error *err); /* its thread */
/* likewise; false: it has not ended within timeout_ns, LLS_NEVER = wait for it */
bool lls_step_thread_stop(struct lls_step_thread *, int64_t timeout_ns);
/* Called for every instance before any is freed: threads of a predictor post what they
 * have found to all instances until they are joined. */
void lls_step_thread_end_policies(struct lls_step_thread *);
void lls_step_thread_free(struct lls_step_thread *);

/* [step] One step and its events; false: it was the last. */
bool lls_step_thread_step(struct lls_step_thread *);

#endif
