/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An instance with what it needs to be run: its mail, its table, its thread, and its
 * status for others to read. One for each instance of a loop, whose thread is run by
 * core/loop/step_run.c.
 */
#ifndef LLS_INSTANCE_STEP_THREAD_H
#define LLS_INSTANCE_STEP_THREAD_H

#include "core/instance/instance.h"

/* A step thread as main sees it, which looks for one that hangs (core/loop/hang.h). */
struct lls_hang {
  _Atomic(const struct lls_trail *) trail; /* [step] sets it; NULL: it has not begun */
  /* the rest is [main]'s */
  uint64_t calls, outermost; /* of the trail at the last look */
  int64_t since_ns;          /* no later than that the callback under way began */
  bool hangs;
  struct lls_error why; /* names plugin and callback */
};

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

/* [main] */
void lls_step_thread_status(struct lls_step_thread *, struct lls_loop_status *out);
void lls_step_thread_policy_stats(struct lls_step_thread *,
                                  struct lls_loop_policy_stats *out);
bool lls_step_thread_failed(struct lls_step_thread *, struct lls_error *err);

#endif
