/* SPDX-License-Identifier: Apache-2.0 */
/* Updates metrics and the log when a choice or a whole request has finished. */
#ifndef LLS_API_ACCOUNT_H
#define LLS_API_ACCOUNT_H

#include "core/api/generation.h"

/* Counts, times and logs a finished choice; event is its LLS_EVENT_FINISHED. */
void lls_account(const struct lls_choice *choice, const struct lls_event *event);

/* Updates the metrics counted per request, when all its choices have finished. */
void lls_account_whole(const struct lls_generation *generation);

#endif
