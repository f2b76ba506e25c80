/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that are measured before serving; see measure.c. */
#ifndef LLS_LOOP_MEASURE_H
#define LLS_LOOP_MEASURE_H

#include "core/loop/instance.h"

/* Tells the cost model what restoring costs; the pool must be empty. */
int lls_measure_hidden(struct lls_instance *, struct lls_error *);

#endif
