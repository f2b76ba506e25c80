/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the lines of a batch's input before any of them is run. All functions run on
 * [store]. */
#ifndef LLS_BATCH_VALIDATION_H
#define LLS_BATCH_VALIDATION_H

#include "core/batch/active.h"

/* Checks some more lines of a batch that is VALIDATING. After the last line the batch
 * becomes IN_PROGRESS, or fails and is no longer active. Returns 0 or a negative errno.
 */
int lls_validation_step(struct lls_store *store, struct lls_active *active,
                        struct lls_error *err);

#endif
