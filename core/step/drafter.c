/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the drafter between the commit of a step and the next plan, within a budget of
 * time ([plugins] draft_budget): a request whose turn comes too late gets no guesses
 * until the next step, where it is among the first. One slow call may take longer than
 * the budget; the excess is a debt that later steps pay with their budgets before the
 * drafter is called again, so that drafting takes no more than the budget on
 * average, however slow the drafter is.
 *
 * With 2 % of a step of 20 ms, 400 us, a drafter that needs 2 us for a request serves 200
 * of them in each step.
 */
#include "core/step/phases.h"

#include <errno.h>

#include "core/base/least.h"
#include "core/draft/draft_model.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/step/draft_asks.h"
#include "core/step/drafts.h"

/* The budget is this part of the step before, if it is `auto`. */
#define AUTO_SHARE 50

/* Returns the time for all drafts of this step; 0: there is no limit. */
static int64_t budget_of(const struct lls_instance *in)
{
  int64_t budget_ns = in->limits.draft_budget;
  if (budget_ns != LLS_NEVER)
    return budget_ns;
  return in->masks.device_ns > AUTO_SHARE ? in->masks.device_ns / AUTO_SHARE : 1;
}

/* Stores the guesses, up to the first that is no token of the model. */
static void take(struct lls_instance *in, struct lls_live *live, uint32_t n,
                 const int32_t *tokens, const float *odds)
{
  lls_drafts_offer(in, live, n, tokens, odds);
  uint32_t taken = live->view.drafted_tokens;
  if (taken < n)
    lls_policy_breach(in->policies.drafter.host,
                      "draft for request %llu guesses %d, which is not in the vocabulary",
                      (unsigned long long)live->view.id, tokens[taken]);
}

static void draft(struct lls_instance *in, struct lls_live *live, uint32_t room)
{
  const struct lls_draft_ask *ask = live->ask;
  struct lls_policies *p = &in->policies;
  int32_t tokens[LLS_MAX_DRAFTS];
  float odds[LLS_MAX_DRAFTS];
  const uint32_t max = lls_least_u32(room, LLS_MAX_DRAFTS);
  struct lls_draft out = {
      /* the plugin may write to it */
      .size = sizeof out,
      .max = max,
      .tokens = tokens,
      .odds = odds,
      .n_candidates = ask != NULL ? ask->n : 0,
      .candidates = ask != NULL ? ask->tokens + ask->n_tokens : NULL,
      .candidate_odds = ask != NULL ? ask->odds : NULL,
  };
  for (uint32_t i = 0; i < LLS_MAX_DRAFTS; i++) {
    tokens[i] = -1;
    odds[i] = 0.5f;
  }
  live->drafted_length = lls_request_length(&live->view);
  int n = LLS_CALL(p, drafter, draft, &live->view, &out);
  if (n > (int)max)
    lls_policy_breach(p->drafter.host, "draft for request %llu returns %d, of %u tokens",
                      (unsigned long long)live->view.id, n, max);
  else if (n > 0)
    take(in, live, (uint32_t)n, tokens, odds);
}

/* Calls the drafter for one request after the other, from where it stopped before, until
 * the budget is spent. Returns the time that it took. */
static int64_t draft_all(struct lls_instance *in, int64_t budget_ns)
{
  int64_t began_ns = lls_instance_now(in), took_ns = 0;
  uint32_t n = in->running.n, first = n > 0 ? in->drafting.turn % n : 0;
  for (uint32_t i = 0; i < n; i++) {
    struct lls_live *live = lls_live_of(in->running.items[(first + i) % n]);
    uint32_t room = lls_draft_asks_room(in, live);
    if (room == 0)
      continue;
    if (budget_ns > 0 && took_ns >= budget_ns) {
      in->drafting.turn = (first + i) % n;
      break;
    }
    draft(in, live, room);
    took_ns = lls_instance_now(in) - began_ns;
  }
  return took_ns;
}

void lls_drafter_run(struct lls_instance *in)
{
  struct lls_drafting *d = &in->drafting;
  LLS_ON_STEP(in);
  if (!d->on || in->policies.scheduler_off)
    return;
  int64_t budget_ns = budget_of(in);
  bool may = lls_draft_debt_allows(&d->debt_ns, budget_ns);
  in->status.draft_ns_sum += lls_draft_asks_run(in, may);
  if (!may)
    return;
  int64_t took_ns = draft_all(in, budget_ns > 0 ? budget_ns - d->debt_ns : 0);
  lls_draft_debt_pay(&d->debt_ns, budget_ns, took_ns);
  in->status.draft_ns_sum += took_ns;
}

void lls_drafter_verified(struct lls_instance *in, struct lls_live *live,
                          uint32_t drafted, uint32_t accepted)
{
  struct lls_policies *p = &in->policies;
  struct lls_loop_status *s = &in->status;
  LLS_ON_STEP(in);
  s->drafts++;
  for (uint32_t i = 0; i < accepted && i < LLS_MAX_DRAFTS; i++)
    s->accepted_at[i]++;
  if (live->drafter_knows && LLS_HAS(p, drafter, verified))
    LLS_CALL(p, drafter, verified, &live->view, drafted, accepted);
}
