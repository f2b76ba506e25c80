/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedulers: which requests run next.
 *
 * Once per step the core calls plan with a view of all requests and takes a plan back
 * (types.h). The core trusts no plan: it checks it before anything is placed and refuses
 * it whole if one item is bad (unknown, repeated, moving or finished request; more tokens
 * than pending; more than the engine's limits; a form the engine doesn't offer; size,
 * max_items or items changed; idle for more than an hour beside requests to run). The
 * view and the plan are copies, made anew for each plan. The step of a refused plan is
 * planned by the built-in order instead. After [plugins] `strikes` bad or late plans the
 * scheduler is not asked any more, and /health says so.
 *
 * A plan that took longer than [plugins] plan_budget counts as bad. Under llmserve-sim
 * nothing is measured against it, since its clock is not the plan's: --measure-plans
 * shows what plans take there, llmserve-plugin-check holds them against a limit.
 *
 * plan is asked before every step, and where nothing runs as soon as something happens or
 * idle_until_ns has come. Why, it is not told: whatever happens is told before, through
 * on_arrival, on_prediction, on_step, on_finish or on_refused. If none of them was
 * called since the last plan, time alone has passed.
 *
 * A good item may still not be placed: a RUN whose memory is not there, or whose answer
 * keeps to a grammar that takes long to say what may follow, is dropped from the step and
 * reported through on_refused; the others run.
 *
 * Order and determinism: ties by (arrival_ns, id). Time is view->now_ns, randomness
 * host->random; nothing else.
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

/* Unmet needs refuse the start, with a sentence. */
enum lls_scheduler_needs {
  LLS_NEEDS_MIXED_BATCH = 1 << 0,     /* prefill and decode in one step */
  LLS_NEEDS_CHUNKED_PREFILL = 1 << 1, /* prompts in pieces */
  LLS_NEEDS_FORMS = 1 << 2,           /* hidden form */
  LLS_NEEDS_ROLES = 1 << 3,           /* prefill and decode instances */
  LLS_USES_ROLES = 1 << 4, /* no need: it hands requests over where there are roles */
};

#define LLS_MAX_PREEMPT_PREFERENCES 4

struct lls_scheduler_caps {
  uint32_t size;
  uint32_t needs; /* enum lls_scheduler_needs */
  /* Ways of preempting in order of preference; the core takes the first that cache and
   * engine can do (view->preempt_mode); none in common refuses the start. Empty: it never
   * preempts. */
  uint32_t n_preempt;
  uint32_t preempt[LLS_MAX_PREEMPT_PREFERENCES]; /* enum lls_preempt_mode */
  /* version 1 ends here */
};

/*
 * The load of an instance, as it was at the end of its last step. Offers are those that
 * it had seen by then, and those on their way to it from the instance that looks.
 */
struct lls_instance_load {
  uint32_t size;
  uint32_t requests;      /* that live there, offers to it among them */
  uint32_t device_units;  /* of its cache */
  uint32_t free_units;    /* of these, as lls_capacity has them */
  uint32_t offered_units; /* that the offers hold where they are now */
  bool failed;            /* takes nothing any more: what is offered to it is lost */
  int64_t step_ns;        /* mean of its last steps; LLS_NEVER: none yet */
  /* version 1 ends here */
};

/* The view that plan gets. All lists in (arrival_ns, id) order. */
struct lls_step_view {
  uint32_t size;
  uint32_t instance;     /* and its role */
  uint32_t role;         /* enum lls_role */
  uint32_t preempt_mode; /* the core's choice, LLS_PREEMPT_NONE if none was asked for */
  uint64_t step;         /* number of this step, from 0 */
  int64_t now_ns;
  uint32_t n_waiting, n_running, n_preempted, n_moving;
  const struct lls_request *const *waiting; /* (n_waiting) nothing cached */
  /* (n_running) on the device, wholly, whether or not the last step ran it: begun prompts
   * (PREFILLING) and answers (DECODING: lls_request_pending is 1, but for
   * forced_tokens) together */
  const struct lls_request *const *running;
  /* (n_preempted) on the host, wholly or in part */
  const struct lls_request *const *preempted;
  const struct lls_request *const *moving; /* (n_moving) can't be run */
  uint32_t max_tokens, max_sequences;      /* of this step: the engine's limits */
  const struct lls_cache_service *cache;
  /* Hand-over between instances: (n_offered) requests of others, `instance` says whose,
   * with cached_tokens there, that lls_plan_migrate to this instance takes over. Where
   * their blocks are there `residency` says: DEVICE, from where alone they can be taken;
   * HOST, or MOVING, if this scheduler planned OFFLOAD or UPLOAD of the offer. */
  uint32_t n_offered;
  uint32_t n_leaving; /* handed over, whose blocks are still here */
  const struct lls_request *const *offered;
  /* (instances of the topology) by index; NULL where there is one alone */
  const struct lls_instance_load *const *loads;
  /* version 1 ends here */
};

struct lls_step_result { /* in arrays: it never grows */
  const struct lls_request *request;
  uint32_t tokens;  /* computed */
  uint32_t emitted; /* tokens that came out: 0 or 1, and those that were forced with it */
};

struct lls_step_report {
  uint32_t size;
  uint32_t instance;
  uint64_t step;
  int64_t started_ns, ended_ns; /* of the whole step */
  uint32_t n_results;
  const struct lls_step_result *results; /* (n_results) what ran */
  /* version 1 ends here */
};

/* Why an item of a good plan was not placed, or a plan was bad. */
enum lls_refusal {
  LLS_REFUSED_NO_MEMORY = 1, /* reserve said LATER */
  LLS_REFUSED_NEVER_FITS,    /* reserve said NEVER: the request ends with CAPACITY */
  LLS_REFUSED_BAD_ITEM,      /* this item made the plan bad */
  LLS_REFUSED_UNSUPPORTED,   /* by this engine or cache */
  LLS_REFUSED_POSTPONED, /* its next token waits for its grammar's mask; it keeps what it
                            has of the cache, and goes on in a later step */
};

/* Required unless marked optional. */
struct lls_scheduler_vtable {
  uint32_t api_version;
  uint32_t size;

  /* [main] params: the struct of the plugin's parameter table, bound and checked, valid
   * until destroy or until reconfigure brings another. The host is valid until destroy
   * returns. A failure says why through host->fail; then destroy is called if *self was
   * set. */
  int (*create)(const struct lls_host *, const void *params, void **self);
  void (*destroy)(void *self);
  /* After create, and in every reload; `out` comes zeroed but for size. */
  void (*caps)(void *self, struct lls_scheduler_caps *out);

  /* [step] Fill the plan through the helpers below; -errno: the plan is bad. */
  int (*plan)(void *self, const struct lls_step_view *, struct lls_plan *);

  /* All that follow are optional. */

  /* [main] Before the first step: measure with the cost service; fails like create. */
  int (*calibrate)(void *self, const struct lls_cost *);

  /* [step] Once per request, before any plan shows it; after a reload for all that are
   * alive, in order of arrival, unless import_state took them over. From another instance
   * it comes with cached tokens. */
  void (*on_arrival)(void *self, const struct lls_request *);
  /* Its prediction came late, through host->predicted. A scheduler that has this orders
   * by predictions: beside a predictor that makes none the core warns of it. */
  void (*on_prediction)(void *self, const struct lls_request *);
  /* A step in which something ran is over; requests that it ended finish after this. */
  void (*on_step)(void *self, const struct lls_step_report *);
  /* Once per request, the last time it is heard of; enum lls_finish_reason. NONE: it was
   * handed over and lives on in another instance. */
  void (*on_finish)(void *self, const struct lls_request *, uint32_t reason);
  /* A sequence that OFFLOAD or UPLOAD moved is there. */
  void (*on_transfer)(void *self, uint64_t transfer, const struct lls_request *);
  /* An item of the last plan was not placed; enum lls_refusal. */
  void (*on_refused)(void *self, const struct lls_request *, uint32_t refusal);
  /* Numbers of now for /metrics and /admin/status, once a second while anything is
   * alive: up to 32, named as those of host->count, which has what happens. What is left
   * out stays as it was said before. */
  void (*stats)(void *self, const struct lls_sink *);
  /* Its queues with what orders them, for whoever asks GET /admin/queues: a line for each
   * request in order, with its id. Asked for before any plan, after requests have come
   * and gone since the last one. It may allocate. */
  void (*dump)(void *self, const struct lls_sink *);

  /* [main] Between two steps. New parameters without a new plugin; a scheduler that has
   * none is refused such a reload. A failure leaves everything as it was. */
  int (*reconfigure)(void *self, const void *params);
  /* A pair: what a new version of the same scheduler takes over in a reload. */
  int (*export_state)(void *self, struct lls_blob *out);
  int (*import_state)(void *self, const struct lls_blob *);
  /* version 1 ends here */
};

/* ---- filling a plan [step] ------------------------------------------------------ */

/* The next free item, zeroed; NULL if the plan is full (the core then refuses it). */
static inline struct lls_plan_item *lls_plan_add(struct lls_plan *plan, uint32_t kind,
                                                 const struct lls_request *r)
{
  if (plan->n_items == plan->max_items) {
    plan->overflow++;
    return NULL;
  }
  struct lls_plan_item *item = &plan->items[plan->n_items++];
  memset(item, 0, sizeof *item);
  item->kind = kind;
  item->request = r->id;
  return item;
}

/* Compute `tokens` of r, 1..lls_request_pending(r); the last of them emits a token. */
static inline void lls_plan_run(struct lls_plan *plan, const struct lls_request *r,
                                uint32_t tokens)
{
  struct lls_plan_item *item = lls_plan_add(plan, LLS_PLAN_RUN, r);
  if (item != NULL)
    item->tokens = tokens;
}

/* Take r off the device; mode: enum lls_preempt_mode. */
static inline void lls_plan_preempt(struct lls_plan *plan, const struct lls_request *r,
                                    uint32_t mode)
{
  struct lls_plan_item *item = lls_plan_add(plan, LLS_PLAN_PREEMPT, r);
  if (item != NULL)
    item->mode = mode;
}

/*
 * To another instance: r, which is on the device, is offered to it and leaves this
 * scheduler's view; on_finish says LLS_FINISH_NONE. If it could never be held there it
 * comes back as an arrival with cached tokens, then on_refused tells why. To this
 * instance: takes over a request of view->offered, which is copied beside this step and
 * then arrives with cached tokens; on_refused if there is no room yet.
 */
static inline void lls_plan_migrate(struct lls_plan *plan, const struct lls_request *r,
                                    uint32_t instance)
{
  struct lls_plan_item *item = lls_plan_add(plan, LLS_PLAN_MIGRATE, r);
  if (item != NULL)
    item->target = instance;
}

/* End r; reason: LLS_FINISH_REJECTED or LLS_FINISH_CAPACITY. */
static inline void lls_plan_reject(struct lls_plan *plan, const struct lls_request *r,
                                   uint32_t reason)
{
  struct lls_plan_item *item = lls_plan_add(plan, LLS_PLAN_REJECT, r);
  if (item != NULL)
    item->reason = reason;
}

#ifdef __cplusplus
}
#endif

#endif
