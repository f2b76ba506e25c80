/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prefill instance. Whole prompts, first come, first served, as the memory allows; who
 * is prefilled is offered to a decode instance, and its blocks stay here until they have
 * been copied. So when decode is slow the memory fills up with them and no new prompt
 * fits: that is all the back-pressure there is.
 */
#include "distserve.h"

/* It was prefilled and has a token: away with it. What no decode instance can ever hold
 * ends; what cannot be copied is decoded here, beside the prompts. */
static void offer(struct distserve *d, struct step *s, const struct lls_request *r)
{
  if (r->user[ANSWER] == LLS_REFUSED_NEVER_FITS)
    lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
  else if (r->user[ANSWER] == 0)
    lls_plan_migrate(s->plan, r, distserve_target(d));
  else if (s->tokens > 0 && s->sequences > 0 && step_reserve(s, r, 1) == LLS_RESERVE_OK)
    step_run(s, r, 1);
}

/* A prompt longer than the token cap goes on; its memory was reserved when it began. */
static void go_on(struct step *s, const struct lls_request *r, uint32_t budget)
{
  uint32_t pending = lls_request_pending(r);
  uint32_t left = s->prompts < budget ? budget - s->prompts : 0;
  uint32_t tokens = min_u32(pending, min_u32(left, s->tokens));
  if (tokens > 0 && s->sequences > 0 && step_reserve(s, r, pending) == LLS_RESERVE_OK)
    step_run(s, r, tokens);
}

/* False: nobody after it may be tried, B-8 step 4. */
static bool admit(struct distserve *d, struct step *s, const struct lls_request *r,
                  uint32_t budget)
{
  const struct lls_engine_caps *engine = d->base.host->engine;
  uint32_t pending = step_pending(s, r);
  if (s->prompts == 0 && step_too_long(s, engine, r, pending))
    return true;
  uint32_t tokens = step_chunk(s, engine, pending, budget, true);
  if (tokens == 0)
    return false;
  enum step_answer answer = step_admit(s, r, pending);
  if (answer == STEP_YES)
    step_run(s, r, tokens);
  return answer == STEP_REJECTED || (answer == STEP_YES && tokens == pending);
}

void distserve_prefill(struct distserve *d, const struct lls_step_view *view,
                       struct lls_plan *out)
{
  struct step s;
  step_begin(&s, view, out, 0);
  uint32_t budget = min_u32((uint32_t)d->params.prefill_tokens, view->max_tokens);
  uint32_t batch = min_u32((uint32_t)d->params.prefill_batch, view->max_sequences);
  for (uint32_t i = 0; i < view->n_running; i++)
    if (view->running[i]->state == LLS_DECODING)
      offer(d, &s, view->running[i]);
    else
      go_on(&s, view->running[i], budget);
  for (uint32_t i = 0; i < view->n_waiting && s.runs < batch; i++)
    if (!admit(d, &s, view->waiting[i], budget))
      break;
  step_end(&s);
}
