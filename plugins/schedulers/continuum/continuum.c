/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continuum: programs in order of arrival, and the memory of a program that waits for a
 * tool kept for a while. The time-to-live weighs what a return without the memory would
 * cost against the time for which others lack it. Programs are sessions.
 *
 * Section numbers are those of "Continuum: Efficient and Robust Multi-Turn LLM Agent
 * Scheduling with KV Cache Time-to-Live" (Li et al., 2025, version 2).
 */
#include <llmserve/policy/prefill_first.h>
#include <llmserve/policy/ranked.h>
#include "../../common/programs.h"

#include <math.h>

#define MEAN_PART 0.05               /* weight of a new sample in wait_ns */
#define AGAIN_NS  INT64_C(100000000) /* from a lease that was refused to the next try */
#define LN_2      0.69314718055994530942

struct params {
  /* first member, since the shared parameter table has offsets from here */
  struct lls_pol_prefill_first_params batch;
  int64_t unknown, most, ahead;
  double memory;
  bool keep;
};

struct continuum {
  struct lls_pol_scheduler base;
  struct params params;
  struct lls_pol_ranked waiting;
  struct programs programs;
  double wait_ns; /* mean time that requests waited before they first ran */
  uint32_t kept;  /* sessions kept by the last plan */
};

/* ---- the order --------------------------------------------------------------------- */

enum { ARRIVAL = 1, BEGUN }; /* user words: its place in the order; 1: it has run */

/* A call of an earlier program comes first, so the turns of one program follow each
 * other without waiting for programs that arrived between them. */
static int64_t key_of(void *scheduler, const struct lls_request *r)
{
  (void)scheduler;
  return (int64_t)r->user[ARRIVAL];
}

/* Returns true if the session's last answer called no tool: with it the program ended,
 * and what the user sends now is the next one. */
static bool is_over(const struct lls_session *s)
{
  return s->alive <= 1 && s->ended_by != 0 && s->ended_by != LLS_SESSION_TOOL_CALL;
}

/* Returns the request's place in the order: the arrival of its program, but at most
 * `ahead` before its own. So a request waits for no call that arrives more than `ahead`
 * after it, however many programs came before. */
static int64_t place_of(struct continuum *c, const struct lls_request *r)
{
  struct program *program = programs_of(&c->programs, r);
  int64_t soonest_ns = r->arrival_ns - c->params.ahead;
  if (program == NULL)
    return r->arrival_ns;
  if (is_over(r->session))
    program->arrival_ns = r->arrival_ns;
  return program->arrival_ns > soonest_ns ? program->arrival_ns : soonest_ns;
}

static void on_arrival(void *self, const struct lls_request *r)
{
  r->user[ARRIVAL] = (uint64_t)place_of(self, r);
  r->user[BEGUN] = 0;
  lls_pol_backlog_on_arrival(self, r);
}

static void on_step(void *self, const struct lls_step_report *report)
{
  struct continuum *c = self;
  for (uint32_t i = 0; i < report->n_results; i++) {
    const struct lls_request *r = report->results[i].request;
    if (r->user[BEGUN])
      continue;
    r->user[BEGUN] = 1;
    c->wait_ns += MEAN_PART * ((double)(report->started_ns - r->arrival_ns) - c->wait_ns);
  }
}

static void on_session_end(void *self, const struct lls_session *session)
{
  programs_forget(&((struct continuum *)self)->programs, session->id);
}

static const struct lls_request *next(void *context)
{
  return lls_pol_ranked_pop(&((struct continuum *)context)->waiting);
}

/* ---- the time-to-live -------------------------------------------------------------- */

/*
 * The time t that maximises P(t) * benefit - t: P(t) is the probability that the tool has
 * returned by then. The paper takes P from samples of each tool; here the core has learnt
 * the tool's median m, and P(t) = 1 - 2^(-t/m). The maximum is where
 * benefit * ln 2 / m * 2^(-t/m) = 1.
 */
static double best_time(double benefit_ns, double median_ns)
{
  double slope = benefit_ns * LN_2 / median_ns; /* of P(t) * benefit, at 0 */
  return slope > 1 ? median_ns * log2(slope) : 0;
}

/* Returns until when the session, whose tool runs, is kept, or LLS_NEVER: not at all. A
 * return without its memory waits like a new request, weighted with `memory`, and
 * computes its tokens again. */
static int64_t keep_until(const struct continuum *c, const struct lls_session *s)
{
  const struct lls_cost *cost = c->base.host->cost;
  double benefit_ns = c->params.memory * c->wait_ns;
  double ns = (double)c->params.unknown;
  int64_t again_ns = cost->prefill_ns(cost->context, s->tokens, 0);
  if (again_ns > 0)
    benefit_ns += (double)again_ns;
  if (s->returns_ns > s->ended_ns)
    ns = best_time(benefit_ns, (double)(s->returns_ns - s->ended_ns));
  if (ns > (double)c->params.most)
    ns = (double)c->params.most;
  return ns >= 1 ? s->ended_ns + (int64_t)ns : LLS_NEVER;
}

/* Returns true if the session's memory may be asked to stay now. A lease that was
 * refused, say for lack of room, is not asked for in each plan: to refuse it takes the
 * manager a walk over the session's blocks. */
static bool may_ask(struct continuum *c, const struct lls_session *s, int64_t now_ns)
{
  if (s->ended_by != LLS_SESSION_TOOL_CALL || s->on_device == 0 ||
      s->until_ns != LLS_NEVER || now_ns - s->ended_ns >= c->params.most)
    return false;
  const struct program *program = programs_find(&c->programs, s->id);
  return program == NULL || program->asked_ns < s->ended_ns ||
         now_ns - program->asked_ns >= AGAIN_NS;
}

/* Keeps each session in the first plan after its last answer. */
static void keep_sessions(struct continuum *c, const struct lls_step_view *view,
                          struct lls_plan *out)
{
  c->kept = 0;
  for (uint32_t i = 0; i < view->n_sessions; i++) {
    const struct lls_session *s = view->sessions[i];
    int64_t until_ns = may_ask(c, s, view->now_ns) ? keep_until(c, s) : LLS_NEVER;
    if (until_ns <= view->now_ns)
      continue;
    if (out->n_items == out->max_items)
      return;
    lls_plan_retain(out, s, LLS_TIER_DEVICE, until_ns);
    struct program *program = programs_find(&c->programs, s->id);
    if (program != NULL)
      program->asked_ns = view->now_ns;
    c->kept++;
  }
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct continuum *c = self;
  const struct lls_pol_admission admission = {.context = c, .next = next};
  lls_pol_backlog_begin(&c->waiting.backlog, view);
  lls_pol_prefill_first_plan(c->base.host, &c->params.batch, &admission, view, out);
  lls_pol_backlog_end(&c->waiting.backlog, out);
  if (c->params.keep)
    keep_sessions(c, view, out);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  lls_pol_step_preferences(out, ((const struct continuum *)self)->params.batch.preempt);
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct continuum *c = self;
  sink->number(sink->context, "programs", c->programs.n);
  sink->number(sink->context, "kept", c->kept);
  sink->number(sink->context, "mean_wait_ms", c->wait_ns / 1e6);
}

static void dump(void *self, const struct lls_sink *sink)
{
  lls_pol_scheduler_dump(self, sink);
  lls_pol_ranked_dump(&((struct continuum *)self)->waiting, sink);
}

static const struct lls_param parameters[] = {
    LLS_POL_PREFILL_FIRST_PARAMETERS(struct lls_pol_prefill_first_params),
    LLS_PARAM_BOOL(
        struct params, keep, "on",
        "keep the memory of a session while its tool runs, for a time-to-live; "
        "off: as [cache] lease_tool says",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct params, unknown, "2s", 0, 3600e9,
                       "time-to-live after a tool whose time is not known yet",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct params, most, "60s", 0, 3600e9, "longest time-to-live",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct params, ahead, "10min", 0, 86400e9,
                       "how far the arrival of its program may put a request before "
                       "requests that arrived earlier than it; 24h: as the paper",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, memory, "1", 0, 100, "",
                    "part of the mean wait that a session with its memory is spared",
                    .flags = LLS_PARAM_RELOADABLE),
};

static void destroy(void *self)
{
  struct continuum *c = self;
  lls_pol_ranked_free(&c->waiting);
  programs_free(&c->programs);
  free(c);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct continuum *c = LLS_POL_SCHEDULER_NEW(struct continuum, host, parameters, params);
  if (c == NULL)
    return -ENOMEM;
  int rc = programs_init(&c->programs, host->engine->max_requests);
  if (rc == 0)
    rc = lls_pol_ranked_init(&c->waiting, &c->base, key_of);
  if (rc < 0)
    destroy(c);
  else
    *self = c;
  return rc;
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
    .on_finish = lls_pol_backlog_on_finish,
    .on_session_end = on_session_end,
    .stats = stats,
    .dump = dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("continuum", struct params,
                         "programs in order of arrival, memory kept while a tool runs");
