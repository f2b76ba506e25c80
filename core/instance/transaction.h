/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of a step's cache transaction; see transaction.c. Everything here is [step].
 */
#ifndef LLS_INSTANCE_TRANSACTION_H
#define LLS_INSTANCE_TRANSACTION_H

#include <llmserve/cache.h>

#include <stdbool.h>
#include <stdint.h>

struct lls_instance;
struct lls_live;

void lls_transaction_open(struct lls_instance *);
int lls_transaction_reserve(struct lls_instance *, struct lls_live *, uint32_t tokens,
                            uint32_t form, uint32_t flags);
int lls_transaction_preempt(struct lls_instance *, struct lls_live *, uint32_t mode);
/* Returns which tokens the cache shares with a first chunk, which need not be computed:
 * always fewer than the request has. take: claims them. */
struct lls_prefix lls_transaction_prefix(struct lls_instance *, struct lls_live *,
                                         bool take);
/* Notes a change for the request, for rollback. */
void lls_transaction_note(struct lls_instance *, struct lls_live *, uint32_t mark_before);
/* Undoes all changes since the manager's mark; 0: all changes. */
int lls_transaction_rollback(struct lls_instance *, uint32_t mark);
/* Called after the manager's commit: sets every request to LLS_PLACED_NOT. */
void lls_transaction_close(struct lls_instance *);

#endif
