/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token budget of a step (section 4.2, equation 6): as many tokens as keep its time
 * within the tightest deadline of the requests in it.
 */
#include "accelgen.h"

#include <llmserve/policy/deadline.h>

#define MOST_PIVOTS 4 /* the largest budget, in pivots */

/* In proportion to the pivot, of which the time is known. 1e-9: 0.1875 s / 0.16 s of 768
 * is 900, not 899. */
uint32_t accelgen_budget(const struct accelgen_pace *p,
                         const struct accelgen_params *params, int64_t slo_min_ns)
{
  double s_max = MOST_PIVOTS * (double)p->s_pf;
  double tokens = p->s_pf;
  if (slo_min_ns != LLS_NEVER && p->t_pf > 0)
    tokens = p->s_pf * ((double)slo_min_ns / (double)p->t_pf) + 1e-9;
  tokens = tokens < s_max ? tokens : s_max;
  return tokens > (double)params->s_min ? (uint32_t)tokens : (uint32_t)params->s_min;
}

/* The time that the head of the queue leaves the step: its deadline, or, if it takes
 * several steps or is part of a longer deadline, an equal share of the time it has. One
 * that is late already, and demoted for it, asks for nothing. */
static int64_t slo_of_head(const struct accelgen *a)
{
  const struct accelgen_candidate *c = &a->candidates[a->head];
  if (a->head == a->n_all || c->late || !a->params.order)
    return LLS_NEVER;
  const struct lls_request *r = c->request;
  uint32_t n = accelgen_n_chunks(&a->pace, c->tokens);
  if (n > 1 || a->jobs[r->slot].is_jct) {
    int64_t share = c->slack / n + a->longest_step;
    return share > 0 ? share : 0;
  }
  return r->generated_tokens > 0 ? accelgen_tbt_slo(a, r) : accelgen_ttft_slo(a, r);
}

static int64_t slo_min(const struct accelgen *a)
{
  int64_t head = slo_of_head(a);
  if (a->slo_min == LLS_NEVER || head == LLS_NEVER)
    return a->slo_min == LLS_NEVER ? head : a->slo_min;
  return head < a->slo_min ? head : a->slo_min;
}

/* Below the pivot a step's time does not shrink with its tokens, and above it contexts
 * count too: fewer than the formula says, where the cost model says that the decodes and
 * one chunk would take longer. */
static uint32_t within(struct accelgen *a, uint32_t tokens, int64_t slo_ns)
{
  uint32_t least = (uint32_t)a->params.s_min, context = 0;
  for (uint32_t i = 0; i < a->n_decodes; i++)
    a->contexts[i] = a->candidates[i].request->cached_tokens;
  for (uint32_t i = a->n_decodes; i < a->n_all && context == 0; i++)
    if (a->candidates[i].started)
      context = a->candidates[i].request->cached_tokens;
  uint32_t low = least > a->n_decodes ? least - a->n_decodes : 0;
  uint32_t high = tokens > a->n_decodes ? tokens - a->n_decodes : 0;
  int64_t within_ns = lls_pol_margin_within(&a->margin, slo_ns);
  const struct lls_pol_deadline_step step = {
      .context = context, .n_decodes = a->n_decodes, .decodes = a->contexts};
  if (high <= low)
    return tokens;
  return a->n_decodes +
         lls_pol_deadline_tokens(a->base.host->cost, &step, low, high, within_ns);
}

uint32_t accelgen_step_budget(struct accelgen *a, const struct lls_step_view *view)
{
  int64_t slo = slo_min(a);
  uint32_t tokens = a->pace.s_pf;
  lls_pol_margin_begin(&a->margin, a->params.margin);
  if (a->params.chunk)
    tokens = accelgen_budget(&a->pace, &a->params, slo);
  if (a->params.chunk && a->params.budget == ACCELGEN_MODEL && slo != LLS_NEVER &&
      a->pace.t_pf > 0)
    tokens = within(a, tokens, slo);
  tokens = lls_pol_min(tokens, view->max_tokens);
  a->pace.room = tokens > a->n_decodes ? tokens - a->n_decodes : 0;
  return tokens;
}
