/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of many shapes on a real engine, each measured in many rounds.
 *
 * All steps, round after round and in a new order each time, so that whatever disturbs
 * the machine for a while, and what the step before leaves in its caches, meets every
 * step and not one step every time. The first round, which also meets the cache's memory
 * for the first time, does not count.
 */
#ifndef LLS_PROFILE_TOOL_ROUNDS_H
#define LLS_PROFILE_TOOL_ROUNDS_H

#include "tools/profile/fit.h"
#include "tools/profile/measure.h"

#define LLS_MOST_PROFILE_STEPS 480

/* Takes time_ns, and shows how far it is; the seed is of the shapes and their order. What
 * is in `out` is to be freed in any case. */
int lls_profile_rounds(struct lls_bench_engine *, const struct lls_shape_limits *,
                       int64_t time_ns, uint64_t seed, struct lls_profile_steps *out,
                       struct lls_error *err);

#endif
