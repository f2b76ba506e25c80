/*
 * example: the shortest prompt first, for a shorter mean wait than first come, first
 * served gives. So that nobody waits for ever, a request counts as `ageing` tokens
 * shorter for every second it has waited.
 *
 * A step runs everybody who is running; tokens and memory that are left go to waiting
 * prompts, shortest first, cut into chunks where they are long. If memory runs out, the
 * newest running request is dropped and computed again later.
 */
#include <llmserve/scheduler.h>

#include <errno.h>
#include <stdlib.h>

struct params { /* what llmserve.ini sets, through the table below */
  int64_t max_seqs;
  double ageing;
};

struct state { /* of one plan */
  const struct params *params;
  const struct lls_step_view *view;
  struct lls_plan *plan;
  uint32_t tokens, seats; /* left in this step */
  uint32_t newest;        /* running[newest] and those after it have been dropped */
};

/* Puts as much of r into the plan as there is room for; enum lls_reserve_result. */
static int run(struct state *s, const struct lls_request *r)
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
static bool drop_newest(struct state *s, uint32_t i)
{
  const struct lls_cache_service *cache = s->view->cache;
  if (s->newest <= i + 1)
    return false;
  const struct lls_request *r = s->view->running[--s->newest];
  if (cache->preempt(cache->context, r, LLS_PREEMPT_RECOMPUTE) < 0)
    return false;
  lls_plan_preempt(s->plan, r, LLS_PREEMPT_RECOMPUTE);
  return true;
}

static double rank(const struct state *s, const struct lls_request *r)
{
  double waited_s = (double)(s->view->now_ns - r->queue_enter_ns) / LLS_NS_PER_S;
  return r->prompt_tokens - s->params->ageing * waited_s;
}

/* The first of the waiting that this step has not yet tried. Lists are in order of
 * arrival, so that equals are taken in that order; user words are the scheduler's own. */
static const struct lls_request *first(const struct state *s)
{
  const struct lls_request *best = NULL;
  for (uint32_t i = 0; i < s->view->n_waiting; i++) {
    const struct lls_request *r = s->view->waiting[i];
    if (r->user[0] == s->view->step + 1)
      continue;
    if (best == NULL || rank(s, r) < rank(s, best))
      best = r;
  }
  if (best != NULL)
    best->user[0] = s->view->step + 1;
  return best;
}

static bool is_full(const struct state *s)
{
  return s->tokens == 0 || s->seats == 0;
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  const struct params *p = self;
  uint32_t seats = (uint32_t)p->max_seqs;
  struct state s = {
      .params = p,
      .view = view,
      .plan = out,
      .tokens = view->max_tokens,
      .seats = seats < view->max_sequences ? seats : view->max_sequences,
      .newest = view->n_running,
  };
  for (uint32_t i = 0; i < s.newest && !is_full(&s); i++)
    while (run(&s, view->running[i]) == LLS_RESERVE_LATER && drop_newest(&s, i))
      ;
  if (s.newest < view->n_running)
    return 0; /* memory is short: nobody new */
  for (uint32_t i = 0; i < view->n_preempted && !is_full(&s); i++)
    if (run(&s, view->preempted[i]) == LLS_RESERVE_LATER)
      return 0;
  const struct lls_request *r;
  while (!is_full(&s) && (r = first(&s)) != NULL)
    if (run(&s, r) == LLS_RESERVE_LATER)
      return 0;
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  (void)self;
  out->needs = LLS_NEEDS_MIXED_BATCH | LLS_NEEDS_CHUNKED_PREFILL;
  out->preempt[out->n_preempt++] = LLS_PREEMPT_RECOMPUTE;
}

static int reconfigure(void *self, const void *params)
{
  *(struct params *)self = *(const struct params *)params;
  return 0;
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  (void)host;
  *self = malloc(sizeof(struct params));
  return *self != NULL ? reconfigure(*self, params) : -ENOMEM;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct params, max_seqs, "256", 1, 65536, "sequences",
                  "most sequences that run in one step", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, ageing, "100", 0, 1e6, "tokens/s",
                    "tokens that a prompt counts less for each second it has waited",
                    .flags = LLS_PARAM_RELOADABLE),
};

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = free,
    .caps = caps,
    .plan = plan,
    .reconfigure = reconfigure,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_SCHEDULER,
    .id = "example",
    .version = "1.0",
    .description = "shortest prompt first, with ageing",
    .licence = "Apache-2.0",
    .params = parameters,
    .n_params = sizeof parameters / sizeof *parameters,
    .params_size = sizeof(struct params),
    .vtable = &vtable,
};
