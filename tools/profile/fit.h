/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From measured steps to a profile. The model of core/cost/model.h is linear in its
 * unknowns once the larger side of each max is known. The unknowns are the fixed time
 * of a step, of a sequence, of a token drawn, of a query-key pair, of a cached token,
 * and the time of a weight at each point of the curve. So the fit is non-negative least
 * squares of relative errors; then the sides of chunks are chosen again by the result,
 * until they no longer change.
 *
 * Steps alone cannot separate a step's fixed time from the time to read the weights,
 * which every step does, and a short measurement leaves more terms open. If there is a
 * profile of this kind of device, it counts as one more step for each term, with a
 * tenth of a measured step's weight: terms that the steps determine follow the steps,
 * and the rest keeps its published value.
 */
#ifndef LLS_PROFILE_TOOL_FIT_H
#define LLS_PROFILE_TOOL_FIT_H

#include "core/cost/model.h"
#include "tools/profile/shapes.h"

struct lls_profile_point {
  struct lls_shape shape;
  double ns;
};

struct lls_profile_steps {
  struct lls_profile_point *points; /* (n) */
  size_t n;
  double noise; /* median of a step's times over the least of them */
  double lost;  /* share of the time lost to other processes, see cores.h */
};
void lls_profile_steps_free(struct lls_profile_steps *);

/* Fills the profile's efficiency, overhead, projection, bandwidth and matrix. The last
 * two are the best rates seen, or those of `like` if better. max_rows: the most rows of
 * a step. like: a profile of this kind of device; NULL: none. */
int lls_profile_fit(const struct lls_profile_point *, size_t n,
                    const struct lls_cost_shape *, uint32_t max_rows,
                    const struct lls_profile *like, struct lls_profile *out,
                    struct lls_error *err);

/* Returns the time of a step of this shape by the rates. */
double lls_shape_ns(const struct lls_cost_rates *, const struct lls_shape *);

#endif
