/* SPDX-License-Identifier: Apache-2.0 */
/* See prompts.h. */
#include <llmserve/policy/prompts.h>

/* Runs the next chunk of a prompt longer than the budget. Memory for the whole prompt was
 * reserved with its first chunk, so this reservation succeeds. */
void lls_pol_prompts_go_on(const struct lls_pol_prompts *p, struct lls_pol_step *s,
                           const struct lls_request *r)
{
  uint32_t pending = lls_request_pending(r);
  uint32_t left = s->prompts < p->budget ? p->budget - s->prompts : 0;
  uint32_t tokens = lls_pol_min(pending, lls_pol_min(left, s->tokens));
  if (tokens > 0 && s->sequences > 0 &&
      lls_pol_step_reserve(s, r, pending) == LLS_RESERVE_OK)
    lls_pol_step_run(s, r, tokens);
}

bool lls_pol_prompts_admit(const struct lls_pol_prompts *p, struct lls_pol_step *s,
                           const struct lls_request *r)
{
  uint32_t pending = lls_pol_step_pending(s, r);
  if (s->runs >= p->batch || s->sequences == 0)
    return false;
  if (s->prompts == 0 && lls_pol_step_too_long(s, p->engine, r, pending))
    return true;
  uint32_t tokens = lls_pol_step_chunk(s, p->engine, pending, p->budget, true);
  if (tokens == 0)
    return false;
  enum lls_pol_step_answer answer = lls_pol_step_admit(s, r, pending);
  if (answer == LLS_POL_STEP_YES)
    lls_pol_step_run(s, r, tokens);
  return answer == LLS_POL_STEP_REJECTED ||
         (answer == LLS_POL_STEP_YES && tokens == pending);
}
