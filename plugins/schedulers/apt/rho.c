/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of hidden form: the slope of a step's extra time against the number of its
 * hidden tokens, by least squares. The fixed cost, such as reading the weights of K and V
 * again, is left out: a further request does not pay it again. The paper measures the
 * slope for half a minute before serving (5.1); here it follows from the cost model,
 * which for a profiled device is the same measurement. A cost model without estimates is
 * asked again in every plan, through the cache's forms().
 *
 * Two decisions follow from it. Does hidden form pay for all requests? A cache full of it
 * holds 1 / eta times as many requests as one full of K and V, so it pays as long as a
 * step is at most 1 / eta times as long (apt_hidden_pays). If it does not: is converting
 * hidden form to KV worth the memory?
 */
#include "apt.h"

#include <math.h>

static const uint32_t most_tokens = 4096; /* 256 blocks of 16 */

int apt_calibrate(void *self, const struct lls_cost *cost)
{
  struct apt *a = self;
  struct lls_iteration_shape shape = {.size = sizeof shape};
  int64_t none = cost->iteration_ns(cost->context, &shape);
  double n = 0, x = 0, y = 0, xy = 0, xx = 0;
  a->restore_ns = -1;
  for (uint32_t tokens = 16; tokens <= most_tokens; tokens += 16) {
    shape.hidden_tokens = tokens;
    int64_t with = cost->iteration_ns(cost->context, &shape);
    if (none == LLS_NEVER || with == LLS_NEVER)
      return 0;
    n++;
    x += tokens;
    y += (double)(with - none);
    xy += (double)tokens * (double)(with - none);
    xx += (double)tokens * tokens;
  }
  a->restore_ns = fmax(0, (n * xy - x * y) / (n * xx - x * x));
  return 0;
}

/* ---- for all ----------------------------------------------------------------------- */

/* Returns the time of a decode without context, the minimum of every step; 0 if
 * unknown. */
static double least_step_ns(const struct lls_cost *cost)
{
  const uint32_t context = 0;
  const struct lls_iteration_shape one = {
      .size = sizeof one, .n_decodes = 1, .decode_context = &context};
  int64_t ns = cost->iteration_ns(cost->context, &one);
  return ns > 0 ? (double)ns : 0;
}

bool apt_hidden_pays(const struct apt *a, double restore_ns, uint32_t total_units)
{
  double more_ns = restore_ns * total_units * a->block_tokens;
  return more_ns <= least_step_ns(a->base.host->cost) * (1 / a->eta - 1);
}

/* ---- upgrades ---------------------------------------------------------------------- */

/* Seconds that a step would be shorter if none of its tokens were in hidden form. */
static double saved(const struct apt *a, uint64_t hidden_tokens)
{
  const struct lls_cost *cost = a->base.host->cost;
  struct lls_iteration_shape shape = {.size = sizeof shape};
  int64_t without = cost->iteration_ns(cost->context, &shape);
  shape.hidden_tokens = hidden_tokens;
  int64_t with = cost->iteration_ns(cost->context, &shape);
  if (with == LLS_NEVER || without == LLS_NEVER)
    return a->n_rho > 0 ? INFINITY : 0;
  return (double)(with - without) * 1e-9;
}

/* Returns theta2 of all running requests in hidden form together, for an upgrade to KV:
 * the time that all N requests save in each step, for each unit of memory that the
 * upgrade takes. */
static double upgrade_density(const struct apt *a)
{
  uint64_t tokens = 0, units = 0;
  if (!isnan(a->params.rho))
    return a->n_rho / (1 - a->eta);
  for (uint32_t i = 0; i < a->n_running; i++) {
    const struct candidate *c = &a->candidates[i];
    if (c->gone || c->held != LLS_FORM_HIDDEN)
      continue;
    tokens += c->request->cached_tokens;
    units += c->kv - c->hidden;
  }
  return units == 0 ? 0
                    : (a->n_running + a->n_waiting) * a->params.rho_scale *
                          saved(a, tokens) / (double)units;
}

uint64_t apt_dearer_than_upgrades(const struct apt *a)
{
  double density = upgrade_density(a);
  uint64_t units = 0;
  if (density <= 0 || a->hidden_pays)
    return UINT64_MAX;
  for (uint32_t i = a->n_running; i < a->n_running + a->n_waiting; i++) {
    const struct candidate *c = &a->candidates[i];
    if (!c->violated && c->pending > density * c->kv)
      units += c->kv;
  }
  return units;
}
