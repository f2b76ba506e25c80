/* SPDX-License-Identifier: Apache-2.0 */
/* A random workload through a bed: bursts of requests, some of them with common
 * prefixes, some cancelled, until all have ended. */
#ifndef LLS_T_WORKLOAD_H
#define LLS_T_WORKLOAD_H

#include "t/plugin/bed.h"

enum workload_checks {
  WORKLOAD_IN_ORDER = 1, /* nobody is served first who came after one never served */
  WORKLOAD_ALL_FIT = 2,  /* nobody is rejected */
};

/* A group's: its state is the grammar that one in four answers keeps to, compiled once.
 * That took three quarters of the time when each workload did. */
int workload_setup(void **state);
int workload_teardown(void **state);

/* A digest of all plans. Fails the test unless all requests end, nothing is lost of the
 * cache and the checks hold. */
uint64_t workload_run(void **state, const struct bed_options *, uint32_t requests,
                      uint32_t checks);

#endif
