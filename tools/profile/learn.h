/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile learnt from the steps that a server has run, instead of from measurement
 * steps: for a server that is never idle.
 *
 * The coefficients that a running server fits (core/cost/cost.h) cannot become a profile:
 * they describe whole iterations, only the last 200 steps or so, and do not separate
 * weights from overhead. The steps themselves can: they are fitted like measured ones
 * (fit.h), and every fourth is held out to find the fit's error. Such a profile knows
 * nothing of batches that never ran: beyond the largest batch, time is assumed to grow
 * with the rows.
 */
#ifndef LLS_PROFILE_TOOL_LEARN_H
#define LLS_PROFILE_TOOL_LEARN_H

#include "tools/profile/fit.h"

#define LLS_LEARN_STEPS 48  /* least number of steps */
#define LLS_LEARN_ERROR 0.5 /* most error of the median held-out step */

/* Moves every fourth step to the end and keeps the order of the others; returns the
 * number of the others. */
size_t lls_profile_set_aside(struct lls_profile_steps *);

/* Reads the steps from a history and fits them. -ENODATA: too few steps; -ERANGE: no
 * device could have these times. The caller frees both. */
int lls_profile_learn(const char *path, const struct lls_cost_shape *,
                      const struct lls_profile *like, struct lls_profile_steps *steps,
                      size_t *used, struct lls_profile *out, struct lls_error *err);

#endif
