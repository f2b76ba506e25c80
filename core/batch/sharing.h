/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that share one database (PostgreSQL) and one folder of files: which of them
 * are alive, and which one runs a batch. A process with a database of its own has the id
 * ""; these functions then do nothing.
 *
 * Each process renews its row in `replicas` every 3 s; it counts as alive for 10 s after
 * that, by the clock of the database. `owner` of a batch is the process that runs it.
 * Another one may claim the batch once its owner is not alive (claim.h). Each statement
 * of an owner names it in its WHERE: one that has lost the batch changes no row, gets
 * -ESTALE, and forgets the batch.
 *
 * All functions run on [store], or before it starts.
 */
#ifndef LLS_BATCH_SHARING_H
#define LLS_BATCH_SHARING_H

#include "core/batch/active.h"

/* Gives this process its id and its row. Fails if the folder of files is not the one that
 * the other processes have. */
int lls_sharing_open(struct lls_store *store, struct lls_error *err);
/* Lets other processes take over the batches at once. */
void lls_sharing_close(struct lls_store *store);

/* Renews the row if it is time, and reads what other processes have changed: forgets
 * batches that they run, cancels those that they cancelled, lets free ones be admitted.
 */
int lls_sharing_beat(struct lls_store *store, struct lls_error *err);
/* Returns the ms until then, and at most `idle_ms`. */
int lls_sharing_wait_ms(const struct lls_store *store, int idle_ms);

/* After -ESTALE: reads what became of the batch. Returns 1 if it was cancelled, 0 if it
 * is another process's and forgotten, or a negative errno. */
int lls_sharing_refresh(struct lls_store *store, struct lls_active *active,
                        struct lls_error *err);

/* Deletes rows of processes that ended long ago. */
int lls_sharing_sweep(struct lls_store *store, struct lls_error *err);

#endif
