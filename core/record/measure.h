/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that are measured before serving; see measure.c. */
#ifndef LLS_RECORD_MEASURE_H
#define LLS_RECORD_MEASURE_H

#include "core/instance/instance.h"

/* Tells the cost model what restoring costs; the pool must be empty. What was measured at
 * an earlier start is taken from that folder, unless `always`, and kept there; a file
 * that can't be read or written is a warning. NULL or "": no folder. */
int lls_measure_hidden(struct lls_instance *, const char *folder, bool always,
                       struct lls_error *);

#endif
