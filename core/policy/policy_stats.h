/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of an instance's policies: current values, from their stats callbacks, and
 * events that they counted with host->count since they took over.
 *
 * A stats callback may walk over everything that its policy knows. Therefore it is
 * called once a second at most; and in each count while no request is alive, so that an
 * idle server shows the final values.
 */
#ifndef LLS_POLICY_POLICY_STATS_H
#define LLS_POLICY_POLICY_STATS_H

#include "core/instance/policy_figures.h"

/* Returns true for a name of letters a to z, digits and _, shorter than
 * LLS_POLICY_STAT_NAME_MAX. Figures with other names are left out: one bad byte makes a
 * page of metrics unreadable. */
bool lls_policy_stat_is_name(const char *name);

struct lls_adoption;
struct lls_instance;

/* [step] Collects the figures if a second has passed. A figure that a policy does not
 * report keeps its value. */
void lls_policy_stats_take(struct lls_instance *);
/* Drops the figures of replaced policies. */
void lls_policy_stats_forget(struct lls_instance *, const struct lls_adoption *);

#endif
