/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortest remaining processing time: every step runs the requests whose answers are
 * predicted to end soonest, and a shorter one takes the place and the memory of a longer
 * one. With a perfect predictor it is the Oracle of comparisons of mean latency.
 */
#include <llmserve/policy/ahead.h>
#include <llmserve/policy/length.h>

#include <errno.h>
#include <stdlib.h>

struct params {
  /* first member, since the shared parameter table has offsets from here */
  struct lls_pol_priority_params batch;
  double prompt_weight;
  bool evict, ahead;
};

struct srpt {
  struct lls_pol_scheduler base;
  struct params params;
  struct lls_pol_priority priority;
  struct lls_pol_ahead ahead;
};

enum { ESTIMATE = 1 }; /* user word: current estimate of the whole answer's length */

static uint32_t estimate_of(const struct lls_request *r)
{
  return r->user[ESTIMATE] > 0 ? (uint32_t)r->user[ESTIMATE]
                               : lls_pol_predicted_output(r);
}

/* Thousandths of a token: estimate - generated + prompt_weight * prompt not
 * yet cached. */
static int64_t remaining(void *scheduler, const struct lls_request *r)
{
  const struct srpt *s = scheduler;
  double tokens = (double)estimate_of(r) - r->generated_tokens;
  uint32_t prompt =
      r->cached_tokens < r->prompt_tokens ? r->prompt_tokens - r->cached_tokens : 0;
  return (int64_t)(1000 * (tokens + s->params.prompt_weight * prompt));
}

static void on_prediction(void *self, const struct lls_request *r)
{
  r->user[ESTIMATE] = lls_pol_predicted_output(r);
  lls_pol_backlog_changed(((struct lls_pol_scheduler *)self)->backlog, r);
}

/* The answer is longer than its estimate: takes a new prediction, or else twice the
 * tokens so far; at most max_new_tokens. */
static void overrun(const struct srpt *s, const struct lls_request *r)
{
  struct lls_prediction p = {0};
  const struct lls_host *host = s->base.host;
  uint32_t estimate = 2 * r->generated_tokens;
  lls_pol_scheduler_count(&s->base, "outlived", 1);
  if (host->overrun(host->context, r->id, &p) == 0 && p.length > r->generated_tokens)
    estimate = p.length;
  r->user[ESTIMATE] = lls_pol_min(estimate, r->max_new_tokens);
}

static void on_step(void *self, const struct lls_step_report *report)
{
  for (uint32_t i = 0; i < report->n_results; i++) {
    const struct lls_request *r = report->results[i].request;
    if (r->finish_reason == LLS_FINISH_NONE && r->generated_tokens >= estimate_of(r))
      overrun(self, r);
  }
}

/* Waiting times are in this order as well: a request waits for all that precede it. */
static void rank(void *scheduler, int64_t now_ns, struct lls_pol_ahead_candidate *c)
{
  (void)now_ns;
  c->key = remaining(scheduler, c->request);
}

static bool leaves(void *scheduler, const struct lls_request *r)
{
  return lls_pol_ahead_leaves(&((const struct srpt *)scheduler)->ahead, r);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct srpt *s = self;
  const struct params *p = &s->params;
  bool ahead = p->ahead && p->evict && lls_pol_ahead_is_possible(s->base.host, view);
  bool moves =
      ahead && lls_pol_ahead_look(&s->ahead, &s->priority, &p->batch, view, rank);
  const struct lls_pol_priority_rules rules = {
      .params = &p->batch,
      .evict = p->evict && !ahead,
      .uploaded = ahead,
      .leaves = moves ? leaves : NULL,
  };
  lls_pol_priority_plan(&s->priority, &rules, view, out);
  if (moves)
    lls_pol_ahead_move(&s->ahead, &s->priority.waiting.backlog, out);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  lls_pol_step_preferences(out, ((const struct srpt *)self)->params.batch.preempt);
}

static void dump(void *self, const struct lls_sink *sink)
{
  lls_pol_scheduler_dump(self, sink);
  lls_pol_ranked_dump(&((struct srpt *)self)->priority.waiting, sink);
}

static const struct lls_param parameters[] = {
    LLS_POL_PRIORITY_PARAMETERS(struct lls_pol_priority_params, "256"),
    LLS_PARAM_FLOAT(struct params, prompt_weight, "0", 0, 1, "",
                    "tokens of an answer that a token of the prompt counts as"),
    LLS_PARAM_BOOL(struct params, evict, "on",
                   "a shorter one that waits takes the memory of longer ones that run",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_POL_AHEAD_PARAMETER(struct params),
};

static void destroy(void *self)
{
  lls_pol_priority_free(&((struct srpt *)self)->priority);
  lls_pol_ahead_free(&((struct srpt *)self)->ahead);
  free(self);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct srpt *s = LLS_POL_SCHEDULER_NEW(struct srpt, host, parameters, params);
  if (s == NULL)
    return -ENOMEM;
  int rc = lls_pol_priority_init(&s->priority, &s->base, remaining);
  if (rc == 0)
    rc = lls_pol_ahead_init(&s->ahead, host->engine->max_requests);
  if (rc < 0)
    destroy(s);
  else
    *self = s;
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
    .on_prediction = on_prediction,
    .on_step = on_step,
    .on_finish = lls_pol_backlog_on_finish,
    .on_transfer = lls_pol_backlog_on_transfer,
    .dump = dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("srpt", struct params,
                         "shortest remaining answer first, preemptive");
