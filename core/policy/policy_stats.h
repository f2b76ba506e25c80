/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of an instance's policies: current values, from their stats, and events,
 * counted with host->count since they took over.
 *
 * Stats may walk over all that a policy knows, so they are asked once a second at most;
 * and when nothing is alive any more, so that an idle server shows how things ended.
 */
#ifndef LLS_POLICY_POLICY_STATS_H
#define LLS_POLICY_POLICY_STATS_H

#include "core/instance/policy_figures.h"

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
