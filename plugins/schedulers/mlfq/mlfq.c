/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FastServe's skip-join multi-level feedback queue: least attained service first, without
 * a prediction. A request joins at the level whose quantum its prefill fits, sinks a
 * level each time it has used up a quantum, and rises only when it has starved.
 *
 * A place in the queues is one number, level and place in the level: see key_of.
 */
#include <llmserve/policy/check.h>
#include <llmserve/policy/ends.h>
#include <llmserve/policy/fit.h>
#include <llmserve/policy/priority.h>
#include "../../common/eviction.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct params {
  /* first member, since the shared parameter table has offsets from here */
  struct lls_pol_priority_params batch;
  int64_t quantum, levels, starve, period, look;
  double ratio, host_reserve;
  bool proactive;
};

#define FIGURES 10 /* level_0 to level_9 */

struct mlfq {
  struct lls_pol_scheduler base;
  struct params params;
  struct lls_pol_priority priority;
  struct lls_pol_fit fit; /* tokens in units */
  struct lls_pol_dropped dropped;
  int64_t front, back; /* the next places at the front and the back */
  int64_t steps;
  /* requests on each level, the last one includes deeper levels; counted when requests
   * move, since statistics are read every second */
  uint32_t requests[FIGURES];
};

/* User words: the place in the queues, time attained since the level changed, when it ran
 * last. */
enum { PLACE = 1, ATTAINED, SERVED };

#define MOST_LEVELS 1000
#define PLACE_BITS  48 /* places of a level: 2^47 pushes to each end */

static uint32_t level_of(const struct lls_request *r)
{
  int64_t place = (int64_t)r->user[PLACE];
  return (uint32_t)((place + (INT64_C(1) << (PLACE_BITS - 1))) >> PLACE_BITS);
}

static int64_t key_of(void *scheduler, const struct lls_request *r)
{
  (void)scheduler;
  return (int64_t)r->user[PLACE];
}

static uint32_t lowest(const struct mlfq *m)
{
  return m->params.levels > 0 ? (uint32_t)m->params.levels - 1 : MOST_LEVELS;
}

/* quantum * ratio^level */
static double quantum_of(const struct mlfq *m, uint32_t level)
{
  double quantum = (double)m->params.quantum;
  for (uint32_t i = 0; i < level; i++)
    quantum *= m->params.ratio;
  return quantum;
}

static uint32_t *figure_of(struct mlfq *m, const struct lls_request *r)
{
  return &m->requests[lls_pol_min(level_of(r), FIGURES - 1)];
}

static void place(struct mlfq *m, const struct lls_request *r, uint32_t level, bool front)
{
  int64_t at = front ? --m->front : ++m->back;
  LLS_POL_CHECK(level <= lowest(m));
  r->user[PLACE] = (uint64_t)(((int64_t)level << PLACE_BITS) + at);
  r->user[ATTAINED] = 0;
  LLS_POL_CHECK(level_of(r) == level);
  ++*figure_of(m, r);
}

static void leave(struct mlfq *m, const struct lls_request *r)
{
  LLS_POL_CHECK(*figure_of(m, r) > 0);
  --*figure_of(m, r);
}

static void move(struct mlfq *m, const struct lls_request *r, uint32_t level, bool front)
{
  leave(m, r);
  place(m, r, level, front);
}

/* Returns the first level whose quantum the prefill fits; level 0 as long as the time
 * of a prefill is unknown. */
static uint32_t join_level(const struct mlfq *m, const struct lls_request *r)
{
  const struct lls_cost *cost = m->base.host->cost;
  int64_t prefill_ns = cost->prefill_ns(cost->context, r->prompt_tokens, 0);
  uint32_t level = 0;
  while (level < lowest(m) && quantum_of(m, level) < (double)prefill_ns)
    level++;
  return level;
}

static void on_arrival(void *self, const struct lls_request *r)
{
  struct mlfq *m = self;
  place(m, r, join_level(m, r), false);
  r->user[SERVED] = (uint64_t)r->arrival_ns;
  lls_pol_backlog_add(&m->priority.waiting.backlog, r);
}

/* Adds the step to the request's attained time. If that exceeds the quantum, the
 * request moves to the front of the next level, or to the back of the lowest. */
static void serve(struct mlfq *m, const struct lls_request *r,
                  const struct lls_step_report *report)
{
  uint32_t level = level_of(r);
  r->user[ATTAINED] += (uint64_t)(report->ended_ns - report->started_ns);
  r->user[SERVED] = (uint64_t)report->ended_ns;
  if ((double)r->user[ATTAINED] <= quantum_of(m, level))
    return;
  if (level < lowest(m)) {
    move(m, r, level + 1, true);
    lls_pol_scheduler_count(&m->base, "demoted", 1);
  } else {
    move(m, r, level, m->params.levels == 0);
  }
  lls_pol_backlog_changed(&m->priority.waiting.backlog, r);
}

/* In reverse, so that requests that move to the front of the same level keep their
 * order. */
static void on_step(void *self, const struct lls_step_report *report)
{
  for (uint32_t i = report->n_results; i-- > 0;)
    serve(self, report->results[i].request, report);
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  leave(self, r);
  lls_pol_backlog_on_finish(self, r, reason);
}

/* Called when an offload has ended: the request waits on the host, in its queue. */
static void on_transfer(void *self, uint64_t transfer, const struct lls_request *r)
{
  (void)transfer;
  lls_pol_backlog_add(&((struct mlfq *)self)->priority.waiting.backlog, r);
}

/* ---- the plan ------------------------------------------------------------------- */

static void lift(struct mlfq *m, const struct lls_request *const *list, uint32_t n,
                 int64_t now_ns)
{
  for (uint32_t i = n; i-- > 0;)
    if (now_ns - (int64_t)list[i]->user[SERVED] >= m->params.starve) {
      move(m, list[i], 0, true);
      list[i]->user[SERVED] = (uint64_t)now_ns;
      lls_pol_scheduler_count(&m->base, "starved", 1);
      lls_pol_backlog_many_changed(&m->priority.waiting.backlog);
    }
}

/* In every `period`-th plan, moves requests that did not run for `starve` to the front
 * of level 0. */
static void lift_starving(struct mlfq *m, const struct lls_step_view *v)
{
  if (++m->steps < m->params.period)
    return;
  m->steps = 0;
  struct lls_pol_ends e = lls_pol_ends_of(&m->dropped, NULL, v, m->params.look);
  lift(m, e.last, e.n_last, v->now_ns);
  lift(m, e.first, e.n_first, v->now_ns);
  lift(m, e.between, e.n_between, v->now_ns);
  lift(m, v->preempted, v->n_preempted, v->now_ns);
  lift(m, v->running, v->n_running, v->now_ns);
}

/* True if less than host_reserve of the host is free, so that preempted requests might
 * not fit. */
static bool host_is_short(const struct mlfq *m, const struct lls_step_view *v)
{
  struct lls_capacity host = {.size = sizeof host};
  if (v->preempt_mode != LLS_PREEMPT_SWAP ||
      v->cache->capacity(v->cache->context, LLS_TIER_HOST, &host) < 0)
    return false;
  return host.free_units < m->params.host_reserve * host.total_units;
}

/* True if the request was lifted for starving: only such places are negative. */
static bool has_starved(const struct lls_request *r)
{
  return (int64_t)r->user[PLACE] < 0;
}

/* True if a waiting request may evict later ones: if these are swapped, not dropped, and
 * if its level ranks it first, not starvation: under overload all requests have starved.
 */
static bool may_evict(struct mlfq *m, const struct lls_step_view *v)
{
  const struct lls_pol_heap *waiting = &m->priority.waiting.heap;
  lls_pol_backlog_begin(&m->priority.waiting.backlog, v);
  return waiting->n > 0 && !has_starved(waiting->entries[0].item) && !eviction_drops(v);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct mlfq *m = self;
  bool ahead = m->params.proactive && view->preempt_mode == LLS_PREEMPT_SWAP &&
               m->base.host->engine->async_transfers;
  uint32_t max_seqs = (uint32_t)m->params.batch.max_seqs;
  lls_pol_fit_look(&m->fit, view);
  lift_starving(m, view);
  const struct lls_pol_priority_rules rules = {
      .reserve = ahead ? m->fit.growth_units * max_seqs : 0,
      .params = &m->params.batch,
      .whole = true,
      .evict = may_evict(m, view),
      .closed = host_is_short(m, view),
  };
  lls_pol_priority_plan(&m->priority, &rules, view, out);
  lls_pol_dropped_planned(&m->dropped, out);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  lls_pol_step_preferences(out, ((const struct mlfq *)self)->params.batch.preempt);
}

static void stats(void *self, const struct lls_sink *sink)
{
  lls_pol_scheduler_level_figures(sink, ((const struct mlfq *)self)->requests, FIGURES,
                                  0);
}

static void dump(void *self, const struct lls_sink *sink)
{
  const struct mlfq *m = self;
  lls_pol_scheduler_dump(self, sink);
  for (uint32_t i = 0; i < m->priority.waiting.heap.n; i++) {
    const struct lls_request *r = m->priority.waiting.heap.entries[i].item;
    char line[80];
    snprintf(line, sizeof line, "level %" PRIu32 " request %" PRIu64, level_of(r), r->id);
    sink->text(sink->context, line);
  }
}

static const struct lls_param parameters[] = {
    LLS_POL_PRIORITY_PARAMETERS(struct lls_pol_priority_params, "16"),
    LLS_PARAM_DURATION(struct params, quantum, "10ms", 1e6, 3600e9,
                       "time a request may run on the first level",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, ratio, "2", 1.1, 16, "",
                    "quantum of a level over that of the level above",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, levels, "0", 0, MOST_LEVELS, "levels",
                  "number of levels; 0 is as many as it takes"),
    LLS_PARAM_DURATION(struct params, starve, "3s", 1e6, 3600e9,
                       "a request that has not run for so long rises to the first level",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, period, "1000", 1, 1e9, "steps",
                  "steps between two looks for such requests",
                  .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_POL_ENDS_LOOK(struct params),
    LLS_PARAM_FLOAT(
        struct params, host_reserve, "0.1", 0, 0.9, "",
        "part of the host memory that must be free for a new request to begin",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(
        struct params, proactive, "on",
        "with preempt = swap and a cache manager that can: requests that are not chosen "
        "make room for max_seqs more blocks ahead of need, and "
        "the next ones come back before their turn, while others compute",
        .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
};

static void destroy(void *self)
{
  struct mlfq *m = self;
  lls_pol_priority_free(&m->priority);
  lls_pol_dropped_free(&m->dropped);
  free(m);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct mlfq *m = LLS_POL_SCHEDULER_NEW(struct mlfq, host, parameters, params);
  if (m == NULL)
    return -ENOMEM;
  lls_pol_fit_init(&m->fit, host->engine);
  int rc = lls_pol_priority_init(&m->priority, &m->base, key_of);
  if (rc == 0)
    rc = lls_pol_dropped_init(&m->dropped, host);
  if (rc < 0)
    destroy(m);
  else
    *self = m;
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
    .on_finish = on_finish,
    .on_transfer = on_transfer,
    .stats = stats,
    .dump = dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("mlfq", struct params,
                         "skip-join multi-level feedback queue (FastServe)");
