/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Autellix: least attained service of programs. A call's place in the queues follows from
 * the time that all calls of its program have run, so a program that has had little is
 * served first, however many calls it makes. Programs are sessions.
 *
 * Section and equation numbers are those of "Autellix: An Efficient Serving Engine for
 * LLM Agents as General Programs" (Luo et al., 2025).
 */
#include <llmserve/policy/ends.h>
#include <llmserve/policy/priority.h>
#include "../../common/eviction.h"
#include "../../common/programs.h"

#include <inttypes.h>
#include <stdio.h>

#define FIGURES     8 /* level_0 to level_7 */
#define MOST_LEVELS 32
#define LIFTED      INT64_C(-1) /* key of a call that has risen */

struct params {
  /* first member, since the shared parameter table has offsets from here */
  struct lls_pol_priority_params batch;
  int64_t quantum, levels, period, look;
  double ratio, starve;
  bool paths;
};

/* A living request. Its program's table may lack a place, so it has its own numbers. */
struct call {
  int64_t before_ns; /* p(c): the service of its program when it arrived */
  int64_t served_ns; /* its own */
  int64_t waited_ns; /* time between its steps, and before them */
  int64_t since_ns;  /* since when it waits: its arrival, or the end of its last step */
  int64_t lifted_ns; /* while served_ns is below it, the call is on the first level */
};

struct autellix {
  struct lls_pol_scheduler base;
  struct params params;
  struct lls_pol_priority priority;
  struct lls_pol_dropped dropped;
  struct programs programs;
  struct call *calls; /* (max_requests) by slot */
  int64_t plans;
};

/* 4.2.2: queue i has the calls of programs with service below quantum * ratio^i; a call
 * sinks when its own steps bring its program over that. */
static uint32_t level_of(const struct autellix *a, const struct lls_request *r)
{
  const struct call *c = &a->calls[r->slot];
  double served = (double)(c->before_ns + c->served_ns);
  double most = (double)a->params.quantum;
  uint32_t level = 0;
  for (; level + 1 < (uint32_t)a->params.levels && served >= most; level++)
    most *= a->params.ratio;
  return level;
}

/* Within a queue it is first come, first served: equal keys are in order of arrival.
 * Calls that have risen are at the front of the first queue. */
static int64_t key_of(void *scheduler, const struct lls_request *r)
{
  const struct call *c = &((const struct autellix *)scheduler)->calls[r->slot];
  return c->served_ns < c->lifted_ns ? LIFTED : level_of(scheduler, r);
}

static void on_arrival(void *self, const struct lls_request *r)
{
  struct autellix *a = self;
  const struct program *program = programs_of(&a->programs, r);
  a->calls[r->slot] = (struct call){
      .before_ns = program != NULL ? program->served_ns : 0,
      .since_ns = r->arrival_ns,
  };
  lls_pol_backlog_add(&a->priority.waiting.backlog, r);
}

static void serve(struct autellix *a, const struct lls_request *r,
                  const struct lls_step_report *report)
{
  struct call *c = &a->calls[r->slot];
  int64_t key = key_of(a, r);
  c->served_ns += report->ended_ns - report->started_ns;
  if (report->started_ns > c->since_ns)
    c->waited_ns += report->started_ns - c->since_ns;
  c->since_ns = report->ended_ns;
  if (key_of(a, r) == key)
    return;
  lls_pol_scheduler_count(&a->base, "demoted", 1);
  lls_pol_backlog_changed(&a->priority.waiting.backlog, r);
}

static void on_step(void *self, const struct lls_step_report *report)
{
  for (uint32_t i = 0; i < report->n_results; i++)
    serve(self, report->results[i].request, report);
}

/* PLAS, equation 1: the service of a program is the sum over its ended calls. ATLAS,
 * equation 2: it is the longest path of calls, so those that ran at the same time count
 * once. */
static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  struct autellix *a = self;
  struct program *program = programs_of(&a->programs, r);
  const struct call *c = &a->calls[r->slot];
  int64_t path_ns = c->before_ns + c->served_ns;
  if (program != NULL && !a->params.paths)
    program->served_ns += c->served_ns;
  else if (program != NULL && path_ns > program->served_ns)
    program->served_ns = path_ns;
  if (program != NULL)
    program->waited_ns += c->waited_ns;
  lls_pol_backlog_on_finish(self, r, reason);
}

static void on_transfer(void *self, uint64_t transfer, const struct lls_request *r)
{
  (void)transfer;
  lls_pol_backlog_add(&((struct autellix *)self)->priority.waiting.backlog, r);
}

static void on_session_end(void *self, const struct lls_session *session)
{
  programs_forget(&((struct autellix *)self)->programs, session->id);
}

/* ---- anti-starvation ------------------------------------------------------------ */

/* 4.2.2: a call rises to the first queue if its program has waited `starve` times as long
 * as it was served. It stays for a quantum; the program's service is not forgotten. */
static void lift(struct autellix *a, const struct lls_request *const *list, uint32_t n,
                 int64_t now_ns)
{
  for (uint32_t i = 0; i < n; i++) {
    struct call *c = &a->calls[list[i]->slot];
    struct program *program = programs_of(&a->programs, list[i]);
    int64_t waited_ns = now_ns - c->since_ns + c->waited_ns;
    waited_ns += program != NULL ? program->waited_ns : 0;
    if (key_of(a, list[i]) <= 0 ||
        (double)waited_ns < a->params.starve * (double)(c->before_ns + c->served_ns))
      continue;
    c->lifted_ns = c->served_ns + a->params.quantum;
    c->waited_ns = 0;
    c->since_ns = now_ns;
    if (program != NULL)
      program->waited_ns = 0;
    lls_pol_scheduler_count(&a->base, "starved", 1);
    lls_pol_backlog_many_changed(&a->priority.waiting.backlog);
  }
}

static void lift_starving(struct autellix *a, const struct lls_step_view *v)
{
  if (++a->plans < a->params.period)
    return;
  a->plans = 0;
  struct lls_pol_ends e = lls_pol_ends_of(&a->dropped, NULL, v, a->params.look);
  lift(a, e.first, e.n_first, v->now_ns);
  lift(a, e.between, e.n_between, v->now_ns);
  lift(a, e.last, e.n_last, v->now_ns);
  lift(a, v->preempted, v->n_preempted, v->now_ns);
  lift(a, v->running, v->n_running, v->now_ns);
}

/* True if a waiting call may take the memory of later ones: if these are swapped, not
 * dropped, and if its queue ranks it first, not its rise: under overload all have
 * starved, and would take the memory from each other. */
static bool may_evict(struct autellix *a, const struct lls_step_view *v)
{
  const struct lls_pol_heap *waiting = &a->priority.waiting.heap;
  lls_pol_backlog_begin(&a->priority.waiting.backlog, v);
  return waiting->n > 0 && waiting->entries[0].key != LIFTED && !eviction_drops(v);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct autellix *a = self;
  lift_starving(a, view);
  const struct lls_pol_priority_rules rules = {
      .params = &a->params.batch,
      .evict = may_evict(a, view),
  };
  lls_pol_priority_plan(&a->priority, &rules, view, out);
  lls_pol_dropped_planned(&a->dropped, out);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  lls_pol_step_preferences(out, ((const struct autellix *)self)->params.batch.preempt);
}

/* Figures of those that wait. */
static void stats(void *self, const struct lls_sink *sink)
{
  const struct autellix *a = self;
  const struct lls_pol_heap *waiting = &a->priority.waiting.heap;
  uint32_t requests[FIGURES] = {0};
  for (uint32_t i = 0; i < waiting->n; i++)
    requests[lls_pol_min(level_of(a, waiting->entries[i].item), FIGURES - 1)]++;
  lls_pol_scheduler_level_figures(sink, requests, FIGURES, 0);
  sink->number(sink->context, "programs", a->programs.n);
}

static void dump(void *self, const struct lls_sink *sink)
{
  const struct autellix *a = self;
  lls_pol_scheduler_dump(self, sink);
  for (uint32_t i = 0; i < a->priority.waiting.heap.n; i++) {
    const struct lls_request *r = a->priority.waiting.heap.entries[i].item;
    char line[80];
    snprintf(line, sizeof line, "level %" PRIu32 " request %" PRIu64, level_of(a, r),
             r->id);
    sink->text(sink->context, line);
  }
}

static const struct lls_param parameters[] = {
    LLS_POL_PRIORITY_PARAMETERS(struct lls_pol_priority_params, "256"),
    LLS_PARAM_DURATION(
        struct params, quantum, "500ms", 1e6, 3600e9,
        "service of a program up to which its calls are on the first level",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, ratio, "2", 1.1, 16, "",
                    "the same of a level over that of the level above",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, levels, "8", 1, MOST_LEVELS, "levels",
                  "number of levels", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, starve, "3", 0.01, 1e6, "",
                    "a call rises to the first level if its program has waited so many "
                    "times as long as it was served",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(struct params, paths, "off",
                   "service of a program: its longest path of calls (ATLAS); off: the "
                   "sum of its calls (PLAS)",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, period, "100", 1, 1e9, "steps",
                  "steps between two looks for calls that rise",
                  .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_POL_ENDS_LOOK(struct params),
};

static void destroy(void *self)
{
  struct autellix *a = self;
  lls_pol_priority_free(&a->priority);
  lls_pol_dropped_free(&a->dropped);
  programs_free(&a->programs);
  free(a->calls);
  free(a);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  uint32_t max_requests = host->engine->max_requests;
  struct autellix *a = LLS_POL_SCHEDULER_NEW(struct autellix, host, parameters, params);
  if (a == NULL)
    return -ENOMEM;
  a->calls = calloc(max_requests, sizeof *a->calls);
  int rc = a->calls == NULL ? -ENOMEM : programs_init(&a->programs, max_requests);
  if (rc == 0)
    rc = lls_pol_priority_init(&a->priority, &a->base, key_of);
  if (rc == 0)
    rc = lls_pol_dropped_init(&a->dropped, host);
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
    .on_arrival = on_arrival,
    .on_step = on_step,
    .on_finish = on_finish,
    .on_transfer = on_transfer,
    .on_session_end = on_session_end,
    .stats = stats,
    .dump = dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("autellix", struct params,
                         "least attained service of programs, which are sessions");
