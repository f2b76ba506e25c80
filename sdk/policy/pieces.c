/* SPDX-License-Identifier: Apache-2.0 */
/* See pieces.h. */
#include <llmserve/policy/pieces.h>

static void run(const struct lls_pol_pieces *p, struct lls_pol_step *s,
                const struct lls_request *r, uint32_t pending, uint32_t tokens)
{
  lls_pol_step_run(s, r, tokens);
  if (p->planned != NULL)
    p->planned(p->context, r, pending, tokens);
}

void lls_pol_pieces_go_on(const struct lls_pol_pieces *p, struct lls_pol_step *s,
                          uint32_t i)
{
  const struct lls_request *r = s->order[i];
  uint32_t pending = lls_request_pending(r);
  uint32_t tokens = p->size(p->context, s, r, pending);
  if (tokens > 0 && lls_pol_step_grow(s, i, pending))
    run(p, s, r, pending, tokens);
}

/* Adds a request that is not on the device. Returns false if no later one may be tried.
 */
static bool add(const struct lls_pol_pieces *p, struct lls_pol_step *s,
                const struct lls_request *r, bool preempted, uint32_t *seats)
{
  uint32_t pending = lls_pol_step_pending(s, r);
  uint32_t tokens = p->size(p->context, s, r, pending);
  if (tokens == 0)
    return false;
  enum lls_pol_step_answer answer = preempted ? lls_pol_step_bring_back(s, r, pending)
                                              : lls_pol_step_admit(s, r, pending);
  if (answer != LLS_POL_STEP_YES)
    return answer == LLS_POL_STEP_REJECTED;
  run(p, s, r, pending, tokens);
  --*seats;
  return true;
}

void lls_pol_pieces_let_in(const struct lls_pol_pieces *p, struct lls_pol_step *s)
{
  const struct lls_step_view *v = s->view;
  bool preempted = v->n_preempted > 0;
  const struct lls_request *const *list = preempted ? v->preempted : v->waiting;
  uint32_t n = preempted ? v->n_preempted : v->n_waiting;
  uint32_t most = lls_pol_min(p->max_seqs, v->max_sequences);
  uint32_t seats = v->n_running < most ? most - v->n_running : 0;
  if (s->preempted > 0)
    return;
  for (uint32_t i = 0; i < n && s->tokens > 0 && s->sequences > 0 && seats > 0; i++)
    if (!add(p, s, list[i], preempted, &seats))
      return;
}
