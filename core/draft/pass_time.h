/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of a draft model's pass by its rows: a line, fitted by least squares to the
 * passes so far, of which old ones count less.
 */
#ifndef LLS_DRAFT_PASS_TIME_H
#define LLS_DRAFT_PASS_TIME_H

#include <stdint.h>

struct lls_pass_time { /* weighted sums */
  double n, rows, ns, rows_rows, rows_ns;
};

/* Adds a measured pass. A pass that took more than twice the estimate counts as twice the
 * estimate. */
void lls_pass_time_add(struct lls_pass_time *, uint32_t rows, int64_t ns);
/* Returns the time of a pass of that many rows; 0: no pass was measured yet. */
int64_t lls_pass_time_of(const struct lls_pass_time *, uint32_t rows);
/* Returns the most rows, at most `most`, of a pass that takes no longer than left_ns. */
uint32_t lls_pass_time_rows(const struct lls_pass_time *, int64_t left_ns, uint32_t most);
/* Makes the estimate a little less: after a pass that was too slow to be made, so that
 * one outlier does not end all passes. */
void lls_pass_time_doubt(struct lls_pass_time *);

#endif
