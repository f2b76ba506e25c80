/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a batch's input, checked before any of them is run. Everything is of
 * [store]. */
#ifndef LLS_BATCH_VALIDATION_H
#define LLS_BATCH_VALIDATION_H

#include "core/batch/active.h"

/* Checks some more lines of a batch that is VALIDATING; with the last of them it becomes
 * IN_PROGRESS, or fails and is no longer active. 0, or why nothing can be done now. */
int lls_validation_step(struct lls_store *store, struct lls_active *active,
                        struct lls_error *err);

#endif
