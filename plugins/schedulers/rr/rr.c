/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round robin over two classes: real-time and best-effort requests take turns, each class
 * first come, first served. What the other class has cached stays on the device while it
 * pauses.
 */
#include <llmserve/policy/lists.h>
#include <llmserve/policy/step.h>

#include <errno.h>
#include <stdlib.h>

struct params {
  int64_t max_batch, quantum_iters;
  double watermark;
};

enum side { REALTIME, BEST_EFFORT, SIDES };

struct rr {
  struct lls_pol_scheduler base;
  struct params params;
  struct lls_pol_lists waiting;     /* by side */
  const struct lls_request **order; /* (max_requests) on the device, by turn */
  uint32_t side;                    /* side that ran last */
  int64_t iterations;               /* iterations of that side in its turn */
};

/* A request without a class counts as real-time: its client waits for the answer. */
static uint32_t side_of(void *scheduler, const struct lls_request *r)
{
  (void)scheduler;
  return r->request_class == LLS_CLASS_BEST_EFFORT ? BEST_EFFORT : REALTIME;
}

static void flip(struct rr *rr)
{
  if (++rr->iterations < rr->params.quantum_iters)
    return;
  rr->iterations = 0;
  rr->side = rr->side == REALTIME ? BEST_EFFORT : REALTIME;
}

/* Orders the resident requests: this side's by arrival, then the other side's. Returns
 * how many are of this side. */
static uint32_t set_order(struct rr *rr, struct lls_pol_step *s, uint32_t side)
{
  const struct lls_step_view *v = s->view;
  uint32_t n = 0, own = 0;
  for (uint32_t other = 0; other < SIDES; other++) {
    for (uint32_t i = 0; i < v->n_running; i++)
      if ((side_of(rr, v->running[i]) != side) == other)
        rr->order[n++] = v->running[i];
    if (other == 0)
      own = n;
  }
  s->order = rr->order;
  return own;
}

static void run_running(const struct rr *rr, struct lls_pol_step *s, uint32_t own)
{
  const struct lls_engine_caps *engine = rr->base.host->engine;
  for (uint32_t i = 0; i < own && i < s->tail && s->sequences > 0; i++) {
    const struct lls_request *r = s->order[i];
    uint32_t pending = lls_request_pending(r);
    uint32_t tokens = lls_pol_step_chunk(s, engine, pending, s->view->max_tokens, false);
    if (tokens > 0 && lls_pol_step_grow(s, i, pending))
      lls_pol_step_run(s, r, tokens);
  }
}

static void let_in(struct rr *rr, struct lls_pol_step *s, uint32_t side)
{
  const struct lls_engine_caps *engine = rr->base.host->engine;
  uint32_t seats = lls_pol_min((uint32_t)rr->params.max_batch, s->view->max_sequences);
  while (s->runs < seats && s->sequences > 0 && s->tokens > 0) {
    const struct lls_request *r = lls_pol_lists_pop(&rr->waiting, side);
    if (r == NULL)
      return;
    uint32_t pending = lls_pol_step_pending(s, r);
    if (lls_pol_step_too_long(s, engine, r, pending))
      continue;
    uint32_t tokens = lls_pol_step_chunk(s, engine, pending, s->view->max_tokens, true);
    enum lls_pol_step_answer answer =
        tokens > 0 ? lls_pol_step_admit(s, r, pending) : LLS_POL_STEP_NOT_NOW;
    if (answer == LLS_POL_STEP_NOT_NOW)
      return;
    if (answer == LLS_POL_STEP_YES)
      lls_pol_step_run(s, r, tokens);
  }
}

/* A batch of one class alone. */
static void take_turn(struct rr *rr, struct lls_pol_step *s, uint32_t side)
{
  uint32_t own = set_order(rr, s, side);
  run_running(rr, s, own);
  if (s->preempted == 0)
    let_in(rr, s, side);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct rr *rr = self;
  struct lls_pol_step s;
  lls_pol_step_begin(&s, view, out, rr->params.watermark);
  lls_pol_step_drafts(&s, rr->base.host->cost);
  s.no_margin = true;
  lls_pol_backlog_begin(&rr->waiting.backlog, view);
  flip(rr);
  take_turn(rr, &s, rr->side);
  if (out->n_items == 0)
    take_turn(rr, &s, 1 - rr->side);
  lls_pol_backlog_end(&rr->waiting.backlog, out);
  lls_pol_step_end(&s);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  (void)self;
  out->needs = LLS_NEEDS_MIXED_BATCH;
  lls_pol_step_preferences(out, LLS_POL_STEP_RECOMPUTE);
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct rr *rr = self;
  sink->number(sink->context, "waiting_realtime",
               lls_pol_lists_length(&rr->waiting, REALTIME));
  sink->number(sink->context, "waiting_best_effort",
               lls_pol_lists_length(&rr->waiting, BEST_EFFORT));
}

static void dump(void *self, const struct lls_sink *sink)
{
  const struct rr *rr = self;
  lls_pol_scheduler_dump(self, sink);
  sink->text(sink->context, rr->side == REALTIME ? "turn realtime" : "turn best effort");
  lls_pol_lists_dump(&rr->waiting, sink);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct params, max_batch, "128", 1, 65536, "sequences",
                  "most sequences of a class in one step", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, quantum_iters, "1", 1, 1e6, "steps",
                  "how many steps a turn has", .flags = LLS_PARAM_RELOADABLE),
    LLS_POL_STEP_WATERMARK(struct params, "0.01"),
};

static void destroy(void *self)
{
  struct rr *rr = self;
  lls_pol_lists_free(&rr->waiting);
  free(rr->order);
  free(rr);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct rr *rr = LLS_POL_SCHEDULER_NEW(struct rr, host, parameters, params);
  if (rr == NULL)
    return -ENOMEM;
  rr->side = BEST_EFFORT; /* the first plan flips it */
  rr->iterations = rr->params.quantum_iters - 1;
  rr->order = malloc(host->engine->max_requests * sizeof(struct lls_request *));
  int rc = lls_pol_lists_init(&rr->waiting, &rr->base, SIDES, side_of);
  if (rr->order == NULL)
    rc = -ENOMEM;
  if (rc < 0)
    destroy(rr);
  else
    *self = rr;
  return rc;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .on_arrival = lls_pol_backlog_on_arrival,
    .on_finish = lls_pol_backlog_on_finish,
    .stats = stats,
    .dump = dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("rr", struct params,
                         "round robin over real-time and best-effort");
