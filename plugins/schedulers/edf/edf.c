/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Earliest deadline first: every step runs the requests with the earliest next deadline,
 * whichever of a request's deadlines it is. Requests without a deadline follow in order
 * of arrival.
 */
#include <llmserve/policy/priority.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct params {
  /* first member, since the shared parameter table has offsets from here */
  struct lls_pol_priority_params batch;
  bool evict;
};

struct edf {
  struct lls_pol_scheduler base;
  struct params params;
  struct lls_pol_priority priority;
};

enum { FIRST_TOKEN = 1 }; /* user word: when the first token was computed */

static int64_t sooner(int64_t deadline, int64_t from, int64_t span)
{
  if (span == LLS_NEVER || span > INT64_MAX - from)
    return deadline;
  return from + span < deadline ? from + span : deadline;
}

/* completion: arrival + completion_ns. The next token: the first one by arrival +
 * ttft_ns; token g + 1 by last token + tbt_ns, and by first token + g * tpot_ns. */
static int64_t deadline_of(void *scheduler, const struct lls_request *r)
{
  (void)scheduler;
  int64_t deadline = sooner(INT64_MAX, r->arrival_ns, r->slo.completion_ns);
  int64_t g = r->generated_tokens;
  if (g == 0)
    return sooner(deadline, r->arrival_ns, r->slo.ttft_ns);
  deadline = sooner(deadline, r->last_token_ns, r->slo.tbt_ns);
  if (r->slo.tpot_ns == LLS_NEVER || r->slo.tpot_ns > INT64_MAX / g)
    return deadline;
  int64_t first =
      r->user[FIRST_TOKEN] > 0 ? (int64_t)r->user[FIRST_TOKEN] : r->arrival_ns;
  return sooner(deadline, first, g * r->slo.tpot_ns);
}

static void on_step(void *self, const struct lls_step_report *report)
{
  (void)self;
  for (uint32_t i = 0; i < report->n_results; i++) {
    const struct lls_request *r = report->results[i].request;
    if (r->generated_tokens > 0 && r->user[FIRST_TOKEN] == 0)
      r->user[FIRST_TOKEN] = (uint64_t)r->last_token_ns;
  }
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct edf *e = self;
  const struct lls_pol_priority_rules rules = {.params = &e->params.batch,
                                               .evict = e->params.evict};
  lls_pol_priority_plan(&e->priority, &rules, view, out);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  lls_pol_step_preferences(out, ((const struct edf *)self)->params.batch.preempt);
}

/* Writes the number of waiting requests that are due already, and the time until the
 * first deadline if there is one. */
static void stats(void *self, const struct lls_sink *sink)
{
  const struct edf *e = self;
  const struct lls_host *host = e->base.host;
  const struct lls_pol_heap *waiting = &e->priority.waiting.heap;
  int64_t now_ns = host->now(host->context);
  uint32_t late = 0;
  for (uint32_t i = 0; i < waiting->n; i++)
    late += waiting->entries[i].key < now_ns;
  bool any = waiting->n > 0 && waiting->entries[0].key < INT64_MAX;
  double first_s = any ? (double)(waiting->entries[0].key - now_ns) / 1e9 : INFINITY;
  sink->number(sink->context, "late", late);
  sink->number(sink->context, "first_due_s", first_s);
}

static void dump(void *self, const struct lls_sink *sink)
{
  lls_pol_scheduler_dump(self, sink);
  lls_pol_ranked_dump(&((struct edf *)self)->priority.waiting, sink);
}

static const struct lls_param parameters[] = {
    LLS_POL_PRIORITY_PARAMETERS(struct lls_pol_priority_params, "256"),
    LLS_PARAM_BOOL(
        struct params, evict, "off",
        "a waiting request takes the memory of running ones that are due later",
        .flags = LLS_PARAM_RELOADABLE),
};

static void destroy(void *self)
{
  lls_pol_priority_free(&((struct edf *)self)->priority);
  free(self);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct edf *e = LLS_POL_SCHEDULER_NEW(struct edf, host, parameters, params);
  if (e == NULL)
    return -ENOMEM;
  int rc = lls_pol_priority_init(&e->priority, &e->base, deadline_of);
  if (rc < 0)
    destroy(e);
  else
    *self = e;
  return rc;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .on_arrival = lls_pol_backlog_on_arrival,
    .on_step = on_step,
    .on_finish = lls_pol_backlog_on_finish,
    .stats = stats,
    .dump = dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("edf", struct params, "earliest deadline first");
