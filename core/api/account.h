/* SPDX-License-Identifier: Apache-2.0 */
/* A choice at its end, as metrics and the log see it. */
#ifndef LLS_API_ACCOUNT_H
#define LLS_API_ACCOUNT_H

#include "core/api/generation.h"

/* Counts, times and logs it; event is its LLS_EVENT_FINISHED. */
void lls_account(const struct lls_choice *choice, const struct lls_event *event);

/* Counts what goes by the request, when all its choices are over. */
void lls_account_whole(const struct lls_generation *generation);

/* Which of its deadlines the choice missed first; only for one that is complete. */
enum lls_verdict lls_account_verdict(const struct lls_slo *slo, double first_s,
                                     double longest_gap_s, double mean_gap_s,
                                     double total_s);

#endif
