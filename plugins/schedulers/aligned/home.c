/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that go back to an instance that prefills, over the link between instances,
 * where the pool is of those (pool = prefill): the victims of a batch, which are its
 * Candidate Requests Buffer there, and what is left of a batch at a switch. That instance
 * takes them over as it has room and offers them again; until then their blocks are here.
 */
#include "aligned.h"

/* The blocks that are still here are taken to be as large as all that were to leave. */
void home_begin(struct aligned *a, const struct lls_step_view *view)
{
  lls_pol_place_begin(&a->prefillers);
  if (a->n_leaving > view->n_leaving)
    a->leaving_units = a->leaving_units * view->n_leaving / a->n_leaving;
  a->n_leaving = view->n_leaving;
}

/* One that came back once can't be copied, and stays. */
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
  a->leaving_units += BLOCK_UNITS * (uint64_t)blocks_of(a, r->cached_tokens);
  a->n_leaving++;
  lls_pol_scheduler_count(&a->base, "sent_home", 1);
  members_set(a, slot, QUEUE, s->view->now_ns);
  return true;
}
