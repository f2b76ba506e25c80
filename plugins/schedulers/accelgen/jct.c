/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deadline for the whole request (section 4.3, "SLOs of offline applications"), spread
 * over its iterations: each may wait `base`, and what one waits less or more than that
 * goes to the next (Figure 10), carried until it is used up.
 *
 * What is left is looked at anew before each iteration, since steps are seldom as long as
 * the longest one. The bank is part of it and is taken out first: so as long as steps are
 * as long as T_e says, base stays what it was, and the sum of the allowed waits less that
 * of the actual ones is the bank.
 */
#include "accelgen.h"

int64_t accelgen_jct_work(uint32_t n_chunks, uint32_t n_tokens, int64_t longest_step,
                          double pause_ns)
{
  return n_chunks * longest_step +
         (int64_t)(n_tokens * ((double)longest_step + pause_ns));
}

/* One whose deadline can't be met any more has no wait to spread: its slack says how late
 * it is. */
void accelgen_jct_wait(struct accelgen_jct *j, int64_t now_ns, int64_t left_ns,
                       int64_t work_ns, uint32_t iterations)
{
  int64_t waits = left_ns - work_ns;
  j->since = now_ns;
  j->base = (waits - j->bank) / (iterations > 0 ? iterations : 1);
  j->allowed = j->base + j->bank > 0 ? j->base + j->bank : 0;
  if (waits < 0)
    j->allowed = waits;
}

void accelgen_jct_waited(struct accelgen_jct *j, int64_t waited_ns)
{
  j->bank += j->base - waited_ns;
}
