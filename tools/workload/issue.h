/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When each item is sent. Three loads in one: items that arrive by the clock (open loop),
 * a limit on simultaneous items (a closed loop if all arrive at the beginning), and
 * best-effort batches, each sent when the previous one has ended, as long as timed
 * items still arrive (BROS, section 6). A turn that follows another is due when that
 * one has ended and its wait is over: a closed loop for each session.
 *
 *   for (;;) {
 *     while ((item = lls_issuer_next(issuer, now, &wake_ns)) != NULL)
 *       send(item);
 *     if (lls_issuer_done(issuer)) break;
 *     wait until wake_ns or until an item ends;
 *     lls_issuer_ended(issuer, item, its end) for each item that ends
 *   }
 */
#ifndef LLS_WORKLOAD_ISSUE_H
#define LLS_WORKLOAD_ISSUE_H

#include "tools/workload/workload.h"

struct lls_issuer;

/* max_concurrency 0: no limit. The workload must outlive the issuer. */
int lls_issuer_create(const struct lls_workload *, uint32_t max_concurrency,
                      struct lls_issuer **out);
void lls_issuer_destroy(struct lls_issuer *);

/*
 * Returns the next item due at now_ns. NULL: none is due; *wake_ns is the time of the
 * next one, LLS_NEVER if it waits for an end. Every item is handed out once.
 */
const struct lls_item *lls_issuer_next(struct lls_issuer *, int64_t now_ns,
                                       int64_t *wake_ns);
/* Returns the time from which the item handed out last waited for nothing but the limit
 * on simultaneous items: its arrival, or the end of the wait before its turn; LLS_NEVER:
 * an item of a batch. */
int64_t lls_issuer_due_ns(const struct lls_issuer *);
/* Reports that a handed-out item has ended, in whatever way, at this time. */
void lls_issuer_ended(struct lls_issuer *, const struct lls_item *, int64_t ended_ns);

/* Returns true if all items were handed out and have ended. */
bool lls_issuer_done(const struct lls_issuer *);
/* Returns the number of all items as far as is known. */
uint32_t lls_issuer_total(const struct lls_issuer *);

#endif
