/* SPDX-License-Identifier: Apache-2.0 */
/* Did other processes have the cores while this one measured? */
#ifndef LLS_PROFILE_TOOL_CORES_H
#define LLS_PROFILE_TOOL_CORES_H

#include <stdbool.h>

/* The threads of this process since they began: ns on a core, and ns that they were
 * ready and waited for one. Zero where the kernel does not tell (CONFIG_SCHED_INFO). */
struct lls_core_time {
  double ran, waited;
};

void lls_core_time_read(struct lls_core_time *out);
/* The part of the time between that was waited for, 0 to 1. */
double lls_core_time_lost(const struct lls_core_time *from,
                          const struct lls_core_time *to);

/* lost: that part; noise: a step's median time over its least. A machine that does
 * nothing else loses under a hundredth, and its noise is under 1.5. */
bool lls_cores_disturbed(double lost, double noise);

#endif
