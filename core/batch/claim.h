/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The claim of a batch whose owner is not alive (sharing.h). The new owner continues with
 * copies of the result files, up to the bytes that the row counts: an owner that was only
 * slow then writes to files that no process reads. Functions run on [store].
 */
#ifndef LLS_BATCH_CLAIM_H
#define LLS_BATCH_CLAIM_H

#include "core/batch/active.h"

/* A condition on a row of batches: the process ?1 may run it. */
#define LLS_BATCH_IS_FREE                                                                \
  "(owner = '' OR owner = ?1 OR NOT EXISTS (SELECT 1 FROM replicas WHERE replicas.id = " \
  "batches.owner AND lease > unixepoch()))"

/* Makes this process the owner of a batch that was just read; *taken: another one was
 * first. */
int lls_claim_batch(struct lls_store *store, struct lls_active *active, bool *taken,
                    struct lls_error *err);

#endif
