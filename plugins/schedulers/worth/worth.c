/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worth: in every step the requests that gain most for what they cost others, within the
 * time that streams leave and with as many deadlines kept as can be. The README has the
 * formulas.
 */
#include "worth.h"

#include <llmserve/policy/weights.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRIES = 30 }; /* filled steps from which the margin is set */
#define UNTRIED 1.25 /* the margin before */
#define WORST   2.0  /* the largest margin set from them */
/* How many times as long a step may take with guesses for streams that are late; the
 * default of adaserve, which found it on one load */
#define STRETCH 1.25

/* Gives guesses first to streams that are behind their pace: a step has no more of them
 * than the engine verifies. */
static void choose_guesses(struct worth *w, const struct lls_step_view *view,
                           struct lls_pol_step *s)
{
  const struct lls_pol_drafts drafts = {.of = lls_pol_paced_of};
  if (w->base.host->engine->max_drafts == 0)
    return;
  lls_pol_paced_choose(&w->paced, w->base.host->cost, view, STRETCH, 0);
  lls_pol_step_own_drafts(s, &drafts);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct worth *w = self;
  struct lls_pol_step s;
  lls_pol_step_begin(&s, view, out, 0);
  choose_guesses(w, view, &s);
  w->plans++;
  lls_pol_fit_look(&w->fit, view);
  worth_set_budget(w, view);
  uint32_t most = lls_pol_fit_tokens(&w->fit, s.total_units);
  worth_look(w, view, most < UINT32_MAX ? most + 1 : most);
  worth_fill(w, &s);
  lls_pol_dropped_planned(&w->dropped, out);
  worth_learn_plan(&w->learned, w->short_of_memory, s.preempted);
  lls_pol_margin_planned(&w->margin, w->base.host, view, out);
  lls_pol_step_end(&s);
  worth_keep_sessions(w, view, s.total_units, most, out);
  return 0;
}

/* ---- events ------------------------------------------------------------------------ */

static void on_arrival(void *self, const struct lls_request *r)
{
  struct worth *w = self;
  w->jobs[r->slot] = (struct worth_job){.prefix = UINT32_MAX};
  worth_learn_arrival(&w->learned, r, lls_pol_weight(w->params.weights, r->tenant_name));
  worth_arrived(w, r);
}

/* Notes a late first token: the stream has lost its deadlines, and no gap counts any
 * more. */
static void note_first(struct worth *w, const struct lls_request *r, int64_t now_ns)
{
  if (r->slo.ttft_ns != LLS_NEVER && now_ns - r->arrival_ns > r->slo.ttft_ns)
    w->jobs[r->slot].lost = true;
}

/* Learns how far the estimates of the first TRIES filled steps are off. Until then they
 * are taken to be a quarter too low; then as low as the worst of the latter half, since
 * a model that is fitted meanwhile is worse in the first half. Only from there on the
 * margin adapts: adapting from the first step would make a dozen steps late, each with
 * all its streams. */
static void try_estimates(struct worth *w, const struct lls_step_report *report)
{
  struct lls_pol_margin *m = &w->margin;
  double taken = (double)(report->ended_ns - report->started_ns);
  double estimated = (double)m->estimated_ns;
  if (m->estimated_ns == LLS_NEVER || UNTRIED * estimated < (double)m->deadline_ns / 2)
    return;
  w->worst = w->tried == TRIES / 2 ? 0 : w->worst;
  w->worst = fmax(w->worst, taken / estimated);
  if (++w->tried == TRIES)
    m->ratio = fmin(w->worst, WORST);
}

static void on_step(void *self, const struct lls_step_report *report)
{
  struct worth *w = self;
  if (w->tried < TRIES)
    try_estimates(w, report);
  else
    lls_pol_margin_ran(&w->margin, report);
  worth_learn_step(&w->learned, report);
  for (uint32_t i = 0; i < report->n_results; i++) {
    const struct lls_step_result *x = &report->results[i];
    lls_pol_paced_note(x->request, report->ended_ns);
    if (x->emitted > 0 && x->request->generated_tokens <= x->emitted)
      note_first(w, x->request, report->ended_ns);
  }
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  struct worth *w = self;
  lls_pol_urgent_finished(&w->urgent, r);
  if (reason == LLS_FINISH_STOP || reason == LLS_FINISH_LENGTH)
    worth_learn_end(&w->learned, r);
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  out->needs = LLS_NEEDS_MIXED_BATCH;
  lls_pol_step_preferences(out, ((const struct worth *)self)->params.preempt);
}

/* ---- figures ----------------------------------------------------------------------- */

static void stats(void *self, const struct lls_sink *sink)
{
  const struct worth *w = self;
  const struct {
    const char *name;
    double value;
  } figures[] = {
      {"step_ms",
       w->room.within_ns != LLS_NEVER ? (double)w->room.within_ns * 1e-6 : NAN},
      {"memory_price", w->learned.memory_price},
      {"headroom_tokens", w->learned.headroom},
      {"mean_answer_tokens", w->learned.output},
      {"deadlines_kept", w->order.n_kept},
      {"margin_ratio", w->margin.ratio},
      {"sessions_stay_ms", fmin(w->stay.horizon_ns, 8.64e13) * 1e-6},
      {"found_on_host", w->stay.on_host},
  };
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    sink->number(sink->context, figures[i].name, figures[i].value);
}

static void dump(void *self, const struct lls_sink *sink)
{
  lls_pol_scheduler_dump(self, sink);
  stats(self, sink);
}

/* ---- parameters -------------------------------------------------------------------- */

#define RELOADABLE .flags = LLS_PARAM_RELOADABLE

static const struct lls_param parameters[] = {
    LLS_PARAM_DURATION(struct worth_params, gap, "200ms", 1e6, 6e10,
                       "longest time between two tokens that steps are made for, where "
                       "requests ask for no shorter one",
                       RELOADABLE),
    LLS_PARAM_INT(struct worth_params, chunk, "512", 0, 65536, "tokens",
                  "tokens that a step has time for on a slow device, too: where "
                  "they take longer than `gap`, this time is the gap; 0: never",
                  RELOADABLE),
    LLS_PARAM_DURATION(
        struct worth_params, max_stall, "10s", 1e8, 3.6e12,
        "how long a stream that lost its memory may stand still: it comes "
        "first from three quarters of that on, but not if it is best effort",
        RELOADABLE),
    LLS_PARAM_DURATION(struct worth_params, stay, "60s", 0, 8.64e13,
                       "longest time for which a session that called a tool keeps its "
                       "memory on the device, if that is worth it; 0: as [cache] "
                       "lease_tool says",
                       RELOADABLE),
    LLS_PARAM_FLOAT(struct worth_params, fairness, "1", 0, 100, "",
                    "how much a tenant that had more than its share is held back; 0: not "
                    "at all",
                    RELOADABLE),
    LLS_PARAM_FLOAT(struct worth_params, reserve, "0", 0, 0.9, "",
                    "fraction of the cache that requests without a deadline, or with a "
                    "missed one, leave to those with one",
                    RELOADABLE),
    LLS_PARAM_FLOAT(struct worth_params, margin, "0.99", 0, 0.9999, "",
                    "part of the filled steps that shall end in time, as far as the cost "
                    "model was off so far; 0: as it says",
                    RELOADABLE),
    LLS_PARAM_FLOAT(struct worth_params, age, "0", 0, 1e6, "",
                    "a prompt that has waited for so many times its own time comes "
                    "first and preempts others; 0: never",
                    .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_POL_STEP_PREEMPT(struct worth_params),
    LLS_PARAM_STRING(struct worth_params, weights, "",
                     "shares of tenants by name, as in alice:3, bob:0.5; of others 1",
                     RELOADABLE),
};

/* ---- life -------------------------------------------------------------------------- */

static void destroy(void *self)
{
  struct worth *w = self;
  lls_pol_margin_free(&w->margin);
  lls_pol_paced_free(&w->paced);
  lls_pol_dropped_free(&w->dropped);
  lls_pol_urgent_free(&w->urgent);
  lls_pol_heap_free(&w->order.others);
  lls_pol_heap_free(&w->order.sizes);
  lls_pol_heap_free(&w->victims);
  free(w->order.all);
  free(w->order.kept);
  free(w->jobs);
  free(w->running);
  free(w->contexts);
  free(w);
}

static bool allocate(struct worth *w, uint32_t n)
{
  w->jobs = calloc(n, sizeof *w->jobs);
  w->running = calloc(n, sizeof *w->running);
  w->contexts = calloc(n, sizeof *w->contexts);
  w->order.all = calloc(n, sizeof *w->order.all);
  w->order.kept = calloc(WORTH_KEPT, sizeof *w->order.kept);
  return w->jobs != NULL && w->running != NULL && w->contexts != NULL &&
         w->order.all != NULL && w->order.kept != NULL &&
         lls_pol_heap_init(&w->order.others, n) == 0 &&
         lls_pol_heap_init(&w->order.sizes, WORTH_KEPT + 1) == 0 &&
         lls_pol_heap_init(&w->victims, n) == 0;
}

static int check(const struct lls_host *host, const struct worth_params *p)
{
  return lls_pol_weights_check(host, "weights", p->weights);
}

static int reconfigure(void *self, const void *params)
{
  const struct worth *w = self;
  int rc = check(w->base.host, params);
  return rc < 0 ? rc : lls_pol_scheduler_reconfigure(self, params);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  if (check(host, params) < 0)
    return -EINVAL;
  struct worth *w = LLS_POL_SCHEDULER_NEW(struct worth, host, parameters, params);
  if (w == NULL)
    return -ENOMEM;
  lls_pol_fit_init(&w->fit, host->engine);
  worth_learn_begin(&w->learned);
  if (lls_pol_margin_init(&w->margin, host->engine->max_sequences) < 0 ||
      lls_pol_paced_init(&w->paced, host->engine->max_requests) < 0 ||
      lls_pol_dropped_init(&w->dropped, host) < 0 ||
      lls_pol_urgent_init(&w->urgent, host->engine->max_requests) < 0 ||
      !allocate(w, host->engine->max_requests + 1)) {
    destroy(w);
    return -ENOMEM;
  }
  w->margin.ratio = UNTRIED;
  *self = w;
  return 0;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .on_arrival = on_arrival,
    .on_step = on_step,
    .on_finish = on_finish,
    .stats = stats,
    .dump = dump,
    .reconfigure = reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("worth", struct worth_params,
                         "most worth for the cost: deadlines kept where possible, else "
                         "the largest slowdown, at learned prices");
