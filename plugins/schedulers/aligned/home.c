/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With pool = prefill, returns requests to a prefill instance over the link between
 * instances: the victims of a batch, which form its Candidate Requests Buffer there, and
 * the remainder of a batch at a switch. The instance takes them over as it has memory and
 * offers them again; until then their blocks stay here.
 */
#include "aligned.h"

/* Estimates the units of requests not taken over yet, as if all returning requests were
 * equally large. */
void home_begin(struct aligned *a, const struct lls_step_view *view)
{
  lls_pol_place_begin(&a->prefillers);
  if (a->n_leaving > view->n_leaving)
    a->leaving_units = a->leaving_units * view->n_leaving / a->n_leaving;
  a->n_leaving = view->n_leaving;
}

/* Sends a request back to a prefill instance. One whose hand-over was refused once
 * can't be copied, and stays. */
bool home_send(struct aligned *a, struct lls_pol_step *s, uint32_t slot)
{
  struct member *m = &a->members[slot];
  const struct lls_request *r = m->request;
  if (r->user[LLS_POL_PREFILLER_ANSWER] != 0 || r->missing_tokens > 0)
    return false;
  uint32_t to =
      lls_pol_place(&a->prefillers, a->base.host->topology, s->view, LLS_ROLE_PREFILL, r);
  if (to == LLS_POL_PLACE_NOWHERE)
    return false;
  lls_plan_migrate(s->plan, r, to);
  m->named = a->plans;
  a->leaving_units += units_of(a, r->cached_tokens);
  a->n_leaving++;
  lls_pol_scheduler_count(&a->base, "sent_home", 1);
  members_set(a, slot, QUEUE, s->view->now_ns);
  return true;
}
