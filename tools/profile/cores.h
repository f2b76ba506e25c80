/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out whether other processes used the cores while this one measured. */
#ifndef LLS_PROFILE_TOOL_CORES_H
#define LLS_PROFILE_TOOL_CORES_H

#include <stdbool.h>

/* Times of this process's threads since they began, in ns: on a core, and ready but
 * waiting for one. 0 if Linux does not report them (CONFIG_SCHED_INFO). */
struct lls_core_time {
  double ran, waited;
};

void lls_core_time_read(struct lls_core_time *out);
/* The share of the time between two readings that threads waited for a core, 0 to 1. */
double lls_core_time_lost(const struct lls_core_time *from,
                          const struct lls_core_time *to);

/* lost: the share from lls_core_time_lost; noise: a step's median time over its least.
 * An otherwise idle machine loses under a hundredth, and its noise is under 1.5. */
bool lls_cores_disturbed(double lost, double noise);

#endif
