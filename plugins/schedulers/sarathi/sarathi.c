/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sarathi-Serve: decodes never stall. Every step runs all decodes and fills what is left
 * of a token budget with pieces of prompts, first come, first served.
 */
#include "../common/scheduler.h"
#include "../common/step.h"

#include <errno.h>
#include <stdlib.h>

struct params {
  int64_t chunk, max_seqs;
  double watermark;
  int64_t preempt;
};

struct sarathi {
  struct scheduler base;
  struct params params;
};

/* B-3: chunk = C - decodes, or nothing when the decodes fill the budget. They are
 * counted, not cut. */
static uint32_t budget_for_prompts(const struct params *p,
                                   const struct lls_step_view *view)
{
  uint32_t decodes = 0, budget = min_u32((uint32_t)p->chunk, view->max_tokens);
  for (uint32_t i = 0; i < view->n_running; i++)
    decodes += view->running[i]->state == LLS_DECODING;
  return decodes < budget ? budget - decodes : 0;
}

/* B-3 steps 1 and 2 in one walk. Each may preempt only who came after it, so a victim is
 * never one that is in the plan already. */
static void run_running(struct step *s, uint32_t *budget)
{
  for (uint32_t i = 0; i < s->tail && s->tokens > 0 && s->sequences > 0; i++) {
    const struct lls_request *r = s->order[i];
    if (r->state == LLS_DECODING) {
      if (step_grow(s, i, 1))
        step_run(s, r, 1);
      continue;
    }
    uint32_t pending = lls_request_pending(r);
    uint32_t tokens = min_u32(min_u32(pending, *budget), s->tokens);
    if (tokens > 0 && step_grow(s, i, pending)) {
      step_run(s, r, tokens);
      *budget -= tokens;
    }
  }
}

/* B-3 step 3, and the same for who comes back from the host: room for all of the prompt,
 * work on as much of it as the budget has left. */
static void let_in(struct step *s, const struct lls_request *const *list, uint32_t n,
                   uint32_t seats, uint32_t *budget,
                   enum step_answer (*make_room)(struct step *,
                                                 const struct lls_request *, uint32_t))
{
  for (uint32_t i = 0; i<n && * budget> 0 && s->tokens > 0 && seats > 0; i++) {
    uint32_t pending = step_pending(s, list[i]);
    enum step_answer answer = make_room(s, list[i], pending);
    if (answer == STEP_NOT_NOW)
      return;
    if (answer == STEP_REJECTED)
      continue;
    uint32_t tokens = min_u32(min_u32(pending, *budget), s->tokens);
    step_run(s, list[i], tokens);
    *budget -= tokens;
    seats--;
  }
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  const struct params *p = &((const struct sarathi *)self)->params;
  struct step s;
  step_begin(&s, view, out, p->watermark);
  uint32_t budget = budget_for_prompts(p, view);
  run_running(&s, &budget);

  uint32_t most = min_u32((uint32_t)p->max_seqs, view->max_sequences);
  uint32_t seats = view->n_running < most ? most - view->n_running : 0;
  if (s.preempted == 0 && view->n_preempted > 0)
    let_in(&s, view->preempted, view->n_preempted, seats, &budget, step_bring_back);
  else if (s.preempted == 0)
    let_in(&s, view->waiting, view->n_waiting, seats, &budget, step_admit);
  step_end(&s);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  const struct params *p = &((const struct sarathi *)self)->params;
  out->needs = LLS_NEEDS_MIXED_BATCH | LLS_NEEDS_CHUNKED_PREFILL;
  step_preferences(out, p->preempt);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(
        struct params, chunk, "512", 32, 65536, "tokens",
        "token budget of a step: decodes first, pieces of prompts with the rest",
        .flags = LLS_PARAM_RELOADABLE),
    STEP_MAX_SEQS(struct params, "128"),
    STEP_PARAMETERS(struct params),
};

static int create(const struct lls_host *host, const void *params, void **self)
{
  *self = SCHEDULER_NEW(struct sarathi, host, parameters, params);
  return *self != NULL ? 0 : -ENOMEM;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = free,
    .caps = caps,
    .plan = plan,
    .dump = scheduler_dump,
    .reconfigure = scheduler_reconfigure,
};

SCHEDULER_PLUGIN("sarathi", struct params,
                 "chunked prefill in a token budget, decodes never stall");
