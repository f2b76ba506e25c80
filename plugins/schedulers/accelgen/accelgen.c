/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AccelGen: a token budget keeps every step within the tightest deadline of its requests.
 * Requests with the least slack come first; the rest of the step goes to requests whose
 * demand for tokens and memory is nearest to the remainder of both.
 */
#include "accelgen.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Plans between two readings of the cost model, which learns while serving: usually, and
 * while it has no estimates yet. */
enum { MEASURE_EVERY = 256, ASK_EVERY = 16 };

static void measure(struct accelgen *a)
{
  const struct lls_host *host = a->base.host;
  uint32_t every = a->pace.t_pf > 0 ? MEASURE_EVERY : ASK_EVERY;
  if (a->plans++ % every == 0)
    accelgen_pace_measure(&a->pace, &a->params, host->cost,
                          host->engine->max_step_tokens);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct accelgen *a = self;
  struct lls_pol_step s;
  lls_pol_step_begin(&s, view, out, 0);
  measure(a);
  lls_pol_fit_look(&a->fit, view);
  accelgen_look(a, view);
  a->budget = accelgen_step_budget(a, view);
  a->budget_sum += a->budget;
  s.no_margin = true;
  s.watermark_units =
      a->fit.growth_units; /* a prompt is admitted if one block is left free besides it */
  s.tokens = a->budget;
  lls_pol_step_drafts(&s, a->base.host->cost);
  s.sequences = lls_pol_min((uint32_t)a->params.max_seqs, view->max_sequences);
  if (a->params.victims == ACCELGEN_LITERAL) {
    accelgen_admit_literally(a, &s);
  } else {
    accelgen_grow(a, &s);
    accelgen_admit_urgent(a, &s);
  }
  accelgen_fill(a, &s);
  if (s.runs == 0)
    accelgen_progress(a, &s);
  lls_pol_dropped_planned(&a->dropped, out);
  lls_pol_margin_planned(&a->margin, a->base.host, view, out);
  lls_pol_step_end(&s);
  return 0;
}

/* ---- events ------------------------------------------------------------------------ */

static int calibrate(void *self, const struct lls_cost *cost)
{
  struct accelgen *a = self;
  accelgen_pace_measure(&a->pace, &a->params, cost,
                        a->base.host->engine->max_step_tokens);
  return 0;
}

static void on_arrival(void *self, const struct lls_request *r)
{
  accelgen_arrived(self, r);
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  (void)reason;
  lls_pol_urgent_finished(&((struct accelgen *)self)->waiting, r);
}

static void on_step(void *self, const struct lls_step_report *report)
{
  struct accelgen *a = self;
  lls_pol_margin_ran(&a->margin, report);
  accelgen_ran(a, report);
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  out->needs = LLS_NEEDS_MIXED_BATCH;
  lls_pol_step_preferences(out, ((const struct accelgen *)self)->params.preempt);
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct accelgen *a = self;
  const struct {
    const char *name;
    double value;
  } figures[] = {
      {"s_pf_tokens", a->pace.s_pf},
      {"t_pf_s", (double)a->pace.t_pf * 1e-9},
      {"t_max_s", (double)accelgen_longest_step(&a->pace) * 1e-9},
      {"chunk_tokens", a->pace.chunk},
      {"budget_tokens", a->budget},
      {"margin_ratio", a->margin.ratio},
      {"mean_budget_tokens", a->plans > 0 ? (double)a->budget_sum / (double)a->plans : 0},
      {"urgent", a->urgent},
  };
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    sink->number(sink->context, figures[i].name, figures[i].value);
}

/* Writes the queue in the order of the last plan, with T_r of each request. */
static void dump(void *self, const struct lls_sink *sink)
{
  struct accelgen *a = self;
  lls_pol_scheduler_dump(self, sink);
  stats(self, sink);
  a->heap.n = 0;
  for (uint32_t i = a->n_decodes; i < a->n_all; i++)
    a->heap.entries[a->heap.n++] =
        (struct lls_pol_heap_entry){.key = a->candidates[i].key,
                                    .tie = a->candidates[i].id,
                                    .item = &a->candidates[i]};
  lls_pol_heap_build(&a->heap);
  while (a->heap.n > 0) {
    const struct accelgen_candidate *c = lls_pol_heap_pop(&a->heap).item;
    char line[96];
    snprintf(line, sizeof line, "request %" PRIu64 " slack %.4f s%s%s", c->id,
             (double)c->slack * 1e-9, c->urgent ? " urgent" : "", c->late ? " late" : "");
    sink->text(sink->context, line);
  }
}

static int reconfigure(void *self, const void *params)
{
  struct accelgen *a = self;
  lls_pol_scheduler_reconfigure(self, params);
  a->params.chunk &= a->base.host->engine->chunked_prefill;
  if (a->params.s_pf != LLS_NEVER)
    a->pace.s_pf = (uint32_t)a->params.s_pf;
  if (a->params.t_pf != LLS_NEVER)
    a->pace.t_pf = a->params.t_pf;
  return calibrate(self, a->base.host->cost);
}

/* ---- parameters -------------------------------------------------------------------- */

#define RELOADABLE .flags = LLS_PARAM_RELOADABLE
#define OR_AUTO    .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_AUTO

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct accelgen_params, s_pf, "auto", 16, 65536, "tokens",
                  "pivot: tokens of a step that saturate the device; auto: as the cost "
                  "model says",
                  OR_AUTO),
    LLS_PARAM_DURATION(struct accelgen_params, t_pf, "auto", 1e3, 6e11,
                       "time of such a step; auto: as the cost model says", OR_AUTO),
    LLS_PARAM_INT(struct accelgen_params, s_min, "64", 1, 65536, "tokens",
                  "least token budget of a step", RELOADABLE),
    LLS_PARAM_CHOICE(struct accelgen_params, budget, "formula", "formula|model",
                     "token budget: in proportion to the pivot, or also no more than the "
                     "cost model has time for",
                     RELOADABLE),
    LLS_PARAM_FLOAT(
        struct accelgen_params, margin, "0.99", 0, 0.9999, "",
        "budget = model: part of the steps filled to a deadline that shall end "
        "within it, as far as the cost model was off so far; 0: as it says",
        RELOADABLE),
    LLS_PARAM_DURATION(struct accelgen_params, gamma, "750ms", 0, 6e10,
                       "requests whose slack exceeds the first one's by at most this are "
                       "considered together",
                       RELOADABLE),
    LLS_PARAM_FLOAT(struct accelgen_params, urgent_eps, "0.1", 0, 10, "",
                    "urgent: a slack up to 1 + this many longest steps",
                    RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_INT(struct accelgen_params, long_tokens, "4096", 1, 1e6, "tokens",
                  "prompts from this length on are long", RELOADABLE),
    LLS_PARAM_CHOICE(
        struct accelgen_params, era, "prefill", "prefill|request|off",
        "no other long prompt is begun until the one under way is prefilled, "
        "or has ended",
        RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_CHOICE(struct accelgen_params, late, "demote", "demote|first",
                     "requests that have missed their deadline come after all others, or "
                     "first",
                     RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_FLOAT(struct accelgen_params, late_reserve, "0.2", 0, 0.9, "",
                    "part of the cache that stays free when late = demote lets late "
                    "requests in",
                    RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_CHOICE(
        struct accelgen_params, victims, "resolved", "resolved|literal",
        "which requests leave for urgent ones: none, or as the paper prints it",
        RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_INT(struct accelgen_params, kvc_headroom, "4", 0, 64, "blocks",
                  "blocks kept free for each decode when others are let in", RELOADABLE),
    LLS_PARAM_BOOL(struct accelgen_params, norm, "false",
                   "distances are measured in parts of the token budget and of the cache",
                   RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_BOOL(struct accelgen_params, extend, "true",
                   "if nothing within gamma fits, all requests are considered",
                   RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_BOOL(struct accelgen_params, chunk_short, "true",
                   "short prompts are cut too", RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_BOOL(struct accelgen_params, one_step, "true",
                   "a prompt that the last step had room for counts as one chunk; off: "
                   "as many as the mean of chunks makes of it, as in the paper",
                   RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_BOOL(struct accelgen_params, fence, "true",
                   "a deadline that the device could not keep for the request alone does "
                   "not limit steps",
                   RELOADABLE),
    LLS_PARAM_INT(struct accelgen_params, t_max_window, "100", 1, 10000, "steps",
                  "T_max is the longest of so many steps",
                  .flags = LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_FLOAT(struct accelgen_params, p_preempt, "auto", 0, 1, "",
                    "probability that a token is followed by a preemption; auto: as "
                    "observed",
                    OR_AUTO | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_DURATION(struct accelgen_params, p_max, "auto", 0, 3.6e12,
                       "longest preemption; auto: as observed",
                       OR_AUTO | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_DURATION(struct accelgen_params, tbt_slo, "187500us", 1e6, 6e11,
                       "time between tokens of a request that names none", RELOADABLE),
    LLS_PARAM_DURATION(struct accelgen_params, ttft_slo, "auto", 1e6, 3.6e12,
                       "time to the first token of a request that names none; auto: by "
                       "the length of its prompt",
                       OR_AUTO),
    LLS_PARAM_FLOAT(struct accelgen_params, ttft_scale, "4", 0.1, 1000, "",
                    "ttft_slo = auto is so many times what the prompt takes", RELOADABLE),
    LLS_PARAM_DURATION(struct accelgen_params, jct_slo, "0", 0, 3.6e12,
                       "deadline for all of a request that names none, in place of those "
                       "two; 0: none",
                       RELOADABLE),
    LLS_PARAM_BOOL(struct accelgen_params, chunk, "on",
                   "budgets follow deadlines, and prompts are cut to fit; off: the "
                   "pivot, whole prompts",
                   RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_BOOL(struct accelgen_params, order, "on",
                   "requests are ordered by time left; off: first come, first served",
                   RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_BOOL(struct accelgen_params, batch, "on",
                   "requests that fit the remainder best; off: the first",
                   RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_POL_STEP_MAX_SEQS(struct accelgen_params, "256"),
    LLS_POL_ENDS_LOOK(struct accelgen_params),
    LLS_POL_STEP_PREEMPT(struct accelgen_params),
};

/* ---- life -------------------------------------------------------------------------- */

static void destroy(void *self)
{
  struct accelgen *a = self;
  accelgen_pace_free(&a->pace);
  lls_pol_margin_free(&a->margin);
  lls_pol_heap_free(&a->heap);
  lls_pol_dropped_free(&a->dropped);
  lls_pol_urgent_free(&a->waiting);
  free(a->jobs);
  free(a->candidates);
  free(a->options);
  free(a->members);
  free(a->order);
  free(a->on_device);
  free(a->contexts);
  free(a);
}

static bool allocate(struct accelgen *a, size_t n)
{
  a->jobs = calloc(n, sizeof *a->jobs);
  a->candidates = calloc(n, sizeof *a->candidates);
  a->options = calloc(n, sizeof *a->options);
  a->members = calloc(n, sizeof *a->members);
  a->order = calloc(n, sizeof *a->order);
  a->on_device = calloc(n, sizeof *a->on_device);
  a->contexts = calloc(n, sizeof *a->contexts);
  return a->jobs != NULL && a->candidates != NULL && a->options != NULL &&
         a->members != NULL && a->order != NULL && a->on_device != NULL &&
         a->contexts != NULL && lls_pol_heap_init(&a->heap, (uint32_t)n) == 0;
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct accelgen *a = LLS_POL_SCHEDULER_NEW(struct accelgen, host, parameters, params);
  if (a == NULL)
    return -ENOMEM;
  lls_pol_fit_init(&a->fit, host->engine);
  a->params.chunk &= host->engine->chunked_prefill;
  if (accelgen_pace_init(&a->pace, &a->params) < 0 ||
      lls_pol_margin_init(&a->margin, host->engine->max_sequences) < 0 ||
      lls_pol_dropped_init(&a->dropped, host) < 0 ||
      lls_pol_urgent_init(&a->waiting, host->engine->max_requests) < 0 ||
      !allocate(a, (size_t)host->engine->max_requests + 1)) {
    destroy(a);
    return -ENOMEM;
  }
  *self = a;
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
    "accelgen", struct accelgen_params,
    "AccelGen: least slack first, steps within the tightest deadline, tokens and "
    "memory filled together");
