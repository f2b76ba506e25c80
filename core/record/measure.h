/* SPDX-License-Identifier: Apache-2.0 */
/* Measures hidden form before serving; see measure.c. */
#ifndef LLS_RECORD_MEASURE_H
#define LLS_RECORD_MEASURE_H

#include <stdbool.h>

struct lls_error;
struct lls_instance;

/* Measures what restoring from hidden form costs, for the cost model. The pool must be
 * empty. `folder` (NULL or "": none) keeps the measurements for the next start; they
 * are read from there unless `always`. A file that cannot be read or written is a
 * warning. */
int lls_measure_hidden(struct lls_instance *, const char *folder, bool always,
                       struct lls_error *);

#endif
