/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One instance: an engine with its pool, the three policies, the requests, and the state
 * of the step under way. Everything in it belongs to [step] unless a comment says
 * otherwise. What it holds is in headers of its own: request.h, mailbox.h,
 * running_policy.h, step_state.h, migration.h, loop_status.h.
 *
 * Rooms above work on it, in this order (core/Makefile.inc):
 *   core/instance  the cache transaction (transaction.h), the life of a request
 *                  (lifecycle.h): what all others do to requests is done by these
 *   core/record    what is written down
 *   core/policy    its policies, their hosts and services
 *   core/cluster   other instances and processes
 *   core/step      the step: drain, plan, place, run, commit
 *   core/loop      the threads of all instances
 * A phase of the step is lls_instance_<verb>; other functions have the prefix of their
 * file.
 */
#ifndef LLS_INSTANCE_INSTANCE_H
#define LLS_INSTANCE_INSTANCE_H

#include <llmserve/cache.h>
#include <llmserve/predictor.h>
#include <llmserve/scheduler.h>

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/check.h"
#include "core/cost/cost.h"
#include "core/cost/samples.h"
#include "core/engine/engine.h"
#include "core/instance/loop_options.h"
#include "core/instance/loop_status.h"
#include "core/instance/mailbox.h"
#include "core/instance/migration.h"
#include "core/instance/policy_figures.h"
#include "core/instance/request.h"
#include "core/instance/request_list.h"
#include "core/instance/running_policy.h"
#include "core/instance/step_state.h"
#include "core/obs/log.h"
#include "core/plugin/loader.h"

struct lls_fetches;
struct lls_peer_loads;

struct lls_instance {
  /* It is in another process, and this is what is known of it here (remote.h): no thread
   * steps it, its mail is sent there, and of the rest there is what peers may touch. */
  bool far;
  struct lls_fetches *fetches; /* blocks from other processes; NULL: there are none */
  /* Ends one of these whose request has ended. Set with `fetches`, which are of a room
   * above. */
  void (*drop_fetch)(struct lls_fetches *, uint64_t ticket);
  /* The trail of the thread that runs its steps, which alone may touch it; NULL: there is
   * none, or it is parked, and main may. */
  _Atomic(const void *) owner;
  struct lls_engine *engine;
  struct lls_engine_caps caps;
  struct lls_topology topology;
  struct lls_instance_info info;
  struct lls_cost_model *cost;
  struct lls_step_samples *samples; /* of its steps; NULL: it is far */
  const struct lls_log *log;
  struct lls_loop_observer observer;
  struct lls_policies policies;
  struct lls_cache_service service;
  uint32_t preempt_mode;           /* chosen from the scheduler's preferences */
  struct lls_adoption adoption;    /* what the next step has to tell new policies */
  uint64_t seed;                   /* of the policies' random streams */
  char *model_name, *model_folder; /* for the embedding service, or NULL */
  char *prompts_folder;            /* where prompts are kept, or NULL */
  uint64_t prompts_bytes;          /* at most; 0: none are kept */

  struct lls_request_table *table; /* by_slot is ours, the rest is main's */
  struct lls_request_list waiting, running, preempted, moving;
  /* (n_peers) all of the server's, this one among them, by index. Of the others only the
   * inbox, the engine as a source of blocks, what left for here (migration.shelf), the
   * board of its load and `broken` may be touched. */
  struct lls_instance *const *peers;
  uint32_t n_peers;
  const _Atomic uint64_t *cancelled; /* (slots) id last cancelled there; main writes */
  struct lls_migration migration;
  struct lls_peer_loads *loads; /* NULL: there is one instance alone */

  struct lls_plan plan;               /* its items are allocated once */
  struct lls_plan_memory plan_memory; /* what the scheduler gets instead */
  uint64_t *alive; /* (max_requests) of adoption: ids in order of arrival */
  uint64_t step;   /* number of the one under way */
  struct lls_transaction transaction;
  struct lls_step_batch batch;
  int64_t idle_until_ns; /* of an empty plan, else 0 */
  uint32_t empty_plans;  /* in a row, with work to do */

  int32_t *eos_tokens; /* (n_eos_tokens) the model's */
  uint32_t n_eos_tokens;
  uint32_t strikes; /* so far; limits.strikes are too many */
  struct lls_loop_limits limits;
  int64_t device_ns;  /* that the last step with tokens took */
  int64_t mask_ns;    /* and for masks of grammars the last one that made any */
  uint64_t mask_debt; /* mask_budget.c: units of work that steps did beyond their limit */
  struct lls_inbox_content content; /* scratch of drain */

  struct lls_inbox *inbox;
  struct lls_outbox *outbox;
  int64_t (*clock)(void *context);      /* the only source of time */
  int64_t (*plan_clock)(void *context); /* of plan calls, for the plan budget */
  void *clock_context;

  /* Called once the device has a step to compute: calls lls_instance_count and sends the
   * events. NULL: both are done at once. deferred: they have still to be done. */
  void (*overlap)(void *context);
  void *overlap_context;
  bool deferred;

  struct lls_loop_status status; /* filled step by step */
  struct lls_loop_policy_stats policy_stats;
  int64_t policy_stats_ns; /* when they were taken, LLS_NEVER = they are to be */
  bool policy_stats_taken; /* and have not been shown to others */
  bool answered;           /* what main asked for is there, and it has not been woken */
  bool failed;
  struct lls_error failure;
  /* [any] It failed, or nothing is heard of its process: its blocks are worth nothing. */
  atomic_bool broken;
  _Atomic uint32_t returns; /* [any] how often it was broken and is not any more */
  uint64_t clear;           /* the number of the last lls_inbox_clear */
  _Atomic uint64_t cleared; /* [any] the same, once its events are published */
};

static inline int64_t lls_instance_now(const struct lls_instance *in)
{
  return in->clock(in->clock_context);
}

/* [step] The calling thread runs the steps from now on, or (false) leaves it to main. */
static inline void lls_instance_own(struct lls_instance *in, bool own)
{
  atomic_store(&in->owner, own ? &lls_trail : NULL);
}

/* True if the calling thread may touch what is [step]. */
static inline bool lls_instance_is_owned(const struct lls_instance *in)
{
  const void *owner = atomic_load(&in->owner);
  return owner == NULL || owner == &lls_trail;
}

#define LLS_ON_STEP(IN) LLS_CHECK(lls_instance_is_owned(IN))

/* Requests that live here. */
static inline uint32_t lls_instance_alive(const struct lls_instance *in)
{
  return in->waiting.n + in->running.n + in->preempted.n + in->moving.n +
         in->migration.offered.n + in->migration.fetching.n;
}

/* Steps are to be made: for them, or for what others have asked of those that left. */
static inline bool lls_instance_has_work(const struct lls_instance *in)
{
  return lls_instance_alive(in) > 0 || in->migration.n_shifting > 0;
}

/* Does the work that was left `deferred`. */
static inline void lls_instance_catch_up(struct lls_instance *in)
{
  if (in->deferred)
    in->overlap(in->overlap_context);
}

#endif
