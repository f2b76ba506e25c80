/* SPDX-License-Identifier: Apache-2.0 */
/* One simulation of the traffic, and the metrics read from its report. */
#ifndef LLS_WHATIF_MEASURE_H
#define LLS_WHATIF_MEASURE_H

#include <jansson.h>

#include "core/config/objective.h"
#include "tools/whatif/child.h"
#include "tools/whatif/profile.h"
#include "tools/whatif/running.h"

/* Returns the objective's value in a report; NaN if it has none. */
double metric_of(const json_t *report, const struct lls_objective *);
/* Returns the difference of `x` from `base`, as a share of base; NaN if either is
 * unknown. */
double metric_apart(double x, double base);

struct simulation {
  const struct whatif_options *options;
  const struct running *running;
  struct profile *profile;
  /* time that each step takes in addition to the device's, see calibrate.h */
  int64_t beside_ns;
  double fitted; /* share of beside_ns in a token's time */
  double slower; /* share by which steps are made longer than in the profile */
};

/* Simulates the traffic with the running configuration, changed by settings. -ECHILD
 * with llmserve-sim's error if it refuses them. */
int simulate(const struct simulation *, const char *settings, json_t **report,
             struct lls_error *err);

#endif
