/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of an instance's policies: current values, from their stats, and events,
 * counted with host->count since they took over.
 *
 * Stats may walk over all that a policy knows, so they are asked once a second at most;
 * and when nothing is alive any more, so that an idle server shows how things ended.
 */
#ifndef LLS_LOOP_POLICY_STATS_H
#define LLS_LOOP_POLICY_STATS_H

#include "core/loop/loop.h"

#define LLS_MAX_POLICY_STATS     32 /* of a kind, of a policy */
#define LLS_POLICY_STAT_NAME_MAX 32

struct lls_policy_stat {
  char name[LLS_POLICY_STAT_NAME_MAX];
  double value;
};

struct lls_policy_stats {
  char name[LLS_POLICY_NAME_MAX]; /* as in the log; "" before the first step */
  uint32_t n, n_counters;
  struct lls_policy_stat figures[LLS_MAX_POLICY_STATS];  /* (n) of now */
  struct lls_policy_stat counters[LLS_MAX_POLICY_STATS]; /* (n_counters) */
};

struct lls_loop_policy_stats {
  LLS_EACH_KIND_OF(struct lls_policy_stats);
};

/* Letters a to z, digits and _, less than LLS_POLICY_STAT_NAME_MAX: others are left out,
 * since a page of metrics with other bytes is not read at all. */
bool lls_policy_stat_is_name(const char *name);

struct lls_adoption;
struct lls_instance;

/* [step] Takes them if it is time to; what a policy leaves out stays as it was. */
void lls_policy_stats_take(struct lls_instance *);
/* Drops the figures of replaced policies. */
void lls_policy_stats_forget(struct lls_instance *, const struct lls_adoption *);

#endif
