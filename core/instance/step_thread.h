/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An instance with everything it needs to run: inbox, outbox, request table, thread, and
 * its status for other threads. A loop has one for each instance; core/loop/step_run.c
 * runs the thread.
 */
#ifndef LLS_INSTANCE_STEP_THREAD_H
#define LLS_INSTANCE_STEP_THREAD_H

#include <pthread.h>

#include "core/instance/instance.h"
#include "core/instance/outbox.h"
#include "core/instance/request.h"
#include "core/instance/sent_keys.h"

/* Main's record of a step thread, to detect that it hangs (core/loop/hang.h). */
struct lls_hang {
  _Atomic(const struct lls_trail *) trail; /* [step] sets it; NULL: not running */
  /* the members below are [main]'s */
  uint64_t calls, outermost; /* the trail's counters at the last check */
  int64_t since_ns;          /* when the current callback was first seen */
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
  bool created; /* completely */
  bool busy;    /* [main] (manual loop) its last step ran something */
  void (*wake)(void *context);
  void *wake_context;
  void (*begin)(void *context, uint32_t index);
  void *begin_context;
  struct lls_hang hang; /* [main], except its trail */
  /* arrivals so far, and the tokens of their prompts; [main] and the channel's thread */
  _Atomic uint64_t posted, posted_tokens;
  struct lls_sent_keys sent; /* [main] of the prompts of these arrivals */
  uint64_t found_tokens;     /* [main] tokens of these prompts that `sent` had before */
  /* snapshot to fill, or NULL; [main], except while one is requested */
  struct lls_snapshot *snapshot;

  /* under status_lock: written by [step] after each step, read by any thread */
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
