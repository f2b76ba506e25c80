/* SPDX-License-Identifier: Apache-2.0 */
/* State from one plan to the next: the batch limit, the average time of a step, and turns
 * of best-effort requests. */
#include "bros.h"

#include <math.h>

#define NEWEST_WEIGHT 0.1 /* w */

/*
 * Adaptive batch sizing (section 4.2), like TCP's window: the limit doubles after each
 * plan in which the time did not keep a real-time request out, and returns to b_base
 * after one in which it did.
 */
void bros_adapt(struct bros *b)
{
  int64_t next = 2 * (int64_t)b->b_curr;
  next = next < b->params.b_max ? next : b->params.b_max;
  b->b_curr = (uint32_t)(b->cost_exit ? b->params.b_base : next);
}

/* T_avg = (1 - w) T_avg + w T */
void bros_step_took(struct bros *b, double seconds)
{
  b->t_avg =
      b->t_avg < 0 ? seconds : (1 - NEWEST_WEIGHT) * b->t_avg + NEWEST_WEIGHT * seconds;
}

/* True in every ceil(1 / be_min_share)-th plan of those with a best-effort request. */
bool bros_is_guaranteed(struct bros *b)
{
  double share = b->params.be_min_share;
  if (share <= 0 || b->best_effort.n == 0)
    return false;
  return ++b->plans % (uint64_t)ceil(1 / share - 1e-9) == 0;
}
