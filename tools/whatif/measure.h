/* SPDX-License-Identifier: Apache-2.0 */
/* One simulation of the traffic, and the metrics that are looked at. */
#ifndef LLS_WHATIF_MEASURE_H
#define LLS_WHATIF_MEASURE_H

#include <jansson.h>

#include "core/config/objective.h"
#include "tools/whatif/child.h"
#include "tools/whatif/profile.h"
#include "tools/whatif/running.h"

/* Its value in a report; NaN where there is none. */
double metric_of(const json_t *report, const struct lls_objective *);
/* How far `x` is from what `base` says, as a part of it; NaN where either is unknown. */
double metric_apart(double x, double base);

struct simulation {
  const struct whatif_options *options;
  const struct running *running;
  struct profile *profile;
  int64_t beside_ns; /* what each step takes beside the device, see calibrate.h */
  double fitted;     /* the part of a token's time that this is */
  double slower;     /* a part by which steps take longer than the profile says */
};

/* The report of the traffic with these settings beside what runs; -ECHILD with
 * llmserve-sim's sentence where they are refused. */
int simulate(const struct simulation *, const char *settings, json_t **report,
             struct lls_error *err);

#endif
