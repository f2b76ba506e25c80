/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which candidate is best, as far as that can be told: simulated results are compared
 * with each other, and a difference counts if it is larger than the simulation of what
 * really ran is off.
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
};

struct verdict {
  const struct metric *objective;
  double margin; /* a part: smaller differences are not told */
  bool assumed;  /* nothing to hold the simulation against: margin is a guess */
  const struct result *best; /* NULL: no difference that can be told */
  int64_t beside_ns;         /* what a step took beside the device, see calibrate.h */
  double fitted;             /* the part of a token's time that this is */
  double gain; /* of the best simulated one over what runs, as a part; NaN: none */
};

struct verdict judge(const struct result *results, size_t n, const struct simulation *,
                     const struct traffic *, const struct metric *objective);

void verdict_print(const struct verdict *, const struct result *, size_t n,
                   const struct traffic *);
json_t *verdict_json(const struct verdict *, const struct result *, size_t n,
                     const struct traffic *);

#endif
