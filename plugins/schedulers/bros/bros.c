/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BROS: real-time requests run in order of their next token's deadline, best-effort
 * requests in the time and memory left over.
 */
#include "bros.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* ---- the plan ---------------------------------------------------------------------- */

static void count(const struct bros *b)
{
  lls_pol_scheduler_count(&b->base, "realtime_run", b->rt_ready.n);
  lls_pol_scheduler_count(&b->base, "best_effort_run", b->be_ready.n);
  lls_pol_scheduler_count(&b->base, "brought_back", b->arriving.n);
  lls_pol_scheduler_count(&b->base, "replaced", b->n_replaced);
  lls_pol_scheduler_count(&b->base, "dropped", b->dropped.n);
  lls_pol_scheduler_count(&b->base, "cost_exits", b->cost_exit);
  lls_pol_scheduler_count(&b->base, "forced", b->n_forced);
  lls_pol_scheduler_count(&b->base, "given_up", b->n_left_out);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct bros *b = self;
  struct lls_pol_step s;
  lls_pol_step_begin(&s, view, out, b->params.watermark);
  lls_pol_step_drafts(&s, b->base.host->cost);
  lls_pol_fit_look(&b->fit, view);
  bros_look(b, view);
  if (b->realtime.n + b->best_effort.n > 0) {
    if (b->cost.c0 == 0)
      bros_fit_swap(b, view->cache);
    b->seats = lls_pol_min(b->b_curr, view->max_sequences);
    b->guaranteed = bros_is_guaranteed(b);
    bros_pack(b, &s);
    bros_emit(b, &s);
    count(b);
    bros_adapt(b);
  }
  b->predicted = b->cost.known ? bros_time(&b->cost, &b->load) : -1;
  lls_pol_dropped_planned(&b->off, out);
  lls_pol_step_end(&s);
  return 0;
}

static void on_arrival(void *self, const struct lls_request *r)
{
  struct bros *b = self;
  int64_t due_ns = bros_is_realtime(r)
                       ? lls_time_after(r->arrival_ns, bros_first_slo(b, r))
                       : LLS_NEVER;
  lls_pol_urgent_arrived(&b->urgent, r, due_ns, LLS_POL_URGENT_ORDINARY);
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  (void)reason;
  lls_pol_urgent_finished(&((struct bros *)self)->urgent, r);
}

static void on_step(void *self, const struct lls_step_report *report)
{
  struct bros *b = self;
  double took = (double)(report->ended_ns - report->started_ns) * 1e-9;
  bros_step_took(b, took);
  if (b->predicted >= 0 && took > 0) {
    b->error_sum += fabs(b->predicted / took - 1);
    b->errors++;
  }
  if (++b->steps >= b->next_fit)
    bros_fit(b, b->base.host->cost);
}

/* T_avg begins as the time of one decode. */
static int calibrate(void *self, const struct lls_cost *cost)
{
  struct bros *b = self;
  const struct bros_candidate decode = {.tokens = 1};
  bros_fit(b, cost);
  if (b->cost.known)
    b->t_avg = bros_time_alone(&b->cost, &decode);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  const struct bros_params *p = &((const struct bros *)self)->params;
  out->needs = LLS_NEEDS_MIXED_BATCH;
  lls_pol_step_preferences(out, p->preempt);
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct bros *b = self;
  sink->number(sink->context, "b_curr", b->b_curr);
  sink->number(sink->context, "t_avg", b->t_avg);
  sink->number(sink->context, "estimate_error",
               b->errors > 0 ? b->error_sum / b->errors : 0);
}

static void dump(void *self, const struct lls_sink *sink)
{
  const struct bros_cost *c = &((const struct bros *)self)->cost;
  lls_pol_scheduler_dump(self, sink);
  stats(self, sink);
  sink->number(sink->context, "fitted_prefill_a0", c->prefill.a0);
  sink->number(sink->context, "fitted_prefill_a1", c->prefill.a1);
  sink->number(sink->context, "fitted_prefill_beta", c->prefill.beta);
  sink->number(sink->context, "fitted_decode_a0", c->decode.a0);
  sink->number(sink->context, "fitted_decode_a1", c->decode.a1);
  sink->number(sink->context, "fitted_decode_beta", c->decode.beta);
  sink->number(sink->context, "fitted_swap_c0", c->c0);
  sink->number(sink->context, "fitted_swap_c1", c->c1);
}

/* ---- parameters -------------------------------------------------------------------- */

static const struct lls_param parameters[] = {
    LLS_PARAM_DURATION(struct bros_params, ttft_slo, "400ms", 1e7, 6e11,
                       "deadline of the first token of a request that names none",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct bros_params, tpot_slo, "200ms", 1e7, 6e11,
                       "deadline of each other token of a request that names none",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct bros_params, token_group, "1", 1, 64, "tokens",
                  "tokens that have one deadline, for the last of them",
                  .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_INT(struct bros_params, b_base, "128", 1, 65536, "sequences",
                  "most sequences of a step, at first and after one that would have "
                  "taken too long",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct bros_params, b_max, "1024", 1, 65536, "sequences",
                  "most that b_base grows to, twice as large with each step",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(
        struct bros_params, missed, "last", "last|first",
        "requests that can't meet their deadline come after those that can, or before",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_DURATION(
        struct bros_params, starve, "10s", 0, 3.6e12,
        "a request that has missed its deadline and not run for so long comes first; "
        "0: never",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct bros_params, be_min_share, "0", 0, 1, "",
                    "share of the steps that run a best-effort request whatever the "
                    "deadlines; 0: none",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(struct bros_params, replace, "on",
                   "best-effort requests take the place of real-time ones that can wait",
                   .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_BOOL(
        struct bros_params, overload, "off",
        "where all deadlines can't be kept, the tightest are given up, so that "
        "steps are not shortened for them",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_POL_STEP_WATERMARK(struct bros_params, "0.1"),
    LLS_PARAM_CHOICE(struct bros_params, preempt, "swap", "recompute|swap",
                     "how requests are dropped where memory is short: prefilled again "
                     "later, or moved to the host"),
    LLS_PARAM_CHOICE(struct bros_params, drop, "growth", "growth|any",
                     "for which real-time requests others are dropped: only those on the "
                     "device, or new ones as well, as in the paper",
                     .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_CHOICE(
        struct bros_params, prefill_attn, "product", "product|sum",
        "attention of prompts: sum(tokens) sum(context), as in the paper, or "
        "the sum of each one's product",
        .flags = LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_CHOICE(struct bros_params, decode_attn, "product", "product|sum",
                     "the same for decodes", .flags = LLS_PARAM_EXPERIMENTAL),
    LLS_POL_ENDS_LOOK(struct bros_params),
};

/* ---- life -------------------------------------------------------------------------- */

static void destroy(void *self)
{
  struct bros *b = self;
  lls_pol_dropped_free(&b->off);
  lls_pol_urgent_free(&b->urgent);
  lls_pol_heap_free(&b->realtime);
  lls_pol_heap_free(&b->best_effort);
  free(b->candidates);
  free(b->rt_ready.items);
  free(b->be_ready.items);
  free(b->dropped.items);
  free(b->arriving.items);
  free(b->contexts);
  free(b->chunks);
  free(b);
}

static bool allocate(struct bros *b, const struct lls_engine_caps *engine)
{
  size_t n = (size_t)engine->max_requests + 1, sequences = engine->max_sequences;
  b->candidates = malloc(n * sizeof *b->candidates);
  b->rt_ready.items = malloc(n * sizeof *b->rt_ready.items);
  b->be_ready.items = malloc(n * sizeof *b->be_ready.items);
  b->dropped.items = malloc(n * sizeof *b->dropped.items);
  b->arriving.items = malloc(n * sizeof *b->arriving.items);
  b->contexts = malloc((sequences + 1) * sizeof *b->contexts);
  b->chunks = malloc((sequences + 1) * sizeof *b->chunks);
  return lls_pol_heap_init(&b->realtime, (uint32_t)n) == 0 &&
         lls_pol_heap_init(&b->best_effort, (uint32_t)n) == 0 && b->candidates != NULL &&
         b->rt_ready.items != NULL && b->be_ready.items != NULL &&
         b->dropped.items != NULL && b->arriving.items != NULL && b->contexts != NULL &&
         b->chunks != NULL;
}

static int check(const struct lls_host *host, const struct bros_params *p)
{
  if (p->b_max >= p->b_base)
    return 0;
  return host->fail(host->context, -EINVAL,
                    "b_max = %lld is less than b_base = %lld: it is what b_base grows to",
                    (long long)p->b_max, (long long)p->b_base);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  int rc = check(host, params);
  if (rc < 0)
    return rc;
  struct bros *b = LLS_POL_SCHEDULER_NEW(struct bros, host, parameters, params);
  if (b == NULL)
    return -ENOMEM;
  if (!allocate(b, host->engine) || lls_pol_dropped_init(&b->off, host) < 0 ||
      lls_pol_urgent_init(&b->urgent, host->engine->max_requests) < 0) {
    destroy(b);
    return -ENOMEM;
  }
  lls_pol_fit_init(&b->fit, host->engine);
  b->b_curr = (uint32_t)b->params.b_base;
  b->t_avg = b->predicted = -1;
  *self = b;
  return 0;
}

static int reconfigure(void *self, const void *params)
{
  struct bros *b = self;
  int rc = check(b->base.host, params);
  if (rc < 0)
    return rc;
  lls_pol_scheduler_reconfigure(self, params);
  b->b_curr = (uint32_t)b->params.b_base;
  return 0;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .calibrate = calibrate,
    .on_arrival = on_arrival,
    .on_step = on_step,
    .on_finish = on_finish,
    .stats = stats,
    .dump = dump,
    .reconfigure = reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN(
    "bros", struct bros_params,
    "BROS: real-time requests by deadline, best-effort ones in the remaining time");
