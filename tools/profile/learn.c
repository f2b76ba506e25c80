/* SPDX-License-Identifier: Apache-2.0 */
/* Learns a profile from served steps; see learn.h. */
#include "tools/profile/learn.h"

#include <errno.h>

#include "tools/profile/served.h"

#define HELD_OUT 4 /* every fourth step is held out of the fit */

size_t lls_profile_set_aside(struct lls_profile_steps *s)
{
  size_t used = 0;
  for (size_t i = 0; i < s->n; i++)
    if (i % HELD_OUT != HELD_OUT - 1) {
      struct lls_profile_point m = s->points[i];
      s->points[i] = s->points[used];
      s->points[used++] = m;
    }
  return used;
}

static uint32_t most_rows(const struct lls_profile_steps *s)
{
  uint32_t most = 1;
  for (size_t i = 0; i < s->n; i++) {
    uint32_t rows = 0;
    for (uint32_t k = 0; k < s->points[i].shape.n; k++)
      rows += s->points[i].shape.parts[k].tokens;
    most = rows > most ? rows : most;
  }
  return most;
}

static int check(const struct lls_profile_steps *s, size_t used,
                 const struct lls_cost_shape *shape, const struct lls_profile *p,
                 struct lls_error *err)
{
  struct lls_cost_rates rates;
  struct lls_served_fit fit;
  lls_cost_rates_init(&rates, p, shape);
  int rc = lls_served_steps_fit(s->points + used, s->n - used, &rates, &fit);
  if (rc < 0)
    return lls_fail(err, rc, "no memory for the steps");
  return fit.error <= LLS_LEARN_ERROR
             ? 0
             : lls_fail(err, -ERANGE,
                        "the steps that the server has run fit no device: half of those "
                        "kept from the fit are off by %.0f %% or more; other processes "
                        "may have had the cores",
                        100 * fit.error);
}

int lls_profile_learn(const char *path, const struct lls_cost_shape *shape,
                      const struct lls_profile *like, struct lls_profile_steps *steps,
                      size_t *used, struct lls_profile *out, struct lls_error *err)
{
  int rc = lls_served_steps_read(path, steps, err);
  if (rc < 0)
    return rc;
  if (steps->n < LLS_LEARN_STEPS)
    return lls_fail(err, -ENODATA,
                    "the server tells of %zu steps, and %d are needed to learn what its "
                    "device can do",
                    steps->n, LLS_LEARN_STEPS);
  uint32_t rows = most_rows(steps);
  *used = lls_profile_set_aside(steps);
  rc = lls_profile_fit(steps->points, *used, shape, rows, like, out, err);
  return rc == 0 ? check(steps, *used, shape, out, err) : rc;
}
