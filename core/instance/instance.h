/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One instance: an engine with its pool, the four policies, the requests, and the state
 * of the step under way. Everything in it belongs to [step] unless a comment says
 * otherwise. The types of its members are in headers of their own: instance_health.h,
 * inbox.h, migration.h, policy_figures.h, request.h, running_policy.h, step_state.h,
 * loop_status.h. A file includes this header only if it uses members of the struct; the
 * headers of this and higher folders need just its name.
 *
 * Rooms above work on it, in this order (core/Makefile.inc):
 *   core/instance  the cache transaction (transaction.h), the life of a request
 *                  (lifecycle.h): what all others do to requests is done by these
 *   core/record    what is written down
 *   core/policy    its policies: their hosts and services, their change in a reload
 *   core/cluster   other instances and processes
 *   core/step      the step: drain, plan, place, run, commit
 *   core/loop      the threads of all instances
 * A phase of the step is lls_instance_<verb>; other functions have the prefix of their
 * file.
 */
#ifndef LLS_INSTANCE_INSTANCE_H
#define LLS_INSTANCE_INSTANCE_H

#include <llmserve/cache.h>
#include <llmserve/host.h>
#include <llmserve/scheduler.h>

#include <stdatomic.h>

#include "core/base/check.h"
#include "core/instance/instance_health.h"
#include "core/instance/inbox.h"
#include "core/instance/loop_options.h"
#include "core/instance/loop_status.h"
#include "core/instance/migration.h"
#include "core/instance/policy_figures.h"
#include "core/instance/request_list.h"
#include "core/instance/running_policy.h"
#include "core/instance/session.h"
#include "core/instance/step_state.h"

struct lls_block_events;
struct lls_cost_model;
struct lls_disk_tier;
struct lls_engine;
struct lls_fetches;
struct lls_log;
struct lls_outbox;
struct lls_peer_loads;
struct lls_request_table;
struct lls_step_samples;

struct lls_instance {
  /* The instance is in another process, and this struct stands for it (remote.h): no
   * thread steps it, its inbox is sent there, and only the members that peers may use
   * are set. */
  bool remote;
  struct lls_fetches *fetches; /* NULL: no other processes */
  /* Ends the fetch of a request that has ended. A pointer, since fetches belong to
   * core/cluster, above this folder; set together with `fetches`. */
  void (*drop_fetch)(struct lls_fetches *, uint64_t ticket);
  /* The trail of the step thread, which alone may use [step] members; NULL: no thread
   * runs or it is parked, and main may use them. */
  _Atomic(const void *) owner;
  struct lls_engine *engine;
  struct lls_engine_caps caps;
  struct lls_topology topology;
  struct lls_instance_info info;
  struct lls_cost_model *cost;
  /* samples of the instance's steps; NULL if it is remote */
  struct lls_step_samples *samples;
  const struct lls_log *log;
  struct lls_loop_observer observer;
  struct lls_policies policies;
  struct lls_cache_service service;
  uint32_t preempt_mode;        /* chosen from the scheduler's preferences */
  struct lls_adoption adoption; /* new policies, for the next step */
  uint64_t seed;                /* seeds the policies' random streams */
  const struct lls_devices *builtin;
  /* names of the served model, for the embedding service, or NULL */
  char *model_name, *model_folder;
  char *prompts_folder;       /* where prompts are kept, or NULL */
  uint64_t prompts_bytes;     /* most bytes to keep; 0: none */
  struct lls_disk_tier *disk; /* core/step/disk_tier.h; NULL: none */
  uint64_t disk_ahead;        /* tokens read for requests that have not run yet */

  struct lls_request_table *table; /* by_slot is [step]'s, the rest is main's */
  struct lls_request_list waiting, running, preempted, moving;
  struct lls_request_list reading; /* not arrived yet: core/step/disk_tier.h */
  struct lls_instance_sessions sessions;
  struct lls_lease_limits leases;
  /* (n_peers) all instances of the server by index, this one included. Of another
   * instance only these may be used: its inbox, its engine as a source of blocks, the
   * blocks of requests that it offered to this one (migration.offered_blocks), its load
   * board, and `broken`. */
  struct lls_instance *const *peers;
  uint32_t n_peers;
  const _Atomic uint64_t *cancelled; /* (slots) last id cancelled; main writes */
  struct lls_migration migration;
  struct lls_peer_loads *loads; /* NULL: the only instance */

  struct lls_plan plan;               /* the core's copy */
  struct lls_plan_memory plan_memory; /* the scheduler's copies */
  uint64_t *alive; /* (max_requests) scratch of adoption: ids in order of arrival */
  uint64_t step;   /* number of the current step */
  struct lls_transaction transaction;
  struct lls_step_batch batch;
  int64_t idle_until_ns; /* set by an empty plan, else 0 */
  /* time at which the scheduler plans again for sessions, though no request is alive;
   * LLS_NEVER: it need not */
  int64_t sessions_ns;
  bool wants_step;      /* the cache manager has copies to make, requests or not */
  uint32_t empty_plans; /* consecutive ones, with requests to run */

  int32_t *eos_tokens; /* (n_eos_tokens) EOS tokens of the model */
  uint32_t n_eos_tokens;
  uint32_t strikes; /* bad or late plans so far; limits.strikes of them switch the
                       scheduler off */
  struct lls_loop_limits limits;
  struct lls_mask_budget masks;
  struct lls_drafting drafting;
  struct lls_inbox_content content; /* scratch for the inbox's messages */

  struct lls_inbox *inbox;
  struct lls_outbox *outbox;
  struct lls_block_events *block_events; /* NULL: [server] kv_events is not set */
  int64_t (*clock)(void *context);       /* the only source of time */
  int64_t (*plan_clock)(void *context);  /* times plan calls, for the plan budget */
  void *clock_context;

  /* Called when the device has begun a step: calls lls_instance_count and sends the
   * previous step's events. NULL: events are not delayed. deferred: this work is still to
   * be done. */
  void (*overlap)(void *context);
  void *overlap_context;
  bool deferred;

  struct lls_loop_status status; /* updated during the step */
  struct lls_loop_policy_stats policy_stats;
  int64_t policy_stats_ns; /* time of the last collection; LLS_NEVER: collect now */
  bool policy_stats_taken; /* collected, not yet published */
  bool answered;           /* a snapshot is ready, and main is still to be woken */
  struct lls_instance_health health;
};

static inline int64_t lls_instance_now(const struct lls_instance *in)
{
  return in->clock(in->clock_context);
}

/* [step] own: the calling thread runs the steps from now on; else main may. */
static inline void lls_instance_own(struct lls_instance *in, bool own)
{
  atomic_store(&in->owner, own ? &lls_trail : NULL);
}

/* Returns true if the calling thread may use [step] members. */
static inline bool lls_instance_is_owned(const struct lls_instance *in)
{
  const void *owner = atomic_load(&in->owner);
  return owner == NULL || owner == &lls_trail;
}

#define LLS_ON_STEP(IN) LLS_CHECK(lls_instance_is_owned(IN))

/* Returns how many requests the instance has, offered ones included. */
static inline uint32_t lls_instance_alive(const struct lls_instance *in)
{
  return in->waiting.n + in->running.n + in->preempted.n + in->moving.n +
         in->migration.incoming.n + in->migration.fetching.n;
}

/* Returns true if an answer has left blocks of a session whose lease is not decided yet,
 * or leases of a closed session have to end: both need a transaction. */
static inline bool lls_instance_has_leases_to_place(const struct lls_instance *in)
{
  return in->sessions.fresh != NULL || in->sessions.n_dropped > 0;
}

/* Returns true if a step is needed: for requests or sessions, for copies that the cache
 * manager wants to make, or to move the blocks of requests that the instance offered, as
 * another instance asked. */
static inline bool lls_instance_has_work(const struct lls_instance *in)
{
  return lls_instance_alive(in) > 0 || in->migration.n_shifting > 0 ||
         lls_instance_has_leases_to_place(in) || in->wants_step;
}

/* Does the work that the last step `deferred`. */
static inline void lls_instance_catch_up(struct lls_instance *in)
{
  if (in->deferred)
    in->overlap(in->overlap_context);
}

#endif
