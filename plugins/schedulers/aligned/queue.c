/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prompts on an instance that decodes too: after a step of prompts, decodes run until
 * prompts have had prefill_share of the time. The paper uses separate GPUs and has no
 * rule for this.
 */
#include "aligned.h"

#include <llmserve/policy/prompts.h>

/* Returns the units kept free for growth. Without host memory the pool stays on the
 * device, and all of its requests will grow. */
static uint32_t reserve(const struct aligned *a, const struct lls_pol_step *s)
{
  uint32_t n = a->n_running + a->spare.n + 1;
  if (s->view->preempt_mode != LLS_PREEMPT_SWAP)
    n = a->n_prefilled + 1;
  return decode_headroom(a, s, n);
}

static bool leaves_headroom(const struct aligned *a, const struct lls_pol_step *s,
                            const struct lls_request *r)
{
  struct lls_need need = {.size = sizeof need};
  if (a->n_prefilled == 0)
    return true;
  s->cache->need(s->cache->context, r, lls_pol_step_pending(s, r), LLS_FORM_NONE, &need);
  return (uint64_t)need.new_units + need.restore_units + reserve(a, s) <=
         lls_pol_step_free_units(s);
}

static void go_on(struct aligned *a, struct lls_pol_step *s,
                  const struct lls_pol_prompts *prompts)
{
  const struct lls_step_view *view = s->view;
  for (uint32_t i = 0; i < view->n_running; i++)
    if (view->running[i]->state == LLS_PREFILLING)
      lls_pol_prompts_go_on(prompts, s, view->running[i]);
  for (uint32_t i = 0; i < view->n_preempted && s->runs == 0; i++)
    if (member_of(a, view->preempted[i])->partial)
      lls_pol_prompts_go_on(prompts, s, view->preempted[i]);
}

/* Ends a deadlock of two begun prompts, each of which lacks the other's memory. */
static void force_one(struct lls_pol_step *s)
{
  for (uint32_t i = 0; i < s->tail; i++) {
    const struct lls_request *r = s->order[i];
    uint32_t pending = lls_request_pending(r);
    if (r->state != LLS_PREFILLING)
      continue;
    if (lls_pol_step_grow(s, i, pending))
      lls_pol_step_run(s, r, lls_pol_min(pending, s->tokens));
    return;
  }
}

void queue_plan(struct aligned *a, struct lls_pol_step *s)
{
  const struct lls_step_view *view = s->view;
  const struct lls_pol_prompts prompts = {
      .engine = a->base.host->engine,
      .budget = lls_pol_min((uint32_t)a->params.prefill_tokens, view->max_tokens),
      .batch = lls_pol_min((uint32_t)a->params.prefill_batch, view->max_sequences),
  };
  if (a->n_partial > 0)
    go_on(a, s, &prompts);
  for (uint32_t i = 0; i < view->n_waiting; i++)
    if (!leaves_headroom(a, s, view->waiting[i]) ||
        !lls_pol_prompts_admit(&prompts, s, view->waiting[i]))
      break;
  if (s->runs == 0 && a->n_partial > 0 && a->n_prefilled == 0 && view->n_moving == 0)
    force_one(s);
}
