/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deadline for the whole request (section 4.3, "SLOs of offline applications"),
 * distributed over its iterations: each may wait `base`; the difference between an
 * iteration's actual wait and its allowed one is passed on to the next iteration
 * (Figure 10), and carried in a bank until it is used up.
 *
 * The remaining time is divided again before each iteration, since steps are seldom as
 * long as the longest one. It includes the bank, which is subtracted first: so as long
 * as steps take T_e, base does not change, and the bank is the sum of the allowed waits
 * minus the sum of the actual ones.
 */
#include "accelgen.h"

int64_t accelgen_jct_work(uint32_t n_chunks, uint32_t n_tokens, int64_t longest_step,
                          double pause_ns)
{
  return n_chunks * longest_step +
         (int64_t)(n_tokens * ((double)longest_step + pause_ns));
}

/* A request that can't meet its deadline any more has no wait to distribute: its slack
 * says how late it is. */
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
