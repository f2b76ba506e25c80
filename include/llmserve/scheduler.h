/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedulers: which requests run next.
 *
 * Once per step the core calls plan with a view of all requests, and receives a plan
 * (types.h). The core trusts no plan: it checks the plan before anything is placed, and
 * refuses all of it if one item is bad (an unknown, repeated, moving or finished
 * request; more tokens than pending; more than the engine's limits; a form that the
 * engine does not offer; size, max_items or items changed; idle for more than an hour
 * with requests to run). The view and the plan are copies, made for each plan. The step
 * of a refused plan is planned in the built-in order instead. After [plugins] `strikes`
 * bad or late plans the core stops calling the scheduler, and /health says so.
 *
 * A plan that took longer than [plugins] plan_budget counts as bad. llmserve-sim does
 * not measure this, since its clock is not real time: --measure-plans shows how long
 * plans take there, and llmserve-plugin-check compares them with a limit.
 *
 * plan is called before every step; when nothing runs, it is called as soon as
 * something happens or idle_until_ns has come. It gets no reason: every event is
 * reported before, through on_arrival, on_prediction, on_step, on_finish or on_refused.
 * If none of them was called since the last plan, only time has passed.
 *
 * A good item may still not be placed: a RUN without enough memory, or for an answer
 * whose grammar needs long to compute the next mask, is dropped from the step and
 * reported through on_refused; all other items run.
 *
 * Order and determinism: break ties by (arrival_ns, id). Use view->now_ns as time and
 * host->random as randomness; nothing else.
 */
#ifndef LLMSERVE_SCHEDULER_H
#define LLMSERVE_SCHEDULER_H

#include <llmserve/cache.h>
#include <llmserve/host.h>
#include <llmserve/plugin.h>
#include <llmserve/types.h>

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A need that is not met refuses the start, with a sentence; a use does not. */
enum lls_scheduler_needs {
  LLS_NEEDS_MIXED_BATCH = 1 << 0,     /* prefill and decode in one step */
  LLS_NEEDS_CHUNKED_PREFILL = 1 << 1, /* prompts in pieces */
  LLS_NEEDS_FORMS = 1 << 2,           /* hidden form */
  LLS_NEEDS_ROLES = 1 << 3,           /* prefill and decode instances */
  /* not a requirement: the scheduler hands requests over if there are roles */
  LLS_USES_ROLES = 1 << 4,
  /* likewise: the scheduler plans how many drafts a step verifies; without it no drafter
   * is called */
  LLS_USES_DRAFTS = 1 << 5,
};

#define LLS_MAX_PREEMPT_PREFERENCES 4

struct lls_scheduler_caps {
  uint32_t size;
  uint32_t needs; /* enum lls_scheduler_needs */
  /* Ways of preempting, in order of preference; the core chooses the first one that
   * cache and engine support (view->preempt_mode), and refuses to start if they support
   * none. Empty: the scheduler never preempts. */
  uint32_t n_preempt;
  uint32_t preempt[LLS_MAX_PREEMPT_PREFERENCES]; /* enum lls_preempt_mode */
  /* version 1 ends here */
};

/*
 * The load of an instance at the end of its last step. Offers are those that the
 * instance had received by then, and those on their way to it from the instance that
 * reads this.
 */
struct lls_instance_load {
  uint32_t size;
  uint32_t requests;      /* requests that live there, including offers to it */
  uint32_t device_units;  /* units of its cache */
  uint32_t free_units;    /* free units, as in lls_capacity */
  uint32_t offered_units; /* held by the offers on the instances where they are now */
  bool
      failed; /* the instance accepts nothing any more: requests offered to it are lost */
  int64_t step_ns; /* mean of its last steps; LLS_NEVER: none yet */
  /* version 1 ends here */
};

/* The view that plan gets. All lists in (arrival_ns, id) order. */
struct lls_step_view {
  uint32_t size;
  uint32_t instance;     /* index of the instance */
  uint32_t role;         /* enum lls_role */
  uint32_t preempt_mode; /* the core's choice, LLS_PREEMPT_NONE if caps listed none */
  uint64_t step;         /* number of this step, from 0 */
  int64_t now_ns;
  uint32_t n_waiting, n_running, n_preempted, n_moving;
  const struct lls_request *const *waiting; /* (n_waiting) nothing cached */
  /* (n_running) completely on the device, whether or not they ran in the last step:
   * begun prompts (PREFILLING) and answers (DECODING: lls_request_pending is 1, not
   * counting forced_tokens) together */
  const struct lls_request *const *running;
  /* (n_preempted) on the host, completely or in part */
  const struct lls_request *const *preempted;
  const struct lls_request *const *moving; /* (n_moving) cannot run */
  uint32_t max_tokens, max_sequences;      /* limits of this step, from the engine */
  const struct lls_cache_service *cache;
  /* Hand-over between instances: (n_offered) requests of other instances (see
   * `instance`), with cached_tokens there, which lls_plan_migrate to this instance
   * takes over. `residency` says where their blocks are on the other instance: DEVICE,
   * the only place from which they can be taken; HOST; or MOVING, if this scheduler
   * planned OFFLOAD or UPLOAD of the offer. */
  uint32_t n_offered;
  uint32_t n_leaving; /* requests handed over whose blocks are still here */
  const struct lls_request *const *offered;
  /* (instances of the topology) by index; NULL if there is only one */
  const struct lls_instance_load *const *loads;
  /* (n_sessions) with no request alive, which may return; in no order */
  uint32_t n_sessions;
  uint32_t max_encode_units; /* for later versions: 0 in this one */
  const struct lls_session *const *sessions;
  /* (n_arriving) which wait until their beginning has been read from disk into the cache.
   * They can neither be planned nor reserved for; on_arrival follows. */
  uint32_t n_arriving;
  const struct lls_request *const *arriving;
  /* [plugins] min_drafts: guesses of each request to verify though they may not pay */
  uint32_t min_drafts;
  /* version 1 ends here */
};

struct lls_step_result { /* an array element: it never grows */
  const struct lls_request *request;
  uint32_t tokens; /* computed */
  /* tokens that came out: 0 or 1, and those that were forced with it or accepted before
   * it */
  uint32_t emitted;
  /* Guessed tokens that the step verified, and those of them that came out; they are
   * among the emitted ones, and not in `tokens`. */
  uint32_t drafted, accepted;
};

struct lls_step_report {
  uint32_t size;
  uint32_t instance;
  uint64_t step;
  int64_t started_ns, ended_ns; /* begin and end of the whole step */
  uint32_t n_results;
  const struct lls_step_result *results; /* (n_results) the items that ran */
  /* version 1 ends here */
};

/* Why an item of a good plan was not placed, or why a plan was bad. */
enum lls_refusal {
  LLS_REFUSED_NO_MEMORY = 1, /* reserve returned LATER */
  LLS_REFUSED_NEVER_FITS,    /* reserve returned NEVER: the request ends with CAPACITY */
  LLS_REFUSED_BAD_ITEM,      /* the item itself was bad, and with it the whole plan */
  /* the engine or the cache manager does not support the item */
  LLS_REFUSED_UNSUPPORTED,
  /* the request's next token waits for the mask of its grammar; the request keeps its
   * cached tokens, and continues in a later step */
  LLS_REFUSED_POSTPONED,
};

/* Required unless marked optional. */
struct lls_scheduler_vtable {
  uint32_t api_version;
  uint32_t size;

  /* [main] params: the struct of the plugin's parameter table, bound and checked, valid
   * until destroy or until reconfigure brings another one. The host is valid until
   * destroy returns. A failure sets its reason by host->fail; destroy is then called if
   * *self was set. */
  int (*create)(const struct lls_host *, const void *params, void **self);
  void (*destroy)(void *self);
  /* Called after create, and in every reload; `out` is zeroed except for size. */
  void (*caps)(void *self, struct lls_scheduler_caps *out);

  /* [step] Fills the plan through the helpers below; -errno: the plan is bad. */
  int (*plan)(void *self, const struct lls_step_view *, struct lls_plan *);

  /* All callbacks below are optional. */

  /* [main] Called before the first step, to measure with the cost service; fails like
   * create. */
  int (*calibrate)(void *self, const struct lls_cost *);

  /* [step] Called once per request, before any plan has it in its view; after a reload
   * for all living requests, in order of arrival, unless import_state took them over. A
   * request from another instance arrives with cached tokens. */
  void (*on_arrival)(void *self, const struct lls_request *);
  /* A late prediction arrived, through host->predicted. A scheduler that has this
   * callback orders by predictions: the core warns if the predictor makes none. */
  void (*on_prediction)(void *self, const struct lls_request *);
  /* A step in which something ran has ended; on_finish for requests that ended in it
   * follows. */
  void (*on_step)(void *self, const struct lls_step_report *);
  /* Called once per request, as its last callback; enum lls_finish_reason. NONE: it was
   * handed over, and lives on in another instance. */
  void (*on_finish)(void *self, const struct lls_request *, uint32_t reason);
  /* A move of a sequence by OFFLOAD or UPLOAD is complete. */
  void (*on_transfer)(void *self, uint64_t transfer, const struct lls_request *);
  /* An item of the last plan was not placed; enum lls_refusal. */
  void (*on_refused)(void *self, const struct lls_request *, uint32_t refusal);
  /* Current numbers for /metrics and /admin/status, once a second while any request is
   * alive: at most 32, with names as for host->count, which is for events. A number
   * that is not written keeps its previous value. */
  void (*stats)(void *self, const struct lls_sink *);
  /* Writes its queues, with the keys of their order, for GET /admin/queues: a line for
   * each request in order, with its id. Called before a plan, after requests have
   * arrived and ended since the last one. It may allocate. */
  void (*dump)(void *self, const struct lls_sink *);

  /* [main] Between two steps. Sets new parameters without reloading the plugin; without
   * this callback such a reload is refused. After a failure nothing has changed. */
  int (*reconfigure)(void *self, const void *params);
  /* A pair: state that a new version of the same scheduler takes over in a reload. */
  int (*export_state)(void *self, struct lls_blob *out);
  int (*import_state)(void *self, const struct lls_blob *);
  /* [step] The last that is said of a session, whose handle ends here. */
  void (*on_session_end)(void *self, const struct lls_session *);
  /* version 1 ends here */
};

/* ---- filling a plan [step] ------------------------------------------------------ */

/* Returns the next free item, zeroed, for the request or session of this id; NULL if
 * the plan is full (the core then refuses it). */
static inline struct lls_plan_item *lls_plan_add_for(struct lls_plan *plan, uint32_t kind,
                                                     uint64_t id)
{
  if (plan->n_items == plan->max_items) {
    plan->overflow++;
    return NULL;
  }
  struct lls_plan_item *item = &plan->items[plan->n_items++];
  memset(item, 0, sizeof *item);
  item->kind = kind;
  item->request = id;
  return item;
}

static inline struct lls_plan_item *lls_plan_add(struct lls_plan *plan, uint32_t kind,
                                                 const struct lls_request *r)
{
  return lls_plan_add_for(plan, kind, r->id);
}

/* Computes `tokens` of r, 1..lls_request_pending(r); the last pending one emits a
 * token. */
static inline void lls_plan_run(struct lls_plan *plan, const struct lls_request *r,
                                uint32_t tokens)
{
  struct lls_plan_item *item = lls_plan_add(plan, LLS_PLAN_RUN, r);
  if (item != NULL)
    item->tokens = tokens;
}

/* Adds an item that runs all pending tokens of r and verifies the first `drafts` of its
 * guesses, 0..r->drafted_tokens. Guesses are tokens of the step, too; reserve needs room
 * for them. */
static inline void lls_plan_run_drafts(struct lls_plan *plan, const struct lls_request *r,
                                       uint32_t tokens, uint32_t drafts)
{
  struct lls_plan_item *item = lls_plan_add(plan, LLS_PLAN_RUN, r);
  if (item == NULL)
    return;
  item->tokens = tokens;
  item->drafts = drafts;
}

/* Takes r off the device; mode: enum lls_preempt_mode. */
static inline void lls_plan_preempt(struct lls_plan *plan, const struct lls_request *r,
                                    uint32_t mode)
{
  struct lls_plan_item *item = lls_plan_add(plan, LLS_PLAN_PREEMPT, r);
  if (item != NULL)
    item->mode = mode;
}

/*
 * To another instance: r, which is on the device, is offered to it and leaves this
 * scheduler's view; on_finish has the reason LLS_FINISH_NONE. If the other instance
 * could never hold it, it returns as an arrival with cached tokens, followed by
 * on_refused. To this instance: takes over a request of view->offered, which is copied
 * concurrently with this step and then arrives with cached tokens; on_refused if there
 * is not enough memory yet.
 */
static inline void lls_plan_migrate(struct lls_plan *plan, const struct lls_request *r,
                                    uint32_t instance)
{
  struct lls_plan_item *item = lls_plan_add(plan, LLS_PLAN_MIGRATE, r);
  if (item != NULL)
    item->target = instance;
}

/* Ends r; reason: LLS_FINISH_REJECTED or LLS_FINISH_CAPACITY. */
static inline void lls_plan_reject(struct lls_plan *plan, const struct lls_request *r,
                                   uint32_t reason)
{
  struct lls_plan_item *item = lls_plan_add(plan, LLS_PLAN_REJECT, r);
  if (item != NULL)
    item->reason = reason;
}

/*
 * Keeps the blocks of a session of view->sessions in a tier until a time; one that has
 * passed: no longer. It takes the place of what the session kept in that tier, and ends
 * with the session's next answer. Other requests cannot use this memory meanwhile. The
 * cache manager limits it (lease_share): beyond the limit it keeps nothing of the
 * session. On LLS_TIER_DISK the core keeps them, whatever manager runs, with a limit of
 * its own ([cache] disk_lease_share); s->until_ns is of the other tiers. A plan may have
 * one such item for each session.
 */
static inline void lls_plan_retain(struct lls_plan *plan, const struct lls_session *s,
                                   uint32_t tier, int64_t until_ns)
{
  struct lls_plan_item *item = lls_plan_add_for(plan, LLS_PLAN_RETAIN, s->id);
  if (item == NULL)
    return;
  item->mode = tier;
  item->until_ns = until_ns;
}

/* Brings the blocks of a session of view->sessions to a tier, concurrently with steps.
 * Blocks on disk come to LLS_TIER_DEVICE alone, as far as half of the device has room for
 * blocks that are read ahead; reading stops when the session has a request again.
 * s->on_device, on_host and on_disk have the tokens of each tier in later steps. */
static inline void lls_plan_fetch(struct lls_plan *plan, const struct lls_session *s,
                                  uint32_t tier)
{
  struct lls_plan_item *item = lls_plan_add_for(plan, LLS_PLAN_FETCH, s->id);
  if (item != NULL)
    item->mode = tier;
}

#ifdef __cplusplus
}
#endif

#endif
