/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When each item is sent. Three loads in one: items that arrive by the clock (open loop),
 * at most so many at once (closed loop where all arrive at the beginning), and
 * best-effort batches of which each is sent when the one before has ended, as long as
 * others still arrive (BROS, section 6).
 *
 *   for (;;) {
 *     while ((item = lls_issuer_next(issuer, now, &wake_ns)) != NULL)
 *       send(item);
 *     if (lls_issuer_done(issuer)) break;
 *     wait until wake_ns or until one ends; lls_issuer_ended(issuer, item) for each that
 * does
 *   }
 */
#ifndef LLS_WORKLOAD_ISSUE_H
#define LLS_WORKLOAD_ISSUE_H

#include "tools/workload/workload.h"

struct lls_issuer;

/* max_concurrency 0: no limit. The workload outlives the issuer. */
int lls_issuer_create(const struct lls_workload *, uint32_t max_concurrency,
                      struct lls_issuer **out);
void lls_issuer_destroy(struct lls_issuer *);

/*
 * The next item that is due at now_ns, or NULL: then *wake_ns is when the next one is due
 * by the clock, LLS_NEVER if it waits for an end. Every item is handed out once.
 */
const struct lls_item *lls_issuer_next(struct lls_issuer *, int64_t now_ns,
                                       int64_t *wake_ns);
/* An item that was handed out has ended, however. */
void lls_issuer_ended(struct lls_issuer *, const struct lls_item *);

/* Nothing is left to hand out and all that was has ended. */
bool lls_issuer_done(const struct lls_issuer *);
/* Items handed out so far, and items there will be as far as is known. */
uint32_t lls_issuer_issued(const struct lls_issuer *);
uint32_t lls_issuer_total(const struct lls_issuer *);

#endif
