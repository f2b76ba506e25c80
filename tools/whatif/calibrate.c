/* SPDX-License-Identifier: Apache-2.0 */
/* Fits the time of a step beyond the device's; see calibrate.h. */
#include "tools/whatif/calibrate.h"

#include <math.h>

#define TRIES 5 /* several, since the batches change with the time of a step */
/* near saturation batches grow with it: the next try is smaller by this */
#define LESS 3
/* error of a token's time, as a share, that needs no further simulation */
#define ENOUGH 0.01

/* Simulates the running policies with beside_ns; returns false if that fails or is no
 * closer to the served time. */
static bool nearer(struct simulation *s, int64_t beside_ns, double served,
                   json_t **report)
{
  const struct lls_objective *tpot = lls_objective_find("tpot");
  struct simulation with = *s;
  struct lls_error why = {0};
  json_t *made;
  with.beside_ns = beside_ns;
  if (simulate(&with, "", &made, &why) < 0)
    return false;
  double before = fabs(metric_of(*report, tpot) - served);
  if (!(fabs(metric_of(made, tpot) - served) < before)) {
    json_decref(made);
    return false;
  }
  json_decref(*report);
  *report = made;
  s->beside_ns = beside_ns;
  return true;
}

static void fit(struct simulation *s, const struct lls_objective *tpot, double served,
                json_t **report)
{
  double share = 1;
  for (int i = 0; i < TRIES; i++) {
    double missing_ms = served - metric_of(*report, tpot);
    /* true also if a metric is unknown (NaN) */
    if (!(fabs(missing_ms) > ENOUGH * served))
      return;
    int64_t beside_ns = s->beside_ns + (int64_t)(missing_ms * share * 1e6);
    if (beside_ns < 0)
      beside_ns = 0;
    if (beside_ns == s->beside_ns)
      return;
    if (!nearer(s, beside_ns, served, report))
      share /= LESS;
  }
}

void calibrate(struct simulation *s, const struct traffic *t, json_t **report)
{
  const struct lls_objective *tpot = lls_objective_find("tpot");
  double alone = metric_of(*report, tpot);
  fit(s, tpot, t->metrics != NULL ? metric_of(t->metrics, tpot) : NAN, report);
  s->fitted = s->beside_ns > 0 ? 1 - alone / metric_of(*report, tpot) : 0;
}
