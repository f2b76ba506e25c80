/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token budget of a step (section 4.2, equation 6): as many tokens as keep its time
 * within the tightest deadline of the requests in it.
 */
#include "accelgen.h"

#include <llmserve/policy/room.h>

#define MOST_PIVOTS 4 /* the largest budget, in pivots */

/* The budget is proportional to the pivot, whose time is known. 1e-9: 0.1875 s / 0.16 s
 * of 768 is 900, not 899. */
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

/* ---- deadlines that bind the step -------------------------------------------------- */

static uint32_t context_of(const struct accelgen_candidate *c)
{
  return lls_request_length(c->request) - c->tokens;
}

/* True if the request misses its deadline even if it runs alone. */
static bool is_hopeless(const struct accelgen *a, const struct accelgen_candidate *c,
                        int64_t slo_ns)
{
  if (!a->params.fence || a->pace.t_pf <= 0 || c->decode)
    return slo_ns < a->least_step;
  const struct lls_cost *cost = a->base.host->cost;
  int64_t alone_ns = cost->prefill_ns(cost->context, c->tokens, context_of(c));
  return alone_ns != LLS_NEVER && slo_ns < alone_ns;
}

/* Returns the step time that the deadline of the head of the queue allows: the whole
 * time left, or, if the request takes several steps or is part of a longer deadline, an
 * equal share of it. A late request does not limit the step. */
static int64_t slo_of_head(const struct accelgen *a)
{
  const struct accelgen_candidate *c = &a->candidates[a->head];
  if (a->head == a->n_all || c->late || !a->params.order)
    return LLS_NEVER;
  const struct lls_request *r = c->request;
  uint32_t n = accelgen_n_chunks(&a->pace, c->tokens);
  if (n > 1 || a->jobs[r->slot].is_jct) {
    int64_t share = c->slack / n + a->longest_step;
    share = share > 0 ? share : 0;
    return share < a->least_step ? LLS_NEVER : share;
  }
  int64_t slo =
      r->generated_tokens > 0 ? accelgen_tbt_slo(a, r) : accelgen_ttft_slo(a, r);
  return is_hopeless(a, c, slo) ? LLS_NEVER : slo;
}

static int64_t slo_min(const struct accelgen *a)
{
  int64_t head = slo_of_head(a);
  if (a->slo_min == LLS_NEVER || head == LLS_NEVER)
    return a->slo_min == LLS_NEVER ? head : a->slo_min;
  return head < a->slo_min ? head : a->slo_min;
}

/* ---- tokens ------------------------------------------------------------------------ */

/* Lowers the budget where the cost model estimates a longer time than the formula:
 * below the pivot a step's time does not shrink with its tokens, and above it contexts
 * count too. The budget is for a chunk without context; a chunk is priced with its
 * context when it is planned. */
static uint32_t within(struct accelgen *a, uint32_t tokens, int64_t slo_ns)
{
  uint32_t least = (uint32_t)a->params.s_min;
  uint32_t low = least > a->n_decodes ? least - a->n_decodes : 0;
  uint32_t high = tokens > a->n_decodes ? tokens - a->n_decodes : 0;
  a->room.within_ns = lls_pol_margin_within(&a->margin, slo_ns);
  if (high <= low)
    return tokens;
  return a->n_decodes + lls_pol_room_tokens(&a->room, 0, low, high);
}

static void begin_room(struct accelgen *a)
{
  for (uint32_t i = 0; i < a->n_decodes; i++)
    a->contexts[i] = a->candidates[i].request->cached_tokens;
  lls_pol_room_begin(&a->room, a->base.host->cost, a->contexts, a->n_decodes);
}

uint32_t accelgen_step_budget(struct accelgen *a, const struct lls_step_view *view)
{
  int64_t slo = slo_min(a);
  uint32_t tokens = a->pace.s_pf;
  lls_pol_margin_begin(&a->margin, a->params.margin);
  a->room.within_ns = LLS_NEVER;
  if (a->params.chunk)
    tokens = accelgen_budget(&a->pace, &a->params, slo);
  if (a->params.chunk && a->params.budget == ACCELGEN_MODEL && slo != LLS_NEVER &&
      a->pace.t_pf > 0) {
    begin_room(a);
    tokens = within(a, tokens, slo);
  }
  tokens = lls_pol_min(tokens, view->max_tokens);
  a->pace.room = a->params.one_step && tokens > a->n_decodes ? tokens - a->n_decodes : 0;
  return tokens;
}

uint32_t accelgen_in_time(struct accelgen *a, const struct lls_pol_step *s,
                          const struct accelgen_candidate *c, uint32_t tokens)
{
  uint32_t used = a->budget > s->tokens ? a->budget - s->tokens : 0;
  uint32_t least = (uint32_t)a->params.s_min;
  if (a->room.within_ns == LLS_NEVER)
    return tokens;
  return lls_pol_room_tokens(&a->room, context_of(c), least > used ? least - used : 0,
                             tokens);
}
