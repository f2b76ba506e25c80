/*
 * example: the shortest first, for a shorter mean wait than first come, first served
 * gives: tokens of the prompt and, where a predictor says how long the answer will be, of
 * the answer. So that none waits for ever, a request counts as `ageing` tokens shorter
 * for every second it has waited. A request that has a deadline for the first token and
 * must begin within `urgent` to keep it goes before all others.
 *
 * A step runs all that are running; tokens and memory that are left go to waiting
 * prompts in that order, cut into chunks where they are long. If memory runs out, the
 * newest running request makes room: that, and what each request needs, is decided by
 * <llmserve/policy/step.h>, as in the schedulers that llmserve ships.
 */
#include <llmserve/policy/scheduler.h>
#include <llmserve/policy/step.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct params { /* what llmserve.ini sets, through the table below */
  int64_t max_seqs, urgent, preempt;
  double ageing, watermark;
};

struct state {
  struct lls_pol_scheduler base; /* first; has the host */
  struct params params;
  int64_t longest_wait_ns; /* at the last plan */
  uint64_t *tried;         /* (n_tried) ids of waiting requests, in its order */
  uint32_t n_tried;
};

/* ---- the order ------------------------------------------------------------------ */

/* A request's rank in tokens; the lowest runs first. */
static double rank(const struct state *s, int64_t now_ns, const struct lls_request *r)
{
  double waited_s = (double)(now_ns - r->queue_enter_ns) / LLS_NS_PER_S;
  double answer = r->prediction.source != LLS_PREDICTED_NOT ? r->prediction.length : 0;
  return r->prompt_tokens + answer - s->params.ageing * waited_s;
}

/* How long r may still wait before its first token comes too late. The cost service
 * says how long its prompt takes, as soon as it can tell. */
static int64_t slack_ns(const struct state *s, int64_t now_ns,
                        const struct lls_request *r)
{
  const struct lls_cost *cost = s->base.host->cost;
  if (r->slo.ttft_ns == LLS_NEVER)
    return INT64_MAX;
  int64_t prefill_ns = cost->prefill_ns(cost->context, lls_request_pending(r), 0);
  int64_t deadline_ns = lls_time_after(r->arrival_ns, r->slo.ttft_ns);
  return deadline_ns - now_ns - (prefill_ns != LLS_NEVER ? prefill_ns : 0);
}

/* A request that can no longer meet its deadline is not urgent. */
static bool is_urgent(const struct state *s, int64_t slack)
{
  return slack >= 0 && slack < s->params.urgent;
}

static bool goes_before(const struct state *s, int64_t now_ns,
                        const struct lls_request *a, const struct lls_request *b)
{
  int64_t slack_a = slack_ns(s, now_ns, a), slack_b = slack_ns(s, now_ns, b);
  bool urgent = is_urgent(s, slack_a);
  if (urgent != is_urgent(s, slack_b))
    return urgent;
  return urgent ? slack_a < slack_b : rank(s, now_ns, a) < rank(s, now_ns, b);
}

/* The first of the waiting that this step has not yet tried. Lists are in order of
 * arrival, so that equals are taken in that order; user words are the scheduler's own. */
static const struct lls_request *first(struct state *s, const struct lls_step_view *view)
{
  const struct lls_request *best = NULL;
  for (uint32_t i = 0; i < view->n_waiting; i++) {
    const struct lls_request *r = view->waiting[i];
    if (r->user[0] == view->step + 1)
      continue;
    if (best == NULL || goes_before(s, view->now_ns, r, best))
      best = r;
  }
  if (best == NULL)
    return NULL;
  best->user[0] = view->step + 1;
  s->tried[s->n_tried++] = best->id;
  return best;
}

/* ---- the plan ------------------------------------------------------------------- */

static bool is_full(const struct lls_pol_step *step)
{
  return step->tokens == 0 || step->sequences == 0;
}

/* Running requests continue; if memory is short, the last of them are preempted. */
static void go_on(struct lls_pol_step *step)
{
  for (uint32_t i = 0; i < step->tail && !is_full(step); i++) {
    const struct lls_request *r = step->order[i];
    uint32_t tokens = lls_pol_min(lls_request_pending(r), step->tokens);
    if (lls_pol_step_grow(step, i, tokens))
      lls_pol_step_run(step, r, tokens);
  }
}

typedef enum lls_pol_step_answer make_room(struct lls_pol_step *,
                                           const struct lls_request *, uint32_t pending);

/* Runs as much of r as the step has tokens for, if there is room for all of it. False:
 * there is none now, for this request or any after it. */
static bool let_in(struct lls_pol_step *step, const struct lls_request *r,
                   make_room *has_room)
{
  uint32_t pending = lls_pol_step_pending(step, r);
  enum lls_pol_step_answer answer = has_room(step, r, pending);
  if (answer == LLS_POL_STEP_YES)
    lls_pol_step_run(step, r, lls_pol_min(pending, step->tokens));
  return answer != LLS_POL_STEP_NOT_NOW;
}

/* Requests that were moved to the host return before any new request starts. */
static void fill_up(struct state *s, struct lls_pol_step *step)
{
  const struct lls_step_view *view = step->view;
  const struct lls_request *r;
  for (uint32_t i = 0; i < view->n_preempted && !is_full(step); i++)
    if (!let_in(step, view->preempted[i], lls_pol_step_bring_back))
      return;
  while (!is_full(step) && (r = first(s, view)) != NULL)
    if (!let_in(step, r, lls_pol_step_admit))
      return;
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct state *s = self;
  struct lls_pol_step step;
  lls_pol_step_begin(&step, view, out, s->params.watermark);
  lls_pol_step_drafts(&step, s->base.host->cost);
  step.sequences = lls_pol_min(step.sequences, (uint32_t)s->params.max_seqs);
  s->longest_wait_ns =
      view->n_waiting > 0 ? view->now_ns - view->waiting[0]->arrival_ns : 0;
  s->n_tried = 0;
  go_on(&step);
  if (step.preempted == 0) /* else memory is short: no new request */
    fill_up(s, &step);
  lls_pol_scheduler_count(&s->base, "dropped", step.preempted);
  lls_pol_step_end(&step);
  return 0;
}

/* The core could not place what the plan said: here the next plan simply tries again. A
 * scheduler that keeps books of what runs puts them right. */
static void on_refused(void *self, const struct lls_request *r, uint32_t refusal)
{
  (void)r;
  (void)refusal;
  lls_pol_scheduler_count(self, "refused", 1);
}

/* The purpose of the order: in /metrics, waited_s over ended is the mean wait. */
static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  const struct lls_host *host = ((const struct state *)self)->base.host;
  (void)reason;
  if (r->first_scheduled_ns == LLS_NEVER)
    return; /* it was cancelled before it ran */
  host->count(host->context, "ended", 1);
  host->count(host->context, "waited_s",
              (double)(r->first_scheduled_ns - r->arrival_ns) / LLS_NS_PER_S);
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct state *s = self;
  sink->number(sink->context, "longest_wait_s",
               (double)s->longest_wait_ns / LLS_NS_PER_S);
}

/* For GET /admin/queues: the order that the last plan took waiting requests in. */
static void dump(void *self, const struct lls_sink *sink)
{
  const struct state *s = self;
  const struct lls_host *host = s->base.host;
  char line[64];
  for (uint32_t i = 0; i < s->n_tried; i++) {
    if (host->find(host->context, s->tried[i]) == NULL)
      continue; /* it has ended since */
    snprintf(line, sizeof line, "request %" PRIu64 " place %" PRIu32, s->tried[i], i + 1);
    sink->text(sink->context, line);
  }
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  out->needs = LLS_NEEDS_MIXED_BATCH | LLS_NEEDS_CHUNKED_PREFILL;
  lls_pol_step_preferences(out, ((const struct state *)self)->params.preempt);
}

/* ---- life ----------------------------------------------------------------------- */

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct params, max_seqs, "256", 1, 65536, "sequences",
                  "most sequences that run in one step", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, ageing, "100", 0, 1e6, "tokens/s",
                    "tokens that a request counts less for each second it has waited",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(
        struct params, urgent, "500ms", 0, 3600e9,
        "how long before its last moment a prompt with a deadline goes first",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_POL_STEP_PARAMETERS(struct params), /* watermark, preempt */
};

static void destroy(void *self)
{
  free(((struct state *)self)->tried);
  free(self);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct state *s = LLS_POL_SCHEDULER_NEW(struct state, host, parameters, params);
  if (s == NULL)
    return -ENOMEM;
  s->tried = calloc(host->engine->max_requests, sizeof *s->tried);
  *self = s; /* destroyed if this fails */
  return s->tried != NULL ? 0 : -ENOMEM;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .on_finish = on_finish,
    .on_refused = on_refused,
    .stats = stats,
    .dump = dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_SCHEDULER,
    .id = "example",
    .version = "1.0",
    .description = "shortest first, deadlines before, with ageing",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
