/* SPDX-License-Identifier: Apache-2.0 */
/* The step thread, and what it publishes for other threads; see step_thread.h. */
#include "core/loop/step_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/error.h"
#include "core/base/thread.h"
#include "core/cluster/offered.h"
#include "core/cluster/peer_load.h"
#include "core/engine/engine.h"
#include "core/instance/block_events.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/outbox.h"
#include "core/instance/request.h"
#include "core/instance/step_thread.h"
#include "core/loop/instance_life.h"
#include "core/plugin/crash.h"
#include "core/policy/policies.h"
#include "core/record/persistent_prompts.h"
#include "core/step/step.h"

static int64_t monotonic_ns(void *context)
{
  (void)context;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * LLS_NS_PER_S + t.tv_nsec;
}

static int64_t thread_cpu_ns(void *context)
{
  (void)context;
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * LLS_NS_PER_S + t.tv_nsec;
}

/* ---- steps ------------------------------------------------------------------------- */

/* Publishes the status, then the events: a reader that sees a request end with an error
 * must find the loop failed. */
static void publish(struct lls_step_thread *r)
{
  struct lls_instance *in = &r->instance;
  pthread_mutex_lock(&r->status_lock);
  bool anything =
      r->outbox.filling.n > 0 || (in->health.failed && !r->failed) || in->answered;
  anything |= lls_block_events_posted(in);
  in->answered = false;
  r->status = in->status;
  if (in->policy_stats_taken)
    r->policy_stats = in->policy_stats;
  in->policy_stats_taken = false;
  if (in->health.failed && !r->failed) {
    r->failed = true;
    r->failure = in->health.failure;
  }
  pthread_mutex_unlock(&r->status_lock);
  while (lls_outbox_publish(&r->outbox) < 0) /* main lags and memory is out */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  atomic_store(&in->health.cleared, in->health.clear);
  if (anything)
    r->wake(r->wake_context);
}

/* Counts and publishes for a step, while the device computes the next one. */
static void publish_late(void *context)
{
  struct lls_step_thread *r = context;
  lls_instance_count(&r->instance);
  publish(r);
}

bool lls_step_thread_step(struct lls_step_thread *r)
{
  LLS_ON_STEP(&r->instance);
  bool go_on = lls_instance_step(&r->instance, &r->busy);
  if (!r->instance.deferred)
    publish(r);
  return go_on;
}

/* Serves a failed instance: only handles the inbox, and ends requests that still arrive
 * with ERROR. */
static void serve_failed(struct lls_step_thread *r)
{
  struct lls_instance *in = &r->instance;
  for (bool stop = false; !stop;) {
    lls_inbox_wait(&r->inbox, LLS_NEVER);
    lls_instance_receive(in, INT64_MAX);
    lls_lifecycle_finish_all(in, LLS_FINISH_ERROR);
    stop = in->content.stop;
    publish(r);
  }
}

static void *thread_main(void *argument)
{
  struct lls_step_thread *r = argument;
  lls_crash_stack();
  atomic_store(&r->hang.trail, &lls_trail);
  lls_instance_own(&r->instance, true);
  if (r->begin != NULL)
    r->begin(r->begin_context, r->instance.info.index);
  while (lls_step_thread_step(r)) {
    if (!r->busy)
      lls_inbox_wait(&r->inbox, lls_instance_idle_ns(&r->instance));
    lls_instance_own(&r->instance, false); /* main may touch a parked instance */
    lls_inbox_park(&r->inbox, r->wake, r->wake_context);
    lls_instance_own(&r->instance, true);
  }
  if (r->instance.health.failed)
    serve_failed(r);
  lls_instance_own(&r->instance, false);
  return NULL;
}

/* ---- life -------------------------------------------------------------------------- */

int lls_step_thread_init(struct lls_step_thread *r,
                         const struct lls_step_thread_shared *shared,
                         const struct lls_loop_instance *mine, struct lls_error *err)
{
  const struct lls_loop_options *o = shared->options;
  struct lls_instance *in = &r->instance;
  pthread_mutex_init(&r->status_lock, NULL);
  r->wake = o->wake;
  r->wake_context = o->wake_context;
  r->begin = mine->begin;
  r->begin_context = mine->begin_context;
  int rc = lls_request_table_init(&r->table, shared->slots);
  if (rc == 0)
    rc = lls_inbox_init(&r->inbox, o->max_requests);
  if (rc == 0)
    rc = lls_outbox_init(&r->outbox, shared->delivery, shared->events_per_step);
  if (rc < 0)
    return lls_fail(err, rc, "out of memory for %u requests", o->max_requests);
  in->table = &r->table;
  in->inbox = &r->inbox;
  in->outbox = &r->outbox;
  in->peers = shared->peers;
  in->n_peers = shared->topology->n_instances;
  in->topology = *shared->topology;
  in->cancelled = shared->cancelled;
  in->clock = o->clock != NULL ? o->clock : monotonic_ns;
  in->clock_context =
      mine->clock_context != NULL ? mine->clock_context : o->clock_context;
  in->plan_clock = o->plan_clock != NULL ? o->plan_clock : thread_cpu_ns;
  rc = lls_instance_init(in, o, err);
  if (rc == 0 && !o->manual && lls_engine_is_asynchronous(in->engine)) {
    in->overlap = publish_late;
    in->overlap_context = r;
  }
  r->status = in->status; /* for its histograms' bounds, needed before the first step */
  r->created = rc == 0;
  return rc;
}

int lls_step_thread_init_remote(struct lls_step_thread *r,
                                const struct lls_step_thread_shared *shared,
                                const struct lls_step_thread *here, uint32_t index,
                                uint32_t role, struct lls_error *err)
{
  uint32_t max_requests = shared->options->max_requests;
  struct lls_instance *in = &r->instance;
  pthread_mutex_init(&r->status_lock, NULL);
  in->remote = true;
  in->info = (struct lls_instance_info){.index = index, .role = role};
  in->inbox = &r->inbox;
  in->peers = shared->peers;
  in->n_peers = shared->topology->n_instances;
  in->clock = here->instance.clock;
  in->clock_context = here->instance.clock_context;
  r->status = here->status;
  int rc = lls_inbox_init(&r->inbox, max_requests);
  if (rc == 0)
    rc = lls_peer_loads_init(in);
  if (rc == 0)
    rc = lls_offered_init_remote(in, &here->instance, shared->slots->n);
  return rc < 0 ? lls_fail(err, rc, "out of memory for %u requests", max_requests) : 0;
}

int lls_step_thread_start(struct lls_step_thread *r, struct lls_error *err)
{
  char name[16] = "llmserve-step";
  uint32_t index = r->instance.info.index;
  int rc = -pthread_create(&r->thread, NULL, thread_main, r);
  if (rc < 0)
    return lls_fail(err, rc, "cannot start the step thread: %s", strerror(-rc));
  r->running = true;
  if (index > 0)
    snprintf(name, sizeof name, "llmserve-step%u", index % 100);
  pthread_setname_np(r->thread, name);
  return 0;
}

bool lls_step_thread_stop(struct lls_step_thread *r, int64_t timeout_ns)
{
  if (!r->running)
    return true;
  lls_inbox_stop(&r->inbox);
  if (!lls_thread_join(r->thread, timeout_ns))
    return false;
  atomic_store(&r->hang.trail, NULL); /* the trail was in the thread's storage */
  r->running = false;
  return true;
}

void lls_step_thread_end_policies(struct lls_step_thread *r)
{
  if (r->instance.remote)
    return;
  lls_persistent_prompts_write(&r->instance);
  lls_policies_destroy(&r->instance.policies, NULL);
}

void lls_step_thread_free(struct lls_step_thread *r)
{
  if (r->instance.remote) {
    lls_offered_fini(&r->instance);
    lls_peer_loads_fini(&r->instance);
  } else {
    lls_instance_fini(&r->instance);
  }
  lls_inbox_free(&r->inbox);
  lls_outbox_free(&r->outbox);
  lls_request_table_free(&r->table);
  lls_sent_free(&r->sent);
  free(r->snapshot);
  pthread_mutex_destroy(&r->status_lock);
}
