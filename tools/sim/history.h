/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokens that each session has so far. A workload has made-up tokens in place of
 * answers; a turn's prompt gets the true ones from here, so a prefix cache finds what the
 * turn before has computed.
 */
#ifndef LLS_SIM_TOOL_HISTORY_H
#define LLS_SIM_TOOL_HISTORY_H

#include "tools/workload/workload.h"

struct lls_histories;

int lls_histories_create(const struct lls_workload *, struct lls_histories **out);
void lls_histories_destroy(struct lls_histories *);

/* The item is sent with this prompt: replaces the kept tokens in it by the session's, and
 * remembers it if a turn follows. -ENOMEM. */
int lls_histories_begin(struct lls_histories *, const struct lls_item *, int32_t *prompt);
/* The item's answer has a further token. -ENOMEM. */
int lls_histories_token(struct lls_histories *, const struct lls_item *, int32_t token);

#endif
