/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which candidate is best. Simulated results are compared with each other. A
 * difference counts if it is larger than the simulation's error for the running
 * policies, and if it also holds on a machine that is a little faster or slower
 * (steady.h).
 */
#ifndef LLS_WHATIF_VERDICT_H
#define LLS_WHATIF_VERDICT_H

#include "tools/whatif/measure.h"
#include "tools/whatif/traffic.h"

struct result {
  /* name of the candidate; the first one is the running configuration */
  const char *name;
  const char *settings; /* the candidate's settings, one a line */
  json_t *report;       /* NULL: refused, with the reason in why */
  struct lls_error why;
  double gain; /* improvement over the running configuration, as a share; NaN: unknown */
  bool told;   /* the difference is significant */
};

struct verdict {
  const struct lls_objective *objective;
  double margin;             /* a share: smaller differences are not significant */
  bool assumed;              /* the margin is a guess, since the traffic has no times */
  const struct result *best; /* NULL: no significant difference */
  /* a step's time in addition to the device's, see calibrate.h */
  int64_t beside_ns;
  double fitted; /* share of beside_ns in a token's time */
  double gain;   /* improvement of the best simulated candidate, as a share; NaN: none */
};

/* Returns the improvement of a report over another, as a share; NaN: unknown. */
double gain_over(const json_t *report, const json_t *base, const struct lls_objective *);

/* Sets each candidate's gain, and whether it exceeds the margin. results: (n), with the
 * reports of their simulations. */
struct verdict judge(struct result *results, size_t n, const struct simulation *,
                     const struct traffic *, const struct lls_objective *objective);

/* Sets the verdict's best: the candidate with the largest significant gain. */
void choose(struct verdict *, const struct result *results, size_t n);

void verdict_print(const struct verdict *, const struct result *, size_t n,
                   const struct traffic *);
json_t *verdict_json(const struct verdict *, const struct result *, size_t n,
                     const struct traffic *);

#endif
