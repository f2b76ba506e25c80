/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedulers: who runs next.
 *
 * Once per step the core calls plan with a view of all requests and takes a plan back
 * (types.h). The core trusts no plan: it checks it before anything is placed and refuses
 * it whole if one item is bad (unknown, repeated, moving or finished request; more tokens
 * than pending; more than the engine's limits; a form the cache doesn't offer). After
 * `strikes` bad or late plans the instance falls back to the built-in order and says so
 * in /health.
 *
 * A good item may still not be placed: a RUN whose memory is not there is dropped from
 * the step and reported through on_refused; the others run.
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

/* S2; unmet needs refuse the start with a sentence */
enum lls_scheduler_needs {
  LLS_NEEDS_MIXED_BATCH = 1 << 0,
  LLS_NEEDS_CHUNKED_PREFILL = 1 << 1,
  LLS_NEEDS_PREDICTOR = 1 << 2, /* one that predicts: not `none` */
  LLS_NEEDS_COST = 1 << 3,
  LLS_NEEDS_FORMS = 1 << 4, /* hidden form */
  LLS_NEEDS_PARTIAL_RESIDENCY = 1 << 5,
  LLS_NEEDS_ROLES = 1 << 6, /* prefill and decode instances */
  LLS_USES_CLASS = 1 << 8,  /* for --list-plugins: what it looks at */
  LLS_USES_SLO = 1 << 9,
};

#define LLS_MAX_PREEMPT_PREFERENCES 4

struct lls_scheduler_caps { /* S2 */
  uint32_t size;
  uint32_t needs; /* enum lls_scheduler_needs */
  /* Ways of preempting in order of preference; the core takes the first that cache and
   * engine can do (view->preempt_mode); none in common refuses the start. Empty: it never
   * preempts. */
  uint32_t n_preempt;
  uint32_t preempt[LLS_MAX_PREEMPT_PREFERENCES]; /* enum lls_preempt_mode */
  /* version 1 ends here */
};

/* What plan sees. All lists in (arrival_ns, id) order. */
struct lls_step_view {
  uint32_t size;
  uint32_t instance;     /* and its role */
  uint32_t role;         /* enum lls_role */
  uint32_t preempt_mode; /* the core's choice, LLS_PREEMPT_NONE if none was asked for */
  uint64_t step;         /* number of this step, from 0 */
  int64_t now_ns;
  uint32_t n_waiting, n_running, n_preempted, n_moving;
  const struct lls_request *const *waiting; /* (n_waiting) nothing cached */
  /* (n_running) on the device: PREFILLING, DECODING */
  const struct lls_request *const *running;
  /* (n_preempted) on the host, wholly or in part */
  const struct lls_request *const *preempted;
  const struct lls_request *const *moving; /* (n_moving) can't be run */
  uint32_t max_tokens, max_sequences;      /* of this step: the engine's limits */
  const struct lls_cache_service *cache;
  /* version 1 ends here */
};

struct lls_step_result {
  const struct lls_request *request;
  uint32_t tokens;  /* computed */
  uint32_t emitted; /* 1 if a token came out */
};

struct lls_step_report { /* S8 */
  uint32_t size;
  uint32_t instance;
  uint64_t step;
  int64_t started_ns, ended_ns; /* of the whole step */
  int64_t device_ns;            /* forward pass and copies */
  int64_t copy_ns;              /* copies alone, LLS_NEVER if not measured */
  uint64_t copied_bytes;
  uint32_t n_results;
  const struct lls_step_result *results; /* (n_results) what ran */
  /* version 1 ends here */
};

/* S11 why an item of a good plan was not placed, or a plan was bad */
enum lls_refusal {
  LLS_REFUSED_NO_MEMORY = 1, /* reserve said LATER */
  LLS_REFUSED_NEVER_FITS,    /* reserve said NEVER */
  LLS_REFUSED_MOVING,
  LLS_REFUSED_BAD_ITEM,    /* this item made the plan bad */
  LLS_REFUSED_UNSUPPORTED, /* by this engine or cache */
};

/* Required unless marked optional. */
struct lls_scheduler_vtable {
  uint32_t api_version;
  uint32_t size;

  int (*create)(const struct lls_host *, const void *params, void **self); /* S1 [main] */
  void (*destroy)(void *self);                                             /* S1 [main] */
  void (*caps)(void *self, struct lls_scheduler_caps *out);                /* S2 [main] */
  /* S7 [step] Fill the plan through the helpers below; 0, or -errno for "no plan". */
  int (*plan)(void *self, const struct lls_step_view *, struct lls_plan *);

  /* optional [step] */
  int (*calibrate)(void *self, const struct lls_cost *);         /* S3, [main] */
  void (*on_arrival)(void *self, const struct lls_request *);    /* S4 */
  void (*on_prediction)(void *self, const struct lls_request *); /* S5 */
  void (*on_cancel)(void *self, const struct lls_request *);     /* S6, then S9 */
  void (*on_step)(void *self, const struct lls_step_report *);   /* S8 */
  void (*on_finish)(void *self, const struct lls_request *, uint32_t reason); /* S9 */
  void (*on_transfer)(void *self, uint64_t transfer, const struct lls_request *,
                      uint32_t status);                                         /* S10 */
  void (*on_refused)(void *self, const struct lls_request *, uint32_t refusal); /* S11 */
  void (*on_timer)(void *self, uint64_t tag);                                   /* S12 */
  void (*stats)(void *self, const struct lls_sink *);                           /* S13 */
  void (*dump)(void *self, const struct lls_sink *);                            /* S14 */
  int (*reconfigure)(void *self, const void *params); /* [main], between steps */
  int (*export_state)(void *self, struct lls_blob *out);
  int (*import_state)(void *self, const struct lls_blob *); /* pair */
  const void *(*extension)(void *self, const char *id);
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

/* PL1 Compute `tokens` of r, 1..lls_request_pending(r); the last of them emits a token.
 */
static inline void lls_plan_run(struct lls_plan *plan, const struct lls_request *r,
                                uint32_t tokens)
{
  struct lls_plan_item *item = lls_plan_add(plan, LLS_PLAN_RUN, r);
  if (item != NULL)
    item->tokens = tokens;
}

/* PL3 */
static inline void lls_plan_preempt(struct lls_plan *plan, const struct lls_request *r,
                                    uint32_t mode)
{
  struct lls_plan_item *item = lls_plan_add(plan, LLS_PLAN_PREEMPT, r);
  if (item != NULL)
    item->mode = mode;
}

/* PL7 */
static inline void lls_plan_reject(struct lls_plan *plan, const struct lls_request *r,
                                   uint32_t reason)
{
  struct lls_plan_item *item = lls_plan_add(plan, LLS_PLAN_REJECT, r);
  if (item != NULL)
    item->reason = reason;
}

/* PL9 */
static inline void lls_plan_hint(struct lls_plan *plan, const struct lls_request *r)
{
  if (plan->n_hints < plan->max_hints)
    plan->hints[plan->n_hints++] = r->id;
}

#ifdef __cplusplus
}
#endif

#endif
