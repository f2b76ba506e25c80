/*
 * example: the shortest first, for a shorter mean wait than first come, first served
 * gives: tokens of the prompt and, where a predictor says how long the answer will be, of
 * the answer. So that none waits for ever, a request counts as `ageing` tokens shorter
 * for every second it has waited. A request that has a deadline for the first token and
 * must begin within `urgent` to keep it goes before all others.
 *
 * A step runs all that are running; tokens and memory that are left go to waiting
 * prompts in that order, cut into chunks where they are long. If memory runs out, the
 * newest running request is dropped and computed again later.
 */
#include <llmserve/scheduler.h>

#include <errno.h>
#include <stdlib.h>

struct params { /* what llmserve.ini sets, through the table below */
  int64_t max_seqs, urgent;
  double ageing;
};

struct state {
  const struct lls_host *host;
  struct params params;
  int64_t longest_wait_ns; /* at the last plan */
};

struct step { /* one plan */
  const struct state *state;
  const struct lls_step_view *view;
  struct lls_plan *plan;
  uint32_t tokens, seats; /* left in this step */
  uint32_t newest;        /* running[newest] and those after it have been dropped */
};

static void count(const struct state *s, const char *event)
{
  s->host->count(s->host->context, event, 1);
}

/* Puts as much of r into the plan as there is room for; enum lls_reserve_result. */
static int run(struct step *s, const struct lls_request *r)
{
  const struct lls_cache_service *cache = s->view->cache;
  uint32_t pending = lls_request_pending(r);
  uint32_t tokens = pending < s->tokens ? pending : s->tokens;
  int rc = cache->reserve(cache->context, r, tokens, LLS_FORM_NONE, 0);
  if (rc == LLS_RESERVE_NEVER)
    lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
  if (rc != LLS_RESERVE_OK)
    return rc;
  lls_plan_run(s->plan, r, tokens);
  s->tokens -= tokens;
  s->seats--;
  return rc;
}

/* Makes room by dropping the newest that is not yet in the plan, if it isn't
 * running[i]. */
static bool drop_newest(struct step *s, uint32_t i)
{
  const struct lls_cache_service *cache = s->view->cache;
  if (s->newest <= i + 1)
    return false;
  const struct lls_request *r = s->view->running[--s->newest];
  if (cache->preempt(cache->context, r, LLS_PREEMPT_RECOMPUTE) < 0)
    return false;
  lls_plan_preempt(s->plan, r, LLS_PREEMPT_RECOMPUTE);
  count(s->state, "dropped");
  return true;
}

/* ---- the order ------------------------------------------------------------------ */

/* In tokens; less goes first. */
static double rank(const struct step *s, const struct lls_request *r)
{
  double waited_s = (double)(s->view->now_ns - r->queue_enter_ns) / LLS_NS_PER_S;
  double answer = r->prediction.source != LLS_PREDICTED_NOT ? r->prediction.length : 0;
  return r->prompt_tokens + answer - s->state->params.ageing * waited_s;
}

/* How long r may still wait before its first token comes too late. The cost service
 * says how long its prompt takes, as soon as it can tell. */
static int64_t slack_ns(const struct step *s, const struct lls_request *r)
{
  const struct lls_cost *cost = s->state->host->cost;
  if (r->slo.ttft_ns == LLS_NEVER)
    return INT64_MAX;
  int64_t prefill_ns = cost->prefill_ns(cost->context, lls_request_pending(r), 0);
  int64_t deadline_ns = lls_time_after(r->arrival_ns, r->slo.ttft_ns);
  return deadline_ns - s->view->now_ns - (prefill_ns != LLS_NEVER ? prefill_ns : 0);
}

/* A deadline that is lost makes no request urgent. */
static bool is_urgent(const struct step *s, int64_t slack)
{
  return slack >= 0 && slack < s->state->params.urgent;
}

static bool goes_before(const struct step *s, const struct lls_request *a,
                        const struct lls_request *b)
{
  int64_t slack_a = slack_ns(s, a), slack_b = slack_ns(s, b);
  bool urgent = is_urgent(s, slack_a);
  if (urgent != is_urgent(s, slack_b))
    return urgent;
  return urgent ? slack_a < slack_b : rank(s, a) < rank(s, b);
}

/* The first of the waiting that this step has not yet tried. Lists are in order of
 * arrival, so that equals are taken in that order; user words are the scheduler's own. */
static const struct lls_request *first(const struct step *s)
{
  const struct lls_request *best = NULL;
  for (uint32_t i = 0; i < s->view->n_waiting; i++) {
    const struct lls_request *r = s->view->waiting[i];
    if (r->user[0] == s->view->step + 1)
      continue;
    if (best == NULL || goes_before(s, r, best))
      best = r;
  }
  if (best != NULL)
    best->user[0] = s->view->step + 1;
  return best;
}

/* ---- the plan ------------------------------------------------------------------- */

static bool is_full(const struct step *s)
{
  return s->tokens == 0 || s->seats == 0;
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct state *state = self;
  uint32_t seats = (uint32_t)state->params.max_seqs;
  struct step s = {
      .state = state,
      .view = view,
      .plan = out,
      .tokens = view->max_tokens,
      .seats = seats < view->max_sequences ? seats : view->max_sequences,
      .newest = view->n_running,
  };
  state->longest_wait_ns =
      view->n_waiting > 0 ? view->now_ns - view->waiting[0]->arrival_ns : 0;
  for (uint32_t i = 0; i < s.newest && !is_full(&s); i++)
    while (run(&s, view->running[i]) == LLS_RESERVE_LATER && drop_newest(&s, i))
      ;
  if (s.newest < view->n_running)
    return 0; /* memory is short: no new request */
  for (uint32_t i = 0; i < view->n_preempted && !is_full(&s); i++)
    if (run(&s, view->preempted[i]) == LLS_RESERVE_LATER)
      return 0;
  const struct lls_request *r;
  while (!is_full(&s) && (r = first(&s)) != NULL)
    if (run(&s, r) == LLS_RESERVE_LATER)
      return 0;
  return 0;
}

/* The core could not place what the plan said: here the next plan simply tries again. A
 * scheduler that keeps books of what runs puts them right. */
static void on_refused(void *self, const struct lls_request *r, uint32_t refusal)
{
  (void)r;
  (void)refusal;
  count(self, "refused");
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct state *s = self;
  sink->number(sink->context, "longest_wait_s",
               (double)s->longest_wait_ns / LLS_NS_PER_S);
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  (void)self;
  out->needs = LLS_NEEDS_MIXED_BATCH | LLS_NEEDS_CHUNKED_PREFILL;
  out->preempt[out->n_preempt++] = LLS_PREEMPT_RECOMPUTE;
}

/* ---- life ----------------------------------------------------------------------- */

static int reconfigure(void *self, const void *params)
{
  ((struct state *)self)->params = *(const struct params *)params;
  return 0;
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct state *s = calloc(1, sizeof *s);
  if (s == NULL)
    return -ENOMEM;
  s->host = host;
  *self = s;
  return reconfigure(s, params);
}

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
};

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = free,
    .caps = caps,
    .plan = plan,
    .on_refused = on_refused,
    .stats = stats,
    .reconfigure = reconfigure,
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
