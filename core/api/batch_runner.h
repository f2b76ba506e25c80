/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the lines of batches as best_effort requests (offline.h), and hands their answers
 * to the store.
 *
 *   store --take--> ready --start--> running --answer--> put, in the store
 *     ^               |                 |
 *     +---give back---+                 |   cancelled, or its time is over
 *     +---put off-----------------------+   a 429 or 5xx: line_answer.h says for how long
 *
 * A line that is put off waits in the store, where it holds no place that another line,
 * of the same batch or another, could have.
 *
 * At most [server] batch_requests run at once, and only a few of them wait for their
 * first token, so that under a scheduler that knows no classes, too, a client's request
 * finds a short queue. Everything is of [main].
 */
#ifndef LLS_API_BATCH_RUNNER_H
#define LLS_API_BATCH_RUNNER_H

#include "core/api/offline.h"
#include "core/api/store_front.h"

struct lls_batch_runner;

/* The function that runs lines of this endpoint; NULL: batches have none of it. */
lls_offline_run *lls_runner_of(const char *endpoint);

struct lls_batch_runner *lls_runner_create(struct lls_store_front *front);
/* No generation of it is alive. NULL is fine. */
void lls_runner_free(struct lls_batch_runner *runner);

/* Starts as many lines as may be started now, and asks for more. */
void lls_runner_feed(struct lls_batch_runner *runner);
/* Now and then: gives lines back whose time is over. */
void lls_runner_tick(struct lls_batch_runner *runner);
/* Gives the lines of a batch back. */
void lls_runner_cancel(struct lls_batch_runner *runner, const char *batch);
/* Cancels what runs, and starts nothing more. */
void lls_runner_drain(struct lls_batch_runner *runner);

#endif
