/* SPDX-License-Identifier: Apache-2.0 */
/* How batches end. All functions run on [store]. */
#ifndef LLS_BATCH_ENDING_H
#define LLS_BATCH_ENDING_H

#include "core/batch/active.h"

/* Begins to cancel a batch. Returns a new reference to its object, or NULL with
 * *status: -ENOENT if the tenant has no such batch, -EALREADY if it has ended or is
 * ending. */
json_t *lls_ending_cancel(struct lls_store *store, const char *tenant, const char *id,
                          int *status, struct lls_error *err);

/* Expires a batch that is IN_PROGRESS: its unanswered lines will not be run. */
int lls_ending_expire(struct lls_store *store, struct lls_active *active,
                      struct lls_error *err);

/* Does one step towards the end of a batch that is FINALIZING or CANCELLING: writes the
 * error answers of some lines that were not run; when none is left, publishes its
 * files, sets its final status and forgets it. Returns 1 if there is more to do, 0 if
 * not now or if the batch has ended. */
int lls_ending_step(struct lls_store *store, struct lls_active *active,
                    struct lls_error *err);

#endif
