/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which candidate is best, as far as that can be told: simulated results are compared
 * with each other, and a difference counts if it is larger than the simulation of what
 * really ran is off, and if it stands on a machine that is a little faster or slower
 * (steady.h).
 */
#ifndef LLS_WHATIF_VERDICT_H
#define LLS_WHATIF_VERDICT_H

#include "tools/whatif/measure.h"
#include "tools/whatif/traffic.h"

struct result {
  const char *name;     /* of the candidate; the first is what runs */
  const char *settings; /* lines */
  json_t *report;       /* NULL: refused, and why: */
  struct lls_error why;
  double gain; /* how much better than what runs, as a part; NaN: not known */
  bool told;   /* whether that can be told */
};

struct verdict {
  const struct lls_objective *objective;
  double margin; /* a part: smaller differences are not told */
  bool assumed;  /* nothing to hold the simulation against: margin is a guess */
  const struct result *best; /* NULL: no difference that can be told */
  int64_t beside_ns;         /* what a step took beside the device, see calibrate.h */
  double fitted;             /* the part of a token's time that this is */
  double gain; /* of the best simulated one over what runs, as a part; NaN: none */
};

/* How much better a report is than another, as a part; NaN: not known. */
double gain_over(const json_t *report, const json_t *base, const struct lls_objective *);

/* Each one's gain, and whether it is more than the margin. results: (n), the reports of
 * simulations. */
struct verdict judge(struct result *results, size_t n, const struct simulation *,
                     const struct traffic *, const struct lls_objective *objective);

/* The best of those that can be told. */
void choose(struct verdict *, const struct result *results, size_t n);

void verdict_print(const struct verdict *, const struct result *, size_t n,
                   const struct traffic *);
json_t *verdict_json(const struct verdict *, const struct result *, size_t n,
                     const struct traffic *);

#endif
