/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in order: first come, first served, decodes before prefill chunks, the
 * newest preempted by recompute when memory is short. It plans the step of a refused
 * plan, and all steps after a scheduler was switched off; kept as plain as can be.
 */
#include "core/policy/fallback.h"

#include "core/instance/instance.h"
#include "core/instance/request.h"
#include "core/instance/transaction.h"

/* Preempts the newest running request that is newer than r; false if there is none. */
static bool preempt_one(struct lls_instance *in, const struct lls_step_view *view,
                        uint32_t *newest, const struct lls_request *r,
                        struct lls_plan *plan)
{
  while (*newest > 0) {
    const struct lls_request *victim = view->running[--*newest];
    if (victim->id <= r->id)
      return false;
    if (lls_transaction_preempt(in, lls_live_of(victim), LLS_PREEMPT_RECOMPUTE) == 0) {
      lls_plan_preempt(plan, victim, LLS_PREEMPT_RECOMPUTE);
      return true;
    }
  }
  return false;
}

/* Drops the newest preempted request, from index `first` on, that has slots left on the
 * device (a scheduler gave its other slots to requests that ran). Returns false if
 * there is none. */
static bool drop_partial(struct lls_instance *in, const struct lls_step_view *view,
                         uint32_t first, struct lls_plan *plan)
{
  for (uint32_t i = view->n_preempted; i-- > first;) {
    const struct lls_request *victim = view->preempted[i];
    if (victim->residency != LLS_RESIDENT_PARTIAL ||
        lls_transaction_preempt(in, lls_live_of(victim), LLS_PREEMPT_RECOMPUTE) < 0)
      continue;
    lls_plan_preempt(plan, victim, LLS_PREEMPT_RECOMPUTE);
    return true;
  }
  return false;
}

struct budget {
  uint32_t tokens, sequences;
};

/* For a request that can only run whole and exceeds the tokens left: LATER if a step of
 * its own has room, else rejects it. */
static int wait_for_room(const struct lls_instance *in, const struct lls_request *r,
                         struct lls_plan *plan)
{
  if (lls_request_pending(r) <= in->caps.max_step_tokens)
    return LLS_RESERVE_LATER;
  lls_plan_reject(plan, r, LLS_FINISH_CAPACITY);
  return LLS_RESERVE_NEVER;
}

static int run(struct lls_instance *in, const struct lls_request *r, struct budget *left,
               struct lls_plan *plan)
{
  uint32_t pending = lls_request_pending(r);
  uint32_t tokens = pending < left->tokens ? pending : left->tokens;
  if (tokens < pending && !in->caps.chunked_prefill)
    return wait_for_room(in, r, plan);
  int rc = lls_transaction_reserve(in, lls_live_of(r), tokens, LLS_FORM_NONE, 0);
  if (rc == LLS_RESERVE_NEVER)
    lls_plan_reject(plan, r, LLS_FINISH_CAPACITY);
  if (rc != LLS_RESERVE_OK)
    return rc;
  lls_plan_run(plan, r, tokens);
  left->tokens -= tokens;
  left->sequences--;
  return rc;
}

/* Takes over an offered request. If the earlier scheduler had its blocks moved to the
 * host of their instance, they have to be uploaded first. */
static void take_over(const struct lls_step_view *view, const struct lls_request *r,
                      struct lls_plan *plan)
{
  if (r->residency == LLS_RESIDENT_DEVICE)
    lls_plan_migrate(plan, r, view->instance);
  else if (r->residency == LLS_RESIDENT_HOST)
    lls_plan_add(plan, LLS_PLAN_UPLOAD, r);
}

void lls_fallback_plan(struct lls_instance *in, const struct lls_step_view *view,
                       struct lls_plan *plan)
{
  struct budget left = {.tokens = view->max_tokens, .sequences = view->max_sequences};
  LLS_ON_STEP(in);
  /* running requests from this index on are preempted */
  uint32_t newest = view->n_running;
  for (uint32_t i = 0; i < newest && left.tokens > 0 && left.sequences > 0; i++) {
    const struct lls_request *r = view->running[i];
    int rc = run(in, r, &left, plan);
    while (rc == LLS_RESERVE_LATER &&
           (preempt_one(in, view, &newest, r, plan) || drop_partial(in, view, 0, plan)))
      rc = run(in, r, &left, plan);
    if (rc == LLS_RESERVE_LATER && i == 0 && view->n_preempted == 0 &&
        view->n_moving == 0 && view->n_leaving == 0) /* alone, and can't grow */
      lls_plan_reject(plan, r, LLS_FINISH_CAPACITY);
  }
  if (newest < view->n_running)
    return; /* memory is short: no new request */
  for (uint32_t i = 0; i < view->n_preempted && left.tokens > 0 && left.sequences > 0;
       i++) {
    int rc = run(in, view->preempted[i], &left, plan);
    while (rc == LLS_RESERVE_LATER && drop_partial(in, view, i + 1, plan))
      rc = run(in, view->preempted[i], &left, plan);
    if (rc == LLS_RESERVE_LATER)
      return;
  }
  for (uint32_t i = 0; i < view->n_offered; i++)
    take_over(view, view->offered[i], plan);
  for (uint32_t i = 0; i < view->n_waiting && left.tokens > 0 && left.sequences > 0; i++)
    if (run(in, view->waiting[i], &left, plan) == LLS_RESERVE_LATER)
      return;
}
