/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the draft model for the guesses that the drafter wants (drafter.h). It also has
 * the debts of the two: the time beyond their budgets, which those of later steps pay.
 */
#ifndef LLS_STEP_DRAFT_ASKS_H
#define LLS_STEP_DRAFT_ASKS_H

#include <stdbool.h>
#include <stdint.h>

struct lls_instance;
struct lls_live;

/* [step] Asks the drafter, if it may, how many candidates each request wants, and has the
 * draft model make them: live->ask has those of a request. Heads read the rows of the
 * last step in any case. Returns the time that it took. */
int64_t lls_draft_asks_run(struct lls_instance *, bool may_ask);
/* [step] Returns true if heads will read the rows of the step that is submitted next. */
bool lls_draft_asks_reads(const struct lls_instance *);
/* Returns how many guesses the request may have now; 0 if none, or if the drafter was
 * called after its newest token before. */
uint32_t lls_draft_asks_room(const struct lls_instance *, const struct lls_live *);

/* Returns true if a budget is left; else it has paid a part of the debt. A budget of 0 is
 * no limit. */
static inline bool lls_draft_debt_allows(int64_t *debt_ns, int64_t budget_ns)
{
  if (budget_ns == 0 || *debt_ns < budget_ns)
    return true;
  *debt_ns -= budget_ns;
  return false;
}

/* Sets the debt after something took that long. */
static inline void lls_draft_debt_pay(int64_t *debt_ns, int64_t budget_ns,
                                      int64_t took_ns)
{
  int64_t over_ns = *debt_ns + took_ns - budget_ns;
  *debt_ns = budget_ns > 0 && over_ns > 0 ? over_ns : 0;
}

#endif
