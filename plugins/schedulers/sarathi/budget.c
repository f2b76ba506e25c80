/* SPDX-License-Identifier: Apache-2.0 */
/* See budget.h. */
#include "budget.h"

#include <llmserve/policy/deadline.h>

#include <errno.h>
#include <stdlib.h>

#define GRAIN 32 /* chunks are multiples of it; no deadline asks for less */

int budget_init(struct budget *b, const struct lls_engine_caps *engine)
{
  b->decodes = calloc(engine->max_requests, sizeof *b->decodes);
  int rc = lls_pol_margin_init(&b->margin, engine->max_sequences);
  return b->decodes != NULL ? rc : -ENOMEM;
}

void budget_free(struct budget *b)
{
  lls_pol_margin_free(&b->margin);
  free(b->decodes);
}

/* ---- a deadline for the step ------------------------------------------------------- */

/* Where the piece that comes first would begin: of a prompt under way, else of a new
 * one. */
static uint32_t first_context(const struct lls_step_view *view)
{
  for (uint32_t i = 0; i < view->n_running; i++)
    if (view->running[i]->state != LLS_DECODING)
      return view->running[i]->cached_tokens;
  return 0;
}

/*
 * The largest C whose modelled step is within the deadline. Decodes that are late by
 * themselves leave nothing to prompts, which wait until some have ended; a step without
 * decodes has GRAIN at least, or nothing would ever run.
 */
static uint32_t within_slo(struct budget *b, const struct lls_cost *cost,
                           const struct lls_step_view *view, uint32_t decodes)
{
  const struct lls_pol_deadline_step step = {
      .context = first_context(view), .n_decodes = decodes, .decodes = b->decodes};
  uint32_t low = decodes > 0 ? 0 : GRAIN;
  uint32_t high = view->max_tokens > decodes ? view->max_tokens - decodes : 0;
  if (high < low)
    return decodes + high;
  int64_t within_ns = lls_pol_margin_within(&b->margin, b->params->slo);
  return decodes + lls_pol_deadline_tokens(cost, &step, low, high, within_ns);
}

/* As long as nothing was measured there is no model: chunk counts. */
static bool knows_times(const struct lls_cost *cost)
{
  return cost->prefill_ns(cost->context, GRAIN, 0) != LLS_NEVER;
}

/* ---- a schedule along the prompt --------------------------------------------------- */

/* chunk_stages sizes, evenly from chunk_high down to chunk_low, rounded to GRAIN. */
static uint32_t stage_chunk(const struct params *p, uint32_t computed)
{
  int64_t stages = p->chunk_stages, low = p->chunk_low, high = p->chunk_high;
  int64_t length = (p->chunk_tokens + stages - 1) / stages, at = computed / length;
  at = at < stages ? at : stages - 1;
  int64_t chunk = stages > 1 ? high - (high - low) * at / (stages - 1) : high;
  return (uint32_t)((chunk + GRAIN / 2) / GRAIN * GRAIN);
}

/* ---- one step ---------------------------------------------------------------------- */

void budget_begin(struct budget *b, const struct params *params,
                  const struct lls_cost *cost, const struct lls_step_view *view)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < view->n_running; i++)
    if (view->running[i]->state == LLS_DECODING)
      b->decodes[n++] = view->running[i]->cached_tokens;
  lls_pol_margin_begin(&b->margin, params->margin);
  b->params = params;
  b->used = n;
  b->most = (uint32_t)params->chunk;
  if (params->slo > 0 && knows_times(cost))
    b->most = within_slo(b, cost, view, n);
}

uint32_t budget_left(const struct budget *b, const struct lls_request *r)
{
  bool staged = b->params->dynamic_chunks && b->params->slo == 0;
  uint32_t most = staged ? stage_chunk(b->params, r->cached_tokens) : b->most;
  return b->used < most ? most - b->used : 0;
}
