/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of an instance's policies, for displays: current values and counted
 * events. */
#ifndef LLS_INSTANCE_POLICY_FIGURES_H
#define LLS_INSTANCE_POLICY_FIGURES_H

#include "core/instance/loop_status.h"
#include "core/plugin/kinds.h"

#define LLS_MAX_POLICY_STATS     32 /* values, and as many counters, of a policy */
#define LLS_POLICY_STAT_NAME_MAX 32

struct lls_policy_stat {
  char name[LLS_POLICY_STAT_NAME_MAX];
  double value;
};

struct lls_policy_stats {
  /* the policy's name in the log; "" before the first step */
  char name[LLS_POLICY_NAME_MAX];
  uint32_t n, n_counters;
  struct lls_policy_stat figures[LLS_MAX_POLICY_STATS];  /* (n) current values */
  struct lls_policy_stat counters[LLS_MAX_POLICY_STATS]; /* (n_counters) */
};

struct lls_loop_policy_stats {
  LLS_EACH_KIND_OF(struct lls_policy_stats);
};

#endif
