/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Least squares of a few non-negative coefficients, one sample at a time.
 *
 * Kept as weighted normal equations; each term is scaled by its root mean square before
 * solving, so that 1 and 1e9 can stand side by side, with a ridge of 1e-6 for
 * terms that never varied. While coefficients come out negative, the most negative one is
 * set to 0 and the rest is solved again.
 */
#ifndef LLS_COST_FIT_H
#define LLS_COST_FIT_H

#include <stdbool.h>
#include <stdint.h>

#define LLS_FIT_MAX 40 /* terms */

struct lls_fit {
  uint32_t n;                          /* terms in use */
  double xx[LLS_FIT_MAX][LLS_FIT_MAX]; /* sum of w x x^T */
  double xy[LLS_FIT_MAX];              /* sum of w x y */
  double coefficients[LLS_FIT_MAX];    /* (n) */
  bool solved;
};

void lls_fit_reset(struct lls_fit *, uint32_t n);
/* Adds an observation; earlier ones count `forget` times as much as before. */
void lls_fit_add(struct lls_fit *, const double *x, double y, double forget);
int lls_fit_solve(struct lls_fit *); /* -ENODATA if nothing was added */
/* Negative as long as nothing was solved. */
double lls_fit_predict(const struct lls_fit *, const double *x);

#endif
