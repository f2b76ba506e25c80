/* SPDX-License-Identifier: Apache-2.0 */
/* A random workload in a bed: bursts of requests, some with common prefixes, some
 * cancelled, until all have ended. */
#ifndef LLS_T_WORKLOAD_H
#define LLS_T_WORKLOAD_H

#include "t/plugin/bed.h"

enum workload_checks {
  WORKLOAD_IN_ORDER = 1, /* no request is first served before one that arrived earlier */
  WORKLOAD_ALL_FIT = 2,  /* no request is rejected */
};

/* A group's setup and teardown: its state is the grammar that one in four answers
 * follows, compiled once. Compiling it for each workload took three quarters of the
 * time. */
int workload_setup(void **state);
int workload_teardown(void **state);

/* Runs a workload and returns a digest of all plans. Fails the test unless all requests
 * end, no memory is lost and the checks hold. */
uint64_t workload_run(void **state, const struct bed_options *, uint32_t requests,
                      uint32_t checks);

#endif
