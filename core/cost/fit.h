/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Least squares with few non-negative coefficients, one sample at a time.
 *
 * It is stored as weighted normal equations. Before solving, each term is scaled by its
 * root mean square, so that terms of size 1 and 1e9 can be combined, and a ridge of
 * 1e-6 is added for terms that never varied. Of two terms that always varied together the
 * one with the larger ridge gets the smaller part. While a coefficient comes out
 * negative, the most negative one is set to 0 and the equations are solved again.
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
  double ridge[LLS_FIT_MAX];           /* (n) */
  double coefficients[LLS_FIT_MAX];    /* (n) */
  bool solved;
};

/* Ridges are then 1e-6. */
void lls_fit_reset(struct lls_fit *, uint32_t n);
/* Adds an observation; the weight of earlier ones is multiplied by `forget`. */
void lls_fit_add(struct lls_fit *, const double *x, double y, double forget);
int lls_fit_solve(struct lls_fit *); /* returns -ENODATA if nothing was added */
/* Returns the prediction; a negative number before the first successful solve. */
double lls_fit_predict(const struct lls_fit *, const double *x);

#endif
