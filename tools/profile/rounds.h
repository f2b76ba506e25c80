/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of many shapes on a real engine, each measured in many rounds.
 *
 * Each round runs all steps in a new order. So a temporary disturbance of the machine,
 * and the caches' contents after the step before, affect all steps and not always the
 * same one. The first round, which also touches the cache's memory for the first time,
 * does not count.
 */
#ifndef LLS_PROFILE_TOOL_ROUNDS_H
#define LLS_PROFILE_TOOL_ROUNDS_H

#include "tools/profile/fit.h"
#include "tools/profile/measure.h"

#define LLS_MOST_PROFILE_STEPS 480

struct lls_profile_rounds_options {
  int64_t time_ns; /* how long to measure */
  uint64_t seed;   /* decides the shapes and their order */
  bool quiet;      /* show no progress */
};

/* `out` is to be freed in any case. */
int lls_profile_rounds(struct lls_bench_engine *, const struct lls_shape_limits *,
                       const struct lls_profile_rounds_options *,
                       struct lls_profile_steps *out, struct lls_error *err);

#endif
