/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs of the cache transaction of a step; see transaction.c. Everything here is
 * [step].
 */
#ifndef LLS_INSTANCE_TRANSACTION_H
#define LLS_INSTANCE_TRANSACTION_H

#include "core/instance/instance.h"

void lls_transaction_open(struct lls_instance *);
int lls_transaction_reserve(struct lls_instance *, struct lls_live *, uint32_t tokens,
                            uint32_t form, uint32_t flags);
int lls_transaction_preempt(struct lls_instance *, struct lls_live *, uint32_t mode);
/* Tokens that a first chunk need not compute since others have them: fewer than the
 * request has, whatever the manager says. */
uint32_t lls_transaction_prefix(struct lls_instance *, struct lls_live *, bool take);
/* Notes what was done for a request, for rollback. */
void lls_transaction_note(struct lls_instance *, struct lls_live *, uint32_t mark_before);
/* Undoes what was done since the manager's mark; 0 = everything. */
int lls_transaction_rollback(struct lls_instance *, uint32_t mark);
/* After the manager's commit: every request is LLS_PLACED_NOT again. */
void lls_transaction_close(struct lls_instance *);

#endif
