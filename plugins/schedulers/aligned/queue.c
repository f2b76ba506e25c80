/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prompts on an instance that decodes too: a step of prompts, then so many steps of
 * decodes that prompts have prefill_share of the time, as long as there is somebody to
 * decode. The paper has a GPU for each and does not say.
 */
#include "aligned.h"

#include "../common/prompts.h"

/* Without a host the pool's memory is the device's, and all of it grows sooner or later.
 */
static uint32_t reserve(const struct aligned *a, const struct step *s)
{
  uint32_t n = a->n_running + a->spare.n + 1;
  if (s->view->preempt_mode != LLS_PREEMPT_SWAP)
    n = a->n_prefilled + 1;
  return decode_headroom(a, s, n);
}

static bool leaves_headroom(const struct aligned *a, const struct step *s,
                            const struct lls_request *r)
{
  struct lls_need need = {.size = sizeof need};
  if (a->n_prefilled == 0)
    return true;
  s->cache->need(s->cache->context, r, step_pending(s, r), LLS_FORM_NONE, &need);
  return (uint64_t)need.new_units + need.restore_units + reserve(a, s) <=
         step_free_units(s);
}

static void go_on(struct aligned *a, struct step *s, const struct prompts *prompts)
{
  const struct lls_step_view *view = s->view;
  for (uint32_t i = 0; i < view->n_running; i++)
    if (view->running[i]->state == LLS_PREFILLING)
      prompts_go_on(prompts, s, view->running[i]);
  for (uint32_t i = 0; i < view->n_preempted && s->runs == 0; i++)
    if (member_of(a, view->preempted[i])->partial)
      prompts_go_on(prompts, s, view->preempted[i]);
}

/* Two prompts that were begun may each lack what the other one has. */
static void force_one(struct step *s)
{
  for (uint32_t i = 0; i < s->tail; i++) {
    const struct lls_request *r = s->order[i];
    uint32_t pending = lls_request_pending(r);
    if (r->state != LLS_PREFILLING)
      continue;
    if (step_grow(s, i, pending))
      step_run(s, r, min_u32(pending, s->tokens));
    return;
  }
}

void queue_plan(struct aligned *a, struct step *s)
{
  const struct lls_step_view *view = s->view;
  const struct prompts prompts = {
      .engine = a->base.host->engine,
      .budget = min_u32((uint32_t)a->params.prefill_tokens, view->max_tokens),
      .batch = min_u32((uint32_t)a->params.prefill_batch, view->max_sequences),
  };
  if (a->n_partial > 0)
    go_on(a, s, &prompts);
  for (uint32_t i = 0; i < view->n_waiting; i++)
    if (!leaves_headroom(a, s, view->waiting[i]) ||
        !prompts_admit(&prompts, s, view->waiting[i]))
      break;
  if (s->runs == 0 && a->n_partial > 0 && a->n_prefilled == 0 && view->n_moving == 0)
    force_one(s);
}
