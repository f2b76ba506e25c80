/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speculative scheduling (ALISE, section 3): levels by the remaining time that a
 * predicted length makes, shortest first inside a level. A job that outlives its
 * prediction doubles it and sinks a level; one that has not run for `age` is lifted
 * before all others until it has run for `boost`.
 *
 * A job's place is one number, see key_of; it changes with what ran, with a prediction
 * and with age, never by time alone.
 */
#include "../common/length.h"
#include "../common/priority.h"
#include "alise.h"

#include <errno.h>
#include <stdlib.h>

struct params {
  struct priority_params batch; /* first: the table counts from here */
  int64_t levels, first, age, boost, lifted;
  double ratio;
  bool evict, ahead;
};

struct job {          /* of a slot */
  uint32_t length;    /* Lh, as believed now */
  uint32_t least;     /* level it has sunk to, 1 at first */
  int64_t ran_ns;     /* when it ran last; its arrival before that */
  int64_t boosted_ns; /* since when it is lifted, 0 = it is not */
  int64_t boost_ns;   /* time it may still run so */
  uint32_t level;     /* where its T is counted in waits; 0 = nowhere */
  int64_t counted;    /* that T */
  uint64_t leaves;    /* 1 + the step whose plan offloads it */
};

struct alise {
  struct scheduler base;
  struct params params;
  struct priority priority;
  struct alise_times times;
  struct alise_waits waits;
  struct alise_ahead ahead;
  uint64_t planned; /* 1 + the step that is planned */
  struct job *jobs; /* (max_requests) */
  uint64_t steps;
  int64_t last_ended_ns; /* when the last step did */
  int64_t n_lifted;
  uint64_t demoted;
  int64_t looked_ns; /* when who has aged was looked for */
};

#define LEARN_STEPS 256 /* between two questions to the cost model */
#define LOOKS       16  /* for the aged, in the time it takes to age */
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

/* The lifted first, in the order they were; then level, T. */
static int64_t key_of(void *scheduler, const struct lls_request *r)
{
  const struct alise *a = scheduler;
  const struct job *j = job_of(a, r);
  const double most = (double)(INT64_C(1) << LEVEL_BITS) - 1;
  if (j->boosted_ns > 0)
    return j->boosted_ns;
  double remaining = alise_remaining(&a->times, r, j->length);
  int64_t level = level_of(a, j, remaining);
  return (level << LEVEL_BITS) + (int64_t)(remaining < most ? remaining : most);
}

/* ---- what others wait for ------------------------------------------------------------
 */

static void uncount(struct alise *a, struct job *j)
{
  a->waits.of_level[j->level] -= j->counted;
  j->level = 0;
  j->counted = 0;
}

static void count(struct alise *a, const struct lls_request *r)
{
  struct job *j = job_of(a, r);
  double remaining = alise_remaining(&a->times, r, j->length);
  uncount(a, j);
  j->level = j->boosted_ns > 0 ? 1 : level_of(a, j, remaining);
  j->counted = (int64_t)remaining;
  a->waits.of_level[j->level] += j->counted;
}

/* ---- what changes a place ---------------------------------------------------------- */

static void on_arrival(void *self, const struct lls_request *r)
{
  struct alise *a = self;
  *job_of(a, r) =
      (struct job){.length = predicted_output(r), .least = 1, .ran_ns = r->arrival_ns};
  count(a, r);
  backlog_add(&a->priority.waiting.backlog, r);
}

static void on_prediction(void *self, const struct lls_request *r)
{
  struct alise *a = self;
  job_of(a, r)->length = predicted_output(r);
  count(a, r);
  backlog_changed(&a->priority.waiting.backlog, r);
}

/* The answer goes on although it should have ended: Lh doubles, and it sinks a level. */
static void demote(struct alise *a, const struct lls_request *r)
{
  struct job *j = job_of(a, r);
  uint32_t level = level_of(a, j, alise_remaining(&a->times, r, j->length));
  uint32_t lowest = (uint32_t)a->params.levels;
  j->length = min_u32(2 * r->generated_tokens, r->max_new_tokens);
  j->least = level < lowest ? level + 1 : lowest;
  a->demoted++;
}

static void put_down(struct alise *a, struct job *j)
{
  a->n_lifted -= j->boosted_ns > 0;
  j->boosted_ns = 0;
}

static void on_step(void *self, const struct lls_step_report *report)
{
  struct alise *a = self;
  a->last_ended_ns = report->ended_ns;
  for (uint32_t i = 0; i < report->n_results; i++) {
    const struct lls_request *r = report->results[i].request;
    struct job *j = job_of(a, r);
    j->ran_ns = report->ended_ns;
    j->boost_ns -= report->ended_ns - report->started_ns;
    if (j->boost_ns <= 0)
      put_down(a, j);
    if (r->finish_reason == LLS_FINISH_NONE && r->generated_tokens >= j->length)
      demote(a, r);
    count(a, r);
  }
  if (a->steps++ % LEARN_STEPS == 0)
    alise_learn_times(&a->times, a->base.host->cost);
}

/* Who has not run for longest, if that is `age`; NULL if nobody. */
static const struct lls_request *oldest(const struct alise *a,
                                        const struct lls_request *const *list, uint32_t n,
                                        const struct lls_request *best)
{
  for (uint32_t i = 0; i < n; i++) {
    const struct job *j = job_of(a, list[i]);
    if (j->boosted_ns == 0 && (best == NULL || j->ran_ns < job_of(a, best)->ran_ns))
      best = list[i];
  }
  return best;
}

static bool lift_one(struct alise *a, const struct lls_step_view *v)
{
  const struct lls_request *r = oldest(a, v->waiting, v->n_waiting, NULL);
  r = oldest(a, v->preempted, v->n_preempted, r);
  r = oldest(a, v->running, v->n_running, r);
  if (r == NULL || v->now_ns - job_of(a, r)->ran_ns < a->params.age)
    return false;
  job_of(a, r)->boosted_ns = v->now_ns;
  job_of(a, r)->boost_ns = a->params.boost;
  a->n_lifted++;
  count(a, r);
  backlog_changed(&a->priority.waiting.backlog, r);
  return true;
}

static void look_for_aged(struct alise *a, const struct lls_step_view *v)
{
  if (a->params.age == 0 || v->now_ns - a->looked_ns < a->params.age / LOOKS)
    return;
  a->looked_ns = v->now_ns;
  while (a->n_lifted < a->params.lifted && lift_one(a, v))
    ;
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  struct alise *a = self;
  put_down(a, job_of(a, r));
  uncount(a, job_of(a, r));
  backlog_on_finish(self, r, reason);
}

/* Who has come to the host waits there among the others. */
static void on_transfer(void *self, uint64_t transfer, const struct lls_request *r,
                        uint32_t status)
{
  struct alise *a = self;
  (void)transfer, (void)status;
  backlog_add(&a->priority.waiting.backlog, r);
}

/* ---- memory ahead of need ------------------------------------------------------------
 */

static int64_t ewt_of(const struct alise *a, const struct job *j, int64_t now_ns)
{
  int64_t until = a->params.age == 0 ? INT64_MAX : a->params.age - (now_ns - j->ran_ns);
  return alise_ewt(&a->waits, j->level, until);
}

static void add_candidate(struct alise *a, const struct lls_request *r, int64_t now_ns)
{
  const struct job *j = job_of(a, r);
  bool lifted = j->boosted_ns > 0;
  const struct alise_candidate candidate = {
      .request = r,
      .level = lifted ? 0 : j->level,
      .ewt = lifted || j->ran_ns == a->last_ended_ns ? 0 : ewt_of(a, j, now_ns),
      .key = key_of(a, r),
  };
  alise_ahead_add(&a->ahead, &candidate);
}

/* Units that a margin of the cache is, and those that the running ones grow by before the
 * next look: one of a step's sequences in block_tokens needs two of them. */
static uint32_t margin_of(const struct alise *a, const struct lls_step_view *view)
{
  return (uint32_t)((double)a->ahead.units * a->params.batch.watermark) + view->n_running;
}

/* Who comes and who leaves; false if nobody is off the device. */
static bool look_ahead(struct alise *a, const struct lls_step_view *view)
{
  const struct lls_request *first[ALISE_LOOKED_AT];
  struct ranked *waiting = &a->priority.waiting;
  backlog_begin(&waiting->backlog, view);
  uint32_t n = alise_first_of(&waiting->heap, first, ALISE_LOOKED_AT);
  if (n == 0)
    return false;
  alise_ahead_begin(&a->ahead, view);
  for (uint32_t i = 0; i < n; i++)
    add_candidate(a, first[i], view->now_ns);
  for (uint32_t i = 0; i < view->n_running; i++)
    add_candidate(a, view->running[i], view->now_ns);
  alise_ahead_decide(&a->ahead,
                     min_u32((uint32_t)a->params.batch.max_seqs, view->max_sequences),
                     margin_of(a, view));
  for (uint32_t i = 0; i < a->ahead.n; i++)
    if (a->ahead.jobs[i].decision == ALISE_LEAVES)
      job_of(a, a->ahead.jobs[i].request)->leaves = a->planned;
  return true;
}

static bool leaves(void *scheduler, const struct lls_request *r)
{
  const struct alise *a = scheduler;
  return job_of(a, r)->leaves == a->planned;
}

/* The host is full: the last in order loses what it has. */
static void send_away(struct alise *a, const struct lls_request *r, uint32_t units,
                      uint32_t *host_units, struct lls_plan *out)
{
  const struct lls_cache_service *cache = a->ahead.view->cache;
  if (units <= *host_units) {
    *host_units -= units;
    lls_plan_add(out, LLS_PLAN_OFFLOAD, r);
  } else if (cache->preempt(cache->context, r, LLS_PREEMPT_RECOMPUTE) == 0) {
    lls_plan_preempt(out, r, LLS_PREEMPT_RECOMPUTE);
    backlog_note(&a->priority.waiting.backlog, r);
  }
}

static void move(struct alise *a, struct lls_plan *out)
{
  const struct lls_cache_service *cache = a->ahead.view->cache;
  struct lls_capacity host = {.size = sizeof host};
  cache->capacity(cache->context, LLS_TIER_HOST, &host);
  for (uint32_t i = 0; i < a->ahead.n; i++) {
    const struct alise_candidate *j = &a->ahead.jobs[i];
    if (j->decision == ALISE_LEAVES) {
      send_away(a, j->request, j->units, &host.free_units, out);
    } else if (j->decision == ALISE_COMES &&
               backlog_take(&a->priority.waiting.backlog, j->request)) {
      lls_plan_add(out, LLS_PLAN_UPLOAD, j->request);
    }
  }
}

/* ---- the plan ---------------------------------------------------------------------- */

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct alise *a = self;
  bool ahead = a->params.ahead && a->params.evict &&
               view->preempt_mode == LLS_PREEMPT_SWAP &&
               a->base.host->engine->async_transfers;
  a->planned = view->step + 1;
  look_for_aged(a, view);
  bool moves = ahead && look_ahead(a, view);
  const struct priority_rules rules = {
      .params = &a->params.batch,
      .evict = a->params.evict && !ahead,
      .uploaded = ahead,
      .leaves = moves ? leaves : NULL,
  };
  priority_plan(&a->priority, &rules, view, out);
  if (moves)
    move(a, out);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  step_preferences(out, ((const struct alise *)self)->params.batch.preempt);
}

static int calibrate(void *self, const struct lls_cost *cost)
{
  alise_learn_times(&((struct alise *)self)->times, cost);
  return 0;
}

static void dump(void *self, const struct lls_sink *sink)
{
  scheduler_dump(self, sink);
  ranked_dump(&((struct alise *)self)->priority.waiting, sink);
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct alise *a = self;
  sink->number(sink->context, "t0_us", a->times.t0 / 1e3);
  sink->number(sink->context, "alpha_us", a->times.alpha / 1e3);
  sink->number(sink->context, "beta_ms", a->times.beta / 1e6);
  sink->number(sink->context, "lifted", (double)a->n_lifted);
  sink->number(sink->context, "demoted", (double)a->demoted);
}

static const struct lls_param parameters[] = {
    PRIORITY_PARAMETERS(struct priority_params, "256"),
    LLS_PARAM_INT(struct params, levels, "6", 1, ALISE_MOST_LEVELS, "levels",
                  "h, how many there are"),
    LLS_PARAM_DURATION(struct params, first, "500ms", 1e6, 60e9,
                       "q0, the longest remaining time of the first level",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, ratio, "2", 1.1, 16, "",
                    "longest time of a level over that of the level before",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct params, age, "10s", 0, 3600e9,
                       "K, who has not run for that long goes first; 0 is never",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct params, boost, "500ms", 0, 60e9,
                       "time that it then runs before it has its place again",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, lifted, "4", 1, 65536, "requests",
                  "most that go first for their age at one time",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(struct params, evict, "on",
                   "who waits takes the memory of those after it; off is the paper's "
                   "Defer",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(struct params, ahead, "on",
                   "with preempt = swap and a cache manager that can: memory is moved by "
                   "estimated waiting time, before it is needed and while others compute",
                   .flags = LLS_PARAM_RELOADABLE),
};

static void destroy(void *self)
{
  struct alise *a = self;
  priority_free(&a->priority);
  alise_ahead_free(&a->ahead);
  free(a->jobs);
  free(a);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct alise *a = SCHEDULER_NEW(struct alise, host, parameters, params);
  if (a == NULL)
    return -ENOMEM;
  /* until the cost model knows: a token of the prompt 0.2 ms, one of the answer 20 ms */
  a->times = (struct alise_times){.t0 = 2e5, .alpha = 0, .beta = 2e7};
  a->jobs = calloc(host->engine->max_requests, sizeof *a->jobs);
  int rc = priority_init(&a->priority, &a->base, key_of);
  if (rc == 0)
    rc = alise_ahead_init(&a->ahead, host->engine->max_requests);
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
    .on_transfer = on_transfer,
    .stats = stats,
    .dump = dump,
    .reconfigure = scheduler_reconfigure,
};

SCHEDULER_PLUGIN("alise", struct params,
                 "levels by predicted remaining time, preemptive, with ageing (ALISE)");
