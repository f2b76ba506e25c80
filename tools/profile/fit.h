/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From measured steps to a profile. The model of core/cost/model.h is linear in its
 * unknowns once it is known which side of each max counts: the fixed time of a step, of a
 * sequence, of a token drawn, of a query meeting a key, of a cached token, and the time
 * of a weight at each point of the curve. So: non-negative least squares of relative
 * errors, then the sides of chunks again by what came out, until they stay.
 *
 * Steps alone do not tell a step's fixed time from that of reading the weights, which all
 * of them do, and a short measurement leaves more open. A profile of the kind of device,
 * where there is one, counts as one more step for each term, a tenth as heavy as a step
 * that was measured: what the steps tell they decide, the rest keeps its published value.
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
  double noise; /* medians of a step's times over their least */
  double lost;  /* part of the time that others had the cores, see cores.h */
};
void lls_profile_steps_free(struct lls_profile_steps *);

/* Fills efficiency, overhead, projection, bandwidth and matrix of the profile: the last
 * two with the best rates seen, or those of `like` where none was better. max_rows: of a
 * step. like: NULL = nothing is known of the device. */
int lls_profile_fit(const struct lls_profile_point *, size_t n,
                    const struct lls_cost_shape *, uint32_t max_rows,
                    const struct lls_profile *like, struct lls_profile *out,
                    struct lls_error *err);

/* The time of a shape by the rates. */
double lls_shape_ns(const struct lls_cost_rates *, const struct lls_shape *);

#endif
