/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the lines of batches as best_effort requests (offline.h), and hands their answers
 * to the store.
 *
 *   store --take--> ready --start--> running --answer--> put, in the store
 *     ^               |                 |
 *     +---give back---+                 |   cancelled, or its batch has expired
 *     +---put off-----------------------+   a 429 or 5xx: line_answer.h says for how long
 *
 * A line that is put off waits in the store and occupies none of the places of running
 * lines meanwhile.
 *
 * At most [server] batch_requests lines run at once, and only a few of them may wait
 * for their first token: so a client's request meets a short queue even under a
 * scheduler that ignores request classes. Everything runs on [main].
 */
#ifndef LLS_API_BATCH_RUNNER_H
#define LLS_API_BATCH_RUNNER_H

#include "core/api/offline.h"
#include "core/api/store/store_front.h"

struct lls_batch_runner;

/* Returns the dialect of this endpoint of a batch, or NULL if batches do not support it.
 */
const struct lls_dialect *lls_runner_dialect(const struct lls_api *api,
                                             const char *endpoint);

struct lls_batch_runner *lls_runner_create(struct lls_store_front *front);
/* Frees the runner, none of whose lines may be running; NULL is allowed. */
void lls_runner_free(struct lls_batch_runner *runner);

/* Starts as many lines as may run now, and requests more from the store. */
void lls_runner_feed(struct lls_batch_runner *runner);
/* Called by the timer: gives the lines of expired batches back. */
void lls_runner_tick(struct lls_batch_runner *runner);
/* Gives the lines of a batch back. */
void lls_runner_cancel(struct lls_batch_runner *runner, const char *batch);
/* Cancels the running lines, and starts no more. */
void lls_runner_drain(struct lls_batch_runner *runner);

#endif
