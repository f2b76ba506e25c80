/* SPDX-License-Identifier: Apache-2.0 */
/* How batches end. Everything is of [store]. */
#ifndef LLS_BATCH_ENDING_H
#define LLS_BATCH_ENDING_H

#include "core/batch/active.h"

/* A new reference to the batch, which is going to end, or NULL and why: *status is
 * -ENOENT where there is none of this tenant, -EALREADY where it is over or ending. */
json_t *lls_ending_cancel(struct lls_store *store, const char *tenant, const char *id,
                          int *status, struct lls_error *err);

/* The time of a batch that is IN_PROGRESS is over: what is not answered will not be. */
int lls_ending_expire(struct lls_store *store, struct lls_active *active,
                      struct lls_error *err);

/* One step towards the end of a batch that is FINALIZING or CANCELLING: says of some more
 * lines that they were not run; at last makes its files and status what they will be, and
 * forgets it. 1: there is more to do, 0: not now, or it is over. */
int lls_ending_step(struct lls_store *store, struct lls_active *active,
                    struct lls_error *err);

#endif
