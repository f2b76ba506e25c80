/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdaServe: speculation by deadlines. Requests that are behind their pace get the guesses
 * that they need to catch up, and the rest of what a step can verify goes to the
 * likeliest guesses (<llmserve/policy/paced.h>). Around that the steps are
 * Sarathi-Serve's: all decodes, and pieces of prompts in the rest of a token budget,
 * first come, first served.
 *
 * "AdaServe: Accelerating Multi-SLO LLM Serving with SLO-Customized Speculative Decoding"
 * (Li et al., 2025).
 */
#include <llmserve/policy/paced.h>
#include <llmserve/policy/pieces.h>
#include <llmserve/policy/scheduler.h>

#include <errno.h>
#include <stdlib.h>

#define MEAN_PART 0.1 /* weight of a new step in step_ns */

struct params {
  int64_t chunk, max_seqs, preempt;
  double watermark, stretch;
};

struct adaserve {
  struct lls_pol_scheduler base;
  struct params params;
  struct lls_pol_paced selection;
  double step_ns; /* mean time of the steps with decodes; 0: none yet */
};

/* Returns the tokens of a prompt that the step's budget still allows. */
static uint32_t piece(void *self, const struct lls_pol_step *s,
                      const struct lls_request *r, uint32_t pending)
{
  const struct adaserve *a = self;
  (void)r;
  uint32_t used = s->view->max_tokens - s->tokens - s->prompts;
  uint32_t chunk = (uint32_t)a->params.chunk;
  return lls_pol_step_chunk(s, a->base.host->engine, pending,
                            used < chunk ? chunk - used : 0, false);
}

static void run_decodes(struct lls_pol_step *s)
{
  for (uint32_t i = 0; i < s->tail && s->tokens > 0; i++)
    if (lls_request_decodes(s->order[i]))
      lls_pol_step_decode(s, i);
}

static void run_prompts(const struct lls_pol_pieces *pieces, struct lls_pol_step *s)
{
  for (uint32_t i = 0; i < s->tail && s->tokens > 0 && s->sequences > 0; i++)
    if (!lls_request_decodes(s->order[i]))
      lls_pol_pieces_go_on(pieces, s, i);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct adaserve *a = self;
  const struct lls_cost *cost = a->base.host->cost;
  const struct lls_pol_drafts drafts = {.of = lls_pol_paced_of};
  const struct lls_pol_pieces pieces = {
      .context = a, .size = piece, .max_seqs = (uint32_t)a->params.max_seqs};
  struct lls_pol_step s;
  lls_pol_step_begin(&s, view, out, a->params.watermark);
  lls_pol_paced_choose(&a->selection, cost, view, a->params.stretch, a->step_ns);
  lls_pol_step_own_drafts(&s, &drafts);
  run_decodes(&s);
  run_prompts(&pieces, &s);
  lls_pol_pieces_let_in(&pieces, &s);
  lls_pol_step_end(&s);
  return 0;
}

static void on_step(void *self, const struct lls_step_report *report)
{
  struct adaserve *a = self;
  bool decodes = false;
  for (uint32_t i = 0; i < report->n_results; i++) {
    const struct lls_request *r = report->results[i].request;
    decodes |= r->user[LLS_POL_PACED_BEGAN_NS] != 0;
    lls_pol_paced_note(r, report->ended_ns);
  }
  double ns = (double)(report->ended_ns - report->started_ns);
  if (decodes)
    a->step_ns += (a->step_ns > 0 ? MEAN_PART : 1) * (ns - a->step_ns);
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  out->needs = LLS_NEEDS_MIXED_BATCH;
  lls_pol_step_preferences(out, ((const struct adaserve *)self)->params.preempt);
}

/* Guesses of the last plan. */
static void stats(void *self, const struct lls_sink *sink)
{
  const struct lls_pol_paced *s = &((const struct adaserve *)self)->selection;
  sink->number(sink->context, "guesses_budget", s->budget);
  sink->number(sink->context, "guesses_for_deadlines", s->for_deadlines);
  sink->number(sink->context, "guesses_for_throughput", s->for_throughput);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_FLOAT(
        struct params, stretch, "1.25", 1, 100, "",
        "with deadlines: how many times as long a step may take with guesses as without",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, chunk, "512", 32, 65536, "tokens",
                  "token budget of a step: decodes and guesses first, pieces of prompts "
                  "with the rest",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_POL_STEP_MAX_SEQS(struct params, "128"),
    LLS_POL_STEP_PARAMETERS(struct params),
};

static void destroy(void *self)
{
  lls_pol_paced_free(&((struct adaserve *)self)->selection);
  free(self);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct adaserve *a = LLS_POL_SCHEDULER_NEW(struct adaserve, host, parameters, params);
  if (a == NULL)
    return -ENOMEM;
  int rc = lls_pol_paced_init(&a->selection, host->engine->max_requests);
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
    .on_step = on_step,
    .stats = stats,
    .dump = lls_pol_scheduler_dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("adaserve", struct params,
                         "guesses go first to requests that are behind their pace");
