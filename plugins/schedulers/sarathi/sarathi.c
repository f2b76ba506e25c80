/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sarathi-Serve: decodes never stall. Every step runs all decodes, and fills the rest
 * of a token budget with chunks of prompts, first come, first served. The budget is a
 * number, or shrinks along each prompt, or follows from a deadline for the step:
 * budget.c.
 */
#include <llmserve/policy/pieces.h>
#include <llmserve/policy/scheduler.h>
#include "budget.h"

#include <errno.h>
#include <stdlib.h>

struct sarathi {
  struct lls_pol_scheduler base;
  struct params params;
  struct budget budget;
};

/* Returns the tokens of this prompt that the step's budget still allows. An engine
 * without chunked prefill runs all of them, if it is the step's first prompt. */
static uint32_t piece(void *self, const struct lls_pol_step *s,
                      const struct lls_request *r, uint32_t pending)
{
  struct sarathi *sarathi = self;
  return lls_pol_step_chunk(s, sarathi->base.host->engine, pending,
                            s->prompts + budget_left(&sarathi->budget, r, pending),
                            false);
}

static void took(void *self, const struct lls_request *r, uint32_t pending,
                 uint32_t tokens)
{
  budget_take(&((struct sarathi *)self)->budget, r, pending, tokens);
}

/* Plans decodes and begun prompts in one pass. Each may preempt only requests that came
 * after it, so a victim is never in the plan already. */
static void run_running(struct sarathi *sarathi, const struct lls_pol_pieces *pieces,
                        struct lls_pol_step *s)
{
  for (uint32_t i = 0; i < s->tail && s->tokens > 0 && s->sequences > 0; i++) {
    if (s->order[i]->state != LLS_DECODING) {
      lls_pol_pieces_go_on(pieces, s, i);
      continue;
    }
    uint32_t tokens = lls_pol_step_decode(s, i);
    sarathi->budget.used += tokens > 1 ? tokens - 1 : 0; /* one was counted before */
  }
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct sarathi *sarathi = self;
  const struct params *p = &sarathi->params;
  const struct lls_pol_pieces pieces = {.context = sarathi,
                                        .size = piece,
                                        .planned = took,
                                        .max_seqs = (uint32_t)p->max_seqs};
  struct lls_pol_step s;
  lls_pol_step_begin(&s, view, out, p->watermark);
  lls_pol_step_drafts(&s, sarathi->base.host->cost);
  budget_begin(&sarathi->budget, p, sarathi->base.host->cost, view);
  run_running(sarathi, &pieces, &s);
  lls_pol_pieces_let_in(&pieces, &s);
  lls_pol_margin_planned(&sarathi->budget.margin, sarathi->base.host, view, out);
  lls_pol_step_end(&s);
  return 0;
}

static void on_step(void *self, const struct lls_step_report *report)
{
  lls_pol_margin_ran(&((struct sarathi *)self)->budget.margin, report);
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  const struct params *p = &((const struct sarathi *)self)->params;
  out->needs = LLS_NEEDS_MIXED_BATCH;
  lls_pol_step_preferences(out, p->preempt);
}

/* Figures of the last step. */
static void stats(void *self, const struct lls_sink *sink)
{
  const struct budget *b = &((const struct sarathi *)self)->budget;
  sink->number(sink->context, "budget_tokens", b->most);
  sink->number(sink->context, "used_tokens", b->used);
  sink->number(sink->context, "margin_ratio", b->margin.ratio);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(
        struct params, chunk, "512", 32, 65536, "tokens",
        "token budget of a step: decodes first, pieces of prompts with the rest",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct params, slo, "0", 0, 3600e9,
                       "in place of chunk: as many tokens as a step of that time has "
                       "room for; 0 is off",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, margin, "0", 0, 0.9999, "",
                    "with slo: part of the steps filled to it that shall end within it, "
                    "as far as the cost model was off so far; 0: as it says",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(struct params, dynamic_chunks, "off",
                   "in place of chunk: from chunk_high down to chunk_low along a prompt",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, chunk_low, "256", 32, 65536, "tokens",
                  "of the last stage of a prompt", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, chunk_high, "1024", 32, 65536, "tokens", "of the first",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, chunk_tokens, "4096", 32, 16777216, "tokens",
                  "of a prompt that the stages divide; the last one goes on beyond",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct params, chunk_stages, "4", 1, 1024, "stages",
                  "how many there are", .flags = LLS_PARAM_RELOADABLE),
    LLS_POL_STEP_MAX_SEQS(struct params, "128"),
    LLS_POL_STEP_PARAMETERS(struct params),
};

static void destroy(void *self)
{
  budget_free(&((struct sarathi *)self)->budget);
  free(self);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct sarathi *s = LLS_POL_SCHEDULER_NEW(struct sarathi, host, parameters, params);
  if (s == NULL)
    return -ENOMEM;
  int rc = budget_init(&s->budget, host->engine);
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
    .on_step = on_step,
    .stats = stats,
    .dump = lls_pol_scheduler_dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("sarathi", struct params,
                         "chunked prefill in a token budget, decodes never stall");
