/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speculative scheduling (ALISE, section 3): levels by the remaining time that a
 * predicted length gives, shortest first inside a level. Once enough predictions have
 * been compared with answers, T is corrected by their errors (worth.c); before, as in the
 * paper, a job that outlives its prediction doubles it and sinks a level. A job that has
 * not run for `age` is lifted before all others until it has run for `boost`.
 *
 * A job's place is one number, see key_of; it changes when the job runs, gets a
 * prediction, ages, or the cost model's times change, never by time alone.
 */
#include <llmserve/policy/ahead.h>
#include <llmserve/policy/check.h>
#include <llmserve/policy/length.h>
#include <llmserve/policy/priority.h>
#include "../../common/eviction.h"
#include "alise.h"

#include <errno.h>
#include <stdlib.h>

struct params {
  /* first member, since the shared parameter table has offsets from here */
  struct lls_pol_priority_params batch;
  int64_t levels, first, age, boost, lifted;
  double ratio;
  bool evict, ahead, learn;
};

struct job {          /* one for each slot */
  uint32_t length;    /* Lh, the current estimate */
  uint32_t least;     /* highest level it may have: 1, until it sinks */
  int64_t ran_ns;     /* time it last ran, or its arrival */
  int64_t boosted_ns; /* time it was lifted, 0 = it is not lifted */
  int64_t boost_ns;   /* run time left until it is no longer lifted */
  uint32_t level;     /* level in which its T is counted; 0 = none */
  int64_t counted;    /* the T counted there */
  int64_t key;        /* the job's key when it was counted */
};

struct alise {
  struct lls_pol_scheduler base;
  struct params params;
  struct lls_pol_priority priority;
  struct alise_times times;
  struct alise_waits waits;
  struct alise_worth worth;
  struct alise_ages ages; /* jobs that are not lifted */
  struct lls_pol_ahead ahead;
  struct job *jobs; /* (max_requests) */
  uint64_t steps;
  int64_t last_ended_ns; /* when the last step did */
  int64_t n_lifted;
  bool drops;          /* memory is short and an evicted request is prefilled again */
  bool estimates_anew; /* estimates changed: jobs must be counted again */
};

#define LEARN_STEPS 256 /* steps between two readings of the cost model */
#define LEVEL_BITS  56  /* room for T of a level: two years */

static struct job *job_of(const struct alise *a, const struct lls_request *r)
{
  return &a->jobs[r->slot];
}

static uint32_t level_of(const struct alise *a, const struct job *j, double remaining)
{
  const struct alise_levels levels = {(uint32_t)a->params.levels, (double)a->params.first,
                                      a->params.ratio};
  uint32_t level = alise_level(&levels, remaining);
  return level > j->least ? level : j->least;
}

/* Returns the remaining length, corrected by the errors of past predictions; while too
 * few errors are known, it follows from Lh alone. */
static double remaining_of(const struct alise *a, const struct lls_request *r)
{
  const struct job *j = job_of(a, r);
  double left =
      a->params.learn ? alise_worth_left(&a->worth, j->length, r->generated_tokens) : 0;
  if (left <= 0)
    left = (double)j->length - r->generated_tokens;
  return alise_remaining(&a->times, r, left);
}

/* Returns a place as one number: lifted jobs first, in the order they were lifted; then
 * by level and T. */
static int64_t place_of(const struct job *j, uint32_t level, double remaining)
{
  const double most = (double)(INT64_C(1) << LEVEL_BITS) - 1;
  if (j->boosted_ns > 0)
    return j->boosted_ns;
  return ((int64_t)level << LEVEL_BITS) + (int64_t)(remaining < most ? remaining : most);
}

/* Returns the key of a request. On the device it is the key computed when the request
 * was counted; a request that lost its memory since then must compute its tokens
 * again. */
static int64_t key_of(void *scheduler, const struct lls_request *r)
{
  const struct alise *a = scheduler;
  const struct job *j = job_of(a, r);
  if (r->state == LLS_DECODING || j->boosted_ns > 0)
    return j->key;
  double remaining = remaining_of(a, r);
  return place_of(j, level_of(a, j, remaining), remaining);
}

/* ---- what others wait for ---------------------------------------------------------- */

static void uncount(struct alise *a, struct job *j)
{
  LLS_POL_CHECK(j->counted <= a->waits.of_level[j->level]);
  a->waits.of_level[j->level] -= j->counted;
  a->waits.jobs[j->level] -= j->level > 0;
  j->level = 0;
  j->counted = 0;
}

static void count(struct alise *a, const struct lls_request *r)
{
  struct job *j = job_of(a, r);
  double remaining = remaining_of(a, r);
  uint32_t level = level_of(a, j, remaining);
  uncount(a, j);
  j->level = j->boosted_ns > 0 ? 1 : level;
  j->counted = (int64_t)remaining;
  j->key = place_of(j, level, remaining);
  a->waits.of_level[j->level] += j->counted;
  a->waits.jobs[j->level]++;
}

static void count_list(struct alise *a, const struct lls_request *const *list, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    count(a, list[i]);
}

/* Counts all jobs again, so that any two are compared by the same estimates. If jobs on
 * the device kept old places until they run, each of two jobs would rank before the
 * other as soon as it is off the device, and they would swap again and again. */
static void count_all(struct alise *a, const struct lls_step_view *view)
{
  count_list(a, view->waiting, view->n_waiting);
  count_list(a, view->running, view->n_running);
  count_list(a, view->preempted, view->n_preempted);
  count_list(a, view->moving, view->n_moving);
  lls_pol_backlog_many_changed(&a->priority.waiting.backlog);
  a->estimates_anew = false;
}

/* ---- what changes a place ---------------------------------------------------------- */

static void on_arrival(void *self, const struct lls_request *r)
{
  struct alise *a = self;
  *job_of(a, r) = (struct job){
      .length = lls_pol_predicted_output(r), .least = 1, .ran_ns = r->arrival_ns};
  alise_ages_set(&a->ages, r, r->arrival_ns);
  count(a, r);
  lls_pol_backlog_add(&a->priority.waiting.backlog, r);
}

static void on_prediction(void *self, const struct lls_request *r)
{
  struct alise *a = self;
  job_of(a, r)->length = lls_pol_predicted_output(r);
  count(a, r);
  lls_pol_backlog_changed(&a->priority.waiting.backlog, r);
}

/* The answer is longer than predicted, and by more than any past answer: doubles Lh and
 * lets the job sink a level. */
static void demote(struct alise *a, const struct lls_request *r)
{
  struct job *j = job_of(a, r);
  if (a->params.learn && alise_worth_left(&a->worth, j->length, r->generated_tokens) > 0)
    return;
  uint32_t level = level_of(a, j, remaining_of(a, r));
  uint32_t lowest = (uint32_t)a->params.levels;
  j->length = lls_pol_min(2 * r->generated_tokens, r->max_new_tokens);
  j->least = level < lowest ? level + 1 : lowest;
  lls_pol_scheduler_count(&a->base, "demoted", 1);
}

static void lift(struct alise *a, const struct lls_request *r, int64_t now_ns)
{
  struct job *j = job_of(a, r);
  alise_ages_remove(&a->ages, r);
  j->boosted_ns = now_ns;
  j->boost_ns = a->params.boost;
  a->n_lifted++;
  lls_pol_scheduler_count(&a->base, "lifted", 1);
  count(a, r);
  lls_pol_backlog_changed(&a->priority.waiting.backlog, r);
}

/* Ends the lift of a job. */
static void put_down(struct alise *a, struct job *j)
{
  LLS_POL_CHECK(j->boosted_ns <= 0 || a->n_lifted > 0);
  a->n_lifted -= j->boosted_ns > 0;
  j->boosted_ns = 0;
}

static void ran(struct alise *a, const struct lls_request *r,
                const struct lls_step_report *report)
{
  struct job *j = job_of(a, r);
  j->ran_ns = report->ended_ns;
  j->boost_ns -= report->ended_ns - report->started_ns;
  /* not if its preemption drops the cache: it might lose it at once */
  if (j->boost_ns <= 0 && !a->drops)
    put_down(a, j);
  if (j->boosted_ns == 0)
    alise_ages_set(&a->ages, r, j->ran_ns);
  if (r->finish_reason == LLS_FINISH_NONE && r->generated_tokens >= j->length)
    demote(a, r);
  count(a, r);
}

static void on_step(void *self, const struct lls_step_report *report)
{
  struct alise *a = self;
  a->last_ended_ns = report->ended_ns;
  for (uint32_t i = 0; i < report->n_results; i++)
    ran(a, report->results[i].request, report);
  if (a->steps++ % LEARN_STEPS == 0)
    a->estimates_anew |= alise_learn_times(&a->times, a->base.host->cost);
}

static void lift_the_aged(struct alise *a, int64_t now_ns)
{
  const struct lls_request *r;
  int64_t ran_ns;
  while (a->params.age > 0 && a->n_lifted < a->params.lifted &&
         (r = alise_ages_oldest(&a->ages, &ran_ns)) != NULL &&
         now_ns - ran_ns >= a->params.age)
    lift(a, r, now_ns);
}

/* ---- the memory of the lifted ------------------------------------------------------ */

static int64_t lifted_on_device(const struct alise *a, const struct lls_step_view *view)
{
  int64_t n = 0;
  for (uint32_t i = 0; i < view->n_running; i++)
    n += job_of(a, view->running[i])->boosted_ns > 0;
  return n;
}

/* True if a lifted request waits for memory. It gets free memory before all others but
 * evicts no request: under overload all waiting requests have aged, and each would evict
 * the one that was lifted before it. */
static bool lifted_waits(const struct alise *a, const struct lls_step_view *view)
{
  return a->n_lifted > 0 && view->n_waiting + view->n_preempted > 0 &&
         lifted_on_device(a, view) < a->n_lifted;
}

/* Ends a job, and counts its answer unless the client cut it off: such a length says
 * nothing about predictions. */
static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  struct alise *a = self;
  put_down(a, job_of(a, r));
  alise_ages_remove(&a->ages, r);
  uncount(a, job_of(a, r));
  lls_pol_backlog_on_finish(self, r, reason);
  if (reason == LLS_FINISH_STOP || reason == LLS_FINISH_LENGTH)
    a->estimates_anew |=
        alise_worth_learn(&a->worth, lls_pol_predicted_output(r), r->generated_tokens);
}

/* ---- memory ahead of need ---------------------------------------------------------- */

static int64_t ewt_of(const struct alise *a, const struct job *j, int64_t now_ns)
{
  int64_t until = a->params.age == 0 ? INT64_MAX : a->params.age - (now_ns - j->ran_ns);
  return alise_ewt(&a->waits, j->level, until);
}

static void rank(void *scheduler, int64_t now_ns, struct lls_pol_ahead_candidate *c)
{
  const struct alise *a = scheduler;
  const struct job *j = job_of(a, c->request);
  bool lifted = j->boosted_ns > 0;
  c->level = lifted ? 0 : j->level;
  c->ewt = lifted || j->ran_ns == a->last_ended_ns ? 0 : ewt_of(a, j, now_ns);
  c->key = key_of(scheduler, c->request);
}

static bool leaves(void *scheduler, const struct lls_request *r)
{
  return lls_pol_ahead_leaves(&((const struct alise *)scheduler)->ahead, r);
}

/* ---- the plan ---------------------------------------------------------------------- */

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct alise *a = self;
  const struct lls_pol_priority_params *params = &a->params.batch;
  if (a->estimates_anew)
    count_all(a, view);
  lift_the_aged(a, view->now_ns);
  a->drops = eviction_is_near(view) && eviction_drops(view);
  bool evict = a->params.evict && !lifted_waits(a, view);
  bool ahead = a->params.ahead && evict && !a->drops &&
               lls_pol_ahead_is_possible(a->base.host, view);
  bool moves = ahead && lls_pol_ahead_look(&a->ahead, &a->priority, params, view, rank);
  const struct lls_pol_priority_rules rules = {
      .params = params,
      .evict = evict && !ahead,
      .uploaded = ahead,
      .leaves = moves ? leaves : NULL,
  };
  lls_pol_priority_plan(&a->priority, &rules, view, out);
  if (moves)
    lls_pol_ahead_move(&a->ahead, &a->priority.waiting.backlog, out);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  lls_pol_step_preferences(out, ((const struct alise *)self)->params.batch.preempt);
}

static int calibrate(void *self, const struct lls_cost *cost)
{
  alise_learn_times(&((struct alise *)self)->times, cost);
  return 0;
}

static void dump(void *self, const struct lls_sink *sink)
{
  lls_pol_scheduler_dump(self, sink);
  lls_pol_ranked_dump(&((struct alise *)self)->priority.waiting, sink);
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct alise *a = self;
  lls_pol_scheduler_level_figures(sink, a->waits.jobs + 1, (uint32_t)a->params.levels, 1);
  sink->number(sink->context, "t0_us", a->times.t0 / 1e3);
  sink->number(sink->context, "alpha_us", a->times.alpha / 1e3);
  sink->number(sink->context, "beta_ms", a->times.beta / 1e6);
  sink->number(sink->context, "lifted", (double)a->n_lifted);
  sink->number(sink->context, "judged", a->worth.seen);
}

static const struct lls_param parameters[] = {
    LLS_POL_PRIORITY_PARAMETERS(struct lls_pol_priority_params, "256"),
    LLS_PARAM_INT(struct params, levels, "6", 1, ALISE_MOST_LEVELS, "levels",
                  "h, the number of levels"),
    LLS_PARAM_DURATION(struct params, first, "500ms", 1e6, 60e9,
                       "q0, the longest remaining time of the first level",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, ratio, "2", 1.1, 16, "",
                    "longest time of a level over that of the level before",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct params, age, "120s", 0, 3600e9,
                       "K: a request that has not run for so long goes first; 0 is never",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct params, boost, "500ms", 0, 60e9,
                       "time that such a request runs before it has its old place again",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, lifted, "4", 1, 65536, "requests",
                  "most that go first for their age at one time",
                  .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_BOOL(
        struct params, evict, "on",
        "a waiting request takes the memory of those after it; off is the paper's "
        "Defer",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_POL_AHEAD_PARAMETER(struct params),
    LLS_PARAM_BOOL(
        struct params, learn, "on",
        "remaining times from how long answers were that were predicted so, as "
        "soon as 64 have ended; off is the paper's doubling",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
};

static void destroy(void *self)
{
  struct alise *a = self;
  lls_pol_priority_free(&a->priority);
  lls_pol_ahead_free(&a->ahead);
  alise_ages_free(&a->ages);
  free(a->jobs);
  free(a);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct alise *a = LLS_POL_SCHEDULER_NEW(struct alise, host, parameters, params);
  if (a == NULL)
    return -ENOMEM;
  /* as long as the cost model has no estimates: 0.2 ms for a token of the prompt, 20 ms
   * for one of the answer */
  a->times = (struct alise_times){.t0 = 2e5, .alpha = 0, .beta = 2e7};
  a->jobs = calloc(host->engine->max_requests, sizeof *a->jobs);
  int rc = lls_pol_priority_init(&a->priority, &a->base, key_of);
  if (rc == 0)
    rc = lls_pol_ahead_init(&a->ahead, host->engine->max_requests);
  if (rc == 0)
    rc = alise_ages_init(&a->ages, host->engine->max_requests);
  if (rc == 0 && a->jobs == NULL)
    rc = -ENOMEM;
  if (rc < 0)
    destroy(a);
  else
    *self = a;
  return rc;
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
    .on_prediction = on_prediction,
    .on_step = on_step,
    .on_finish = on_finish,
    .on_transfer = lls_pol_backlog_on_transfer,
    .stats = stats,
    .dump = dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN(
    "alise", struct params,
    "levels by predicted remaining time, preemptive, with ageing (ALISE)");
