/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile learnt from steps that a server has run, in place of steps that are run to be
 * measured: for a server that is never idle.
 *
 * The coefficients that a running server fits (core/cost/cost.h) cannot become a profile:
 * they are of iterations as a whole, have forgotten all but the last 200 steps or so, and
 * do not tell weights from overhead. The steps themselves can: they are fitted as
 * measured ones are (fit.h), every fourth kept from the fit to see how far it is off.
 * What such a profile cannot know is batches that were never run: beyond the largest,
 * time is taken to grow with the rows.
 */
#ifndef LLS_PROFILE_TOOL_LEARN_H
#define LLS_PROFILE_TOOL_LEARN_H

#include "tools/profile/fit.h"

#define LLS_LEARN_STEPS 48  /* at least */
#define LLS_LEARN_ERROR 0.5 /* of the median step that was kept from the fit, at most */

/* Every fourth step at the end, the others before it in their order; how many those
 * are. */
size_t lls_profile_set_aside(struct lls_profile_steps *);

/* Reads the steps from a history and fits them; -ENODATA: there are too few, -ERANGE:
 * they fit no device. Both are to be freed. */
int lls_profile_learn(const char *path, const struct lls_cost_shape *,
                      const struct lls_profile *like, struct lls_profile_steps *steps,
                      size_t *used, struct lls_profile *out, struct lls_error *err);

#endif
