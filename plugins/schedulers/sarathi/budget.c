/* SPDX-License-Identifier: Apache-2.0 */
/* See budget.h. */
#include "budget.h"

#include <llmserve/policy/number.h>

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

/* True if even the shortest step, of one stream, takes longer than the deadline. */
static bool is_hopeless(const struct budget *b, const struct lls_cost *cost,
                        uint32_t decodes)
{
  uint32_t least = UINT32_MAX;
  struct lls_pol_room one;
  for (uint32_t i = 0; i < decodes; i++)
    least = lls_pol_min(least, b->decodes[i]);
  lls_pol_room_begin(&one, cost, &least, 1);
  return decodes > 0 && lls_pol_room_ns(&one, 0, 0) > b->params->slo;
}

/* Returns the least budget for prompts: 0 with decodes, which may be late on their own,
 * so that prompts wait until some of them have ended; GRAIN without decodes, or nothing
 * would ever run. */
static uint32_t least_of(const struct budget *b)
{
  return b->room.n_decodes > 0 || b->used > GRAIN ? 0 : GRAIN - b->used;
}

/*
 * Returns the largest C whose estimated step is within the deadline, if its prompt tokens
 * have no context: each chunk is priced with its own context when it is planned.
 */
static uint32_t within_slo(struct budget *b, const struct lls_step_view *view)
{
  uint32_t low = least_of(b), used = b->used;
  uint32_t high = view->max_tokens > used ? view->max_tokens - used : 0;
  b->room.within_ns = lls_pol_margin_within(&b->margin, b->params->slo);
  if (high < low)
    return used + high;
  return used + lls_pol_room_tokens(&b->room, 0, low, high);
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
  lls_pol_room_begin(&b->room, cost, b->decodes, n);
  if (params->slo > 0 && lls_pol_room_known(cost) && !is_hopeless(b, cost, n))
    b->most = within_slo(b, view);
}

static uint32_t context_of(const struct lls_request *r, uint32_t pending)
{
  return lls_request_length(r) - pending;
}

uint32_t budget_left(struct budget *b, const struct lls_request *r, uint32_t pending)
{
  if (b->room.within_ns != LLS_NEVER)
    return lls_pol_room_tokens(&b->room, context_of(r, pending), least_of(b), pending);
  bool staged = b->params->dynamic_chunks && b->params->slo == 0;
  uint32_t most = staged ? stage_chunk(b->params, r->cached_tokens) : b->most;
  return b->used < most ? most - b->used : 0;
}

void budget_take(struct budget *b, const struct lls_request *r, uint32_t pending,
                 uint32_t tokens)
{
  b->used += tokens;
  lls_pol_room_add(&b->room, context_of(r, pending), tokens);
}
