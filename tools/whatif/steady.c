/* SPDX-License-Identifier: Apache-2.0 */
/* Tests verdicts with longer and shorter steps; see steady.h. */
#include "tools/whatif/steady.h"

static bool any_told(const struct result *results, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (results[i].told)
      return true;
  return false;
}

static bool stands(const struct simulation *s, const struct verdict *v,
                   const struct result *r, const json_t *base)
{
  json_t *report;
  struct lls_error why = {0};
  if (simulate(s, r->settings, &report, &why) < 0)
    return false;
  double gain = gain_over(report, base, v->objective);
  json_decref(report);
  return r->gain > 0 ? gain > v->margin : gain < -v->margin;
}

/* If the running policies cannot be simulated with such steps, no difference is
 * significant. */
static void with_steps(const struct simulation *s, const struct verdict *v,
                       struct result *results, size_t n)
{
  json_t *base = NULL;
  struct lls_error why = {0};
  if (any_told(results, n) && simulate(s, results[0].settings, &base, &why) < 0)
    base = NULL;
  for (size_t i = 0; i < n; i++)
    results[i].told = results[i].told && base != NULL && stands(s, v, &results[i], base);
  json_decref(base);
}

void steady(const struct simulation *s, const struct verdict *v, struct result *results,
            size_t n)
{
  struct simulation with = *s;
  with.slower = STEADY_PART;
  with_steps(&with, v, results, n);
  with.slower = -STEADY_PART;
  with_steps(&with, v, results, n);
}
