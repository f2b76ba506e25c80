/* SPDX-License-Identifier: Apache-2.0 */
/* See prompts.h. */
#include "prompts.h"

/* A prompt longer than the budget: its memory was reserved when it began. */
void prompts_go_on(const struct prompts *p, struct step *s, const struct lls_request *r)
{
  uint32_t pending = lls_request_pending(r);
  uint32_t left = s->prompts < p->budget ? p->budget - s->prompts : 0;
  uint32_t tokens = min_u32(pending, min_u32(left, s->tokens));
  if (tokens > 0 && s->sequences > 0 && step_reserve(s, r, pending) == LLS_RESERVE_OK)
    step_run(s, r, tokens);
}

bool prompts_admit(const struct prompts *p, struct step *s, const struct lls_request *r)
{
  uint32_t pending = step_pending(s, r);
  if (s->runs >= p->batch || s->sequences == 0)
    return false;
  if (s->prompts == 0 && step_too_long(s, p->engine, r, pending))
    return true;
  uint32_t tokens = step_chunk(s, p->engine, pending, p->budget, true);
  if (tokens == 0)
    return false;
  enum step_answer answer = step_admit(s, r, pending);
  if (answer == STEP_YES)
    step_run(s, r, tokens);
  return answer == STEP_REJECTED || (answer == STEP_YES && tokens == pending);
}
