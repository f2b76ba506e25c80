/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AccelGen's knowledge of the device: the pivot (section 4.2), the longest of the last
 * steps, the average chunk, and how often and for how long requests are preempted.
 *
 * The paper measures the pivot where throughput "nearly saturates" (section 3.1) as the
 * forward size grows, and has 768 for OPT-13B on an A100. Here the cost model is asked
 * for it: the smallest multiple of 64 with 99 % of the largest throughput, which for that
 * model and device is 704 (experiments/papers/accelgen, pivot).
 */
#include "accelgen.h"

#include <llmserve/policy/check.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const double saturated = 0.99;
enum { PIVOT_STEP = 64, PIVOT_MOST = 4096, PIVOT_UNKNOWN = 768, FEW_STEPS = 6 };

static void set_chunk(struct accelgen_pace *p, double tokens)
{
  p->chunk = tokens;
  p->whole_chunk = tokens > 1 ? (uint32_t)tokens : 1;
}

int accelgen_pace_init(struct accelgen_pace *p, const struct accelgen_params *params)
{
  uint32_t window = (uint32_t)params->t_max_window;
  *p = (struct accelgen_pace){.window = window};
  p->durations = calloc(window, sizeof *p->durations);
  p->candidates = calloc(window, sizeof *p->candidates);
  p->s_pf = params->s_pf != LLS_NEVER ? (uint32_t)params->s_pf : PIVOT_UNKNOWN;
  p->t_pf = params->t_pf != LLS_NEVER ? params->t_pf : 0;
  set_chunk(p, p->s_pf / 2.0);
  return p->durations != NULL && p->candidates != NULL ? 0 : -ENOMEM;
}

void accelgen_pace_free(struct accelgen_pace *p)
{
  free(p->durations);
  free(p->candidates);
}

/* ---- the pivot --------------------------------------------------------------------- */

static double throughput(const struct lls_cost *cost, uint32_t tokens)
{
  int64_t ns = cost->prefill_ns(cost->context, tokens, 0);
  return ns > 0 ? tokens / (double)ns : 0;
}

static uint32_t pivot(const struct lls_cost *cost, uint32_t max_tokens)
{
  uint32_t most = max_tokens < PIVOT_MOST ? max_tokens : PIVOT_MOST, at = PIVOT_STEP;
  double best = 0;
  for (uint32_t tokens = PIVOT_STEP; tokens <= most; tokens += PIVOT_STEP)
    best = fmax(best, throughput(cost, tokens));
  while (at + PIVOT_STEP <= most && throughput(cost, at) < saturated * best)
    at += PIVOT_STEP;
  return at < most ? at : most;
}

bool accelgen_pace_measure(struct accelgen_pace *p, const struct accelgen_params *params,
                           const struct lls_cost *cost, uint32_t max_tokens)
{
  uint32_t s_pf = p->s_pf;
  if (cost->prefill_ns(cost->context, PIVOT_STEP, 0) <= 0)
    return false;
  if (params->s_pf == LLS_NEVER)
    p->s_pf = pivot(cost, max_tokens);
  if (params->t_pf == LLS_NEVER)
    p->t_pf = cost->prefill_ns(cost->context, p->s_pf, 0);
  if (p->s_pf != s_pf && p->n_steps == 0)
    set_chunk(p, p->s_pf / 2.0);
  return true;
}

/* ---- steps ------------------------------------------------------------------------- */

/* Returns the i-th candidate for T_max: the place of a duration that no later one
 * exceeds. The oldest, and longest, is first. */
static uint32_t *candidate(struct accelgen_pace *p, uint32_t i)
{
  return &p->candidates[(p->first + i) % p->window];
}

void accelgen_pace_step(struct accelgen_pace *p, int64_t duration_ns)
{
  uint32_t place = (uint32_t)(p->n_steps++ % p->window);
  if (p->n_candidates > 0 && *candidate(p, 0) == place) {
    p->first = (p->first + 1) % p->window;
    p->n_candidates--;
  }
  while (p->n_candidates > 0 &&
         p->durations[*candidate(p, p->n_candidates - 1)] <= duration_ns)
    p->n_candidates--;
  LLS_POL_CHECK(p->n_candidates < p->window);
  p->durations[place] = duration_ns;
  *candidate(p, p->n_candidates++) = place;
}

void accelgen_pace_chunk(struct accelgen_pace *p, double weight, uint32_t tokens)
{
  set_chunk(p, p->chunk + weight * (tokens - p->chunk));
}

int64_t accelgen_longest_step(const struct accelgen_pace *p)
{
  if (p->n_steps < FEW_STEPS)
    return p->t_pf;
  LLS_POL_CHECK(p->n_candidates > 0);
  return p->durations[p->candidates[p->first]];
}

/* ---- preemption -------------------------------------------------------------------- */

/* P and P_max are estimated with prior values of 0.01 and 1 s, which weigh as much as a
 * hundred tokens. */
double accelgen_pause(const struct accelgen_pace *p, const struct accelgen_params *params)
{
  double often = isnan(params->p_preempt)
                     ? (1 + (double)p->preempted) / (100 + (double)p->decodes)
                     : params->p_preempt;
  double longest = (double)(params->p_max != LLS_NEVER ? params->p_max
                            : p->longest_pause > 0     ? p->longest_pause
                                                       : LLS_NS_PER_S);
  return often * longest;
}
