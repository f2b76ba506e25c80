/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An instance with what it needs to be run: its mail, its table, its thread, and its
 * status for others to read. One for each instance of a loop; internal to core/loop.
 */
#ifndef LLS_LOOP_STEP_THREAD_H
#define LLS_LOOP_STEP_THREAD_H

#include "core/loop/hang.h"
#include "core/loop/instance.h"

struct lls_step_thread {
  struct lls_instance instance; /* [step], but for create and destroy */
  struct lls_inbox inbox;
  struct lls_outbox outbox;
  struct lls_request_table table;
  pthread_t thread;
  bool running; /* the thread was started */
  bool created; /* all of it */
  bool busy;    /* [main] of a manual loop: its last step ran something */
  void (*wake)(void *context);
  void *wake_context;
  void (*begin)(void *context, uint32_t index);
  void *begin_context;
  struct lls_hang hang;          /* [main] but for its trail */
  _Atomic uint64_t posted;       /* arrivals; [main], and the channel's thread */
  struct lls_snapshot *snapshot; /* [main], unless it was asked to show them; or NULL */

  /* under status_lock: written by [step] after each step, read by anyone */
  pthread_mutex_t status_lock;
  struct lls_loop_status status;
  struct lls_loop_policy_stats policy_stats;
  bool failed;
  struct lls_error failure;
};

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
int lls_step_thread_init_far(struct lls_step_thread *,
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
/* [main] */
void lls_step_thread_status(struct lls_step_thread *, struct lls_loop_status *out);
void lls_step_thread_policy_stats(struct lls_step_thread *,
                                  struct lls_loop_policy_stats *out);
bool lls_step_thread_failed(struct lls_step_thread *, struct lls_error *err);

/* Adds what can be added. */
void lls_loop_status_add(struct lls_loop_status *sum, const struct lls_loop_status *more);

#endif
