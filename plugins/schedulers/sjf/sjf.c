/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortest job first: vLLM's scheduling with the waiting requests taken in order of their
 * predicted length. Nothing that runs is stopped for a shorter one; srpt does that.
 */
#include <llmserve/policy/length.h>
#include <llmserve/policy/prefill_first.h>
#include <llmserve/policy/ranked.h>
#include <llmserve/policy/scheduler.h>

#include <errno.h>
#include <stdlib.h>

struct params {
  /* first member, since the shared parameter table has offsets from here */
  struct lls_pol_prefill_first_params batch;
  double prompt_weight;
};

struct sjf {
  struct lls_pol_scheduler base;
  struct params params;
  struct lls_pol_ranked waiting;
};

/* Thousandths of a token. */
static int64_t length_of(void *context, const struct lls_request *r)
{
  const struct sjf *s = context;
  double tokens =
      lls_pol_predicted_output(r) + s->params.prompt_weight * r->prompt_tokens;
  return (int64_t)(1000 * tokens);
}

static const struct lls_request *next(void *context)
{
  return lls_pol_ranked_pop(&((struct sjf *)context)->waiting);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct sjf *s = self;
  const struct lls_pol_admission admission = {.context = s, .next = next};
  lls_pol_backlog_begin(&s->waiting.backlog, view);
  lls_pol_prefill_first_plan(s->base.host, &s->params.batch, &admission, view, out);
  lls_pol_backlog_end(&s->waiting.backlog, out);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  lls_pol_step_preferences(out, ((const struct sjf *)self)->params.batch.preempt);
}

static void dump(void *self, const struct lls_sink *sink)
{
  lls_pol_scheduler_dump(self, sink);
  lls_pol_ranked_dump(&((struct sjf *)self)->waiting, sink);
}

static const struct lls_param parameters[] = {
    LLS_POL_PREFILL_FIRST_PARAMETERS(struct lls_pol_prefill_first_params),
    LLS_PARAM_FLOAT(struct params, prompt_weight, "0", 0, 1, "",
                    "tokens of an answer that a token of the prompt counts as"),
};

static void destroy(void *self)
{
  lls_pol_ranked_free(&((struct sjf *)self)->waiting);
  free(self);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct sjf *s = LLS_POL_SCHEDULER_NEW(struct sjf, host, parameters, params);
  if (s == NULL)
    return -ENOMEM;
  int rc = lls_pol_ranked_init(&s->waiting, &s->base, length_of);
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
    .on_prediction = lls_pol_backlog_on_prediction,
    .on_finish = lls_pol_backlog_on_finish,
    .dump = dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("sjf", struct params,
                         "shortest predicted answer first, not preemptive");
