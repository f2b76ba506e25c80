/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many tokens of prompts a step has time for: no stream waits longer for its next
 * token than it has asked for, nor than `gap`, as long as the decodes alone leave time
 * for it. The model is asked for the step as it is so far and one chunk more: one chunk
 * that stands for all, with no context, was late in four steps of five where prompts came
 * behind prefixes. What a token of a prompt costs follows from the step filled with one.
 */
#include "worth.h"

enum {
  UNKNOWN = 512,    /* tokens of a step as long as there is no model */
  LEAST = 32,       /* tokens of any step */
  SHORT_STEPS = 10, /* that prompts may take before steps become longer */
};

#define AIM   0.96 /* part of a gap that a step is filled to */
#define SHORT 0.4  /* part of that as long as there is time for it */

/* The tightest gap of the streams on the device; their contexts. */
static int64_t tightest(struct worth *w, const struct lls_step_view *v)
{
  int64_t least = w->params.gap;
  w->n_decodes = w->n_owed = w->n_growing = 0;
  for (uint32_t i = 0; i < v->n_running; i++) {
    const struct lls_request *r = v->running[i];
    if (r->state != LLS_DECODING)
      continue;
    int64_t gap = worth_gap(w, r);
    w->contexts[w->n_decodes++] = r->cached_tokens;
    w->n_owed += worth_owed(r);
    least = gap < least ? gap : least;
  }
  return least;
}

static int64_t step_ns(const struct worth *w, uint32_t n_chunks)
{
  const struct lls_cost *cost = w->base.host->cost;
  const struct lls_iteration_shape shape = {.size = sizeof shape,
                                            .chunks = w->chunks,
                                            .n_chunks = n_chunks,
                                            .n_decodes = w->n_decodes,
                                            .decode_context = w->contexts};
  return cost->iteration_ns(cost->context, &shape);
}

/* The time of the step with so many tokens more behind the context. */
static int64_t with_chunk(struct worth *w, uint32_t context, uint32_t tokens)
{
  w->chunks[w->n_chunks] = (struct lls_chunk_shape){.tokens = tokens, .context = context};
  return step_ns(w, tokens > 0 ? w->n_chunks + 1 : w->n_chunks);
}

/* Steps are nearly linear in their tokens: interpolation asks the model six times at
 * most, where halving asked it thirteen times, most of the time of a plan. */
static uint32_t interpolate(struct worth *w, uint32_t context, uint32_t low,
                            uint32_t high, int64_t high_ns)
{
  int64_t low_ns = with_chunk(w, context, low);
  for (int i = 0; i < 4 && low_ns < w->within_ns && high - low > 1 + low / 64; i++) {
    double part = (double)(w->within_ns - low_ns) / (double)(high_ns - low_ns);
    uint32_t middle = low + (uint32_t)(part * (high - low));
    middle = middle <= low ? low + 1 : middle >= high ? high - 1 : middle;
    int64_t ns = with_chunk(w, context, middle);
    bool fits = ns <= w->within_ns;
    *(fits ? &low : &high) = middle;
    *(fits ? &low_ns : &high_ns) = ns;
  }
  return low;
}

uint32_t worth_room(struct worth *w, uint32_t context, uint32_t most)
{
  uint32_t low = w->n_decodes + w->n_chunks > 0 ? 0 : LEAST;
  if (w->n_chunks == WORTH_CHUNKS)
    return 0;
  if (w->within_ns == LLS_NEVER)
    return w->unknown;
  if (most <= low)
    return most;
  int64_t ns = with_chunk(w, context, most);
  return ns <= w->within_ns ? most : interpolate(w, context, low, most, ns);
}

void worth_has_chunk(struct worth *w, uint32_t context, uint32_t tokens)
{
  if (w->n_chunks < WORTH_CHUNKS)
    w->chunks[w->n_chunks++] = (struct lls_chunk_shape){tokens, context};
  w->unknown -= lls_pol_min(w->unknown, tokens);
}

/* True if so many tokens are some, and enough for all that waits. */
static bool waits_less(const struct lls_step_view *v, uint64_t tokens)
{
  uint64_t pending = v->n_preempted; /* each has one at least */
  for (uint32_t i = 0; i < v->n_running; i++)
    if (v->running[i]->state != LLS_DECODING)
      pending += lls_request_pending(v->running[i]);
  for (uint32_t i = 0; i < v->n_waiting && pending <= tokens; i++)
    pending += lls_request_pending(v->waiting[i]);
  return pending <= tokens && tokens > 0;
}

/* Tokens that prompts may have in this step. As long as nobody asked for a shorter gap
 * than the usual one and little waits, a part of that: streams end sooner, and make
 * room, for first tokens that come a step later. Where there is no stream nobody gains
 * (1.0 of AccelGen's load kept .9 points less). */
static uint32_t set_time(struct worth *w, const struct lls_step_view *v, int64_t gap,
                         uint32_t most)
{
  int64_t ends_ns = (int64_t)(AIM * (double)gap);
  if (gap == w->params.gap && w->n_decodes > 0) {
    w->within_ns = lls_pol_margin_within(&w->margin, (int64_t)(SHORT * ends_ns));
    uint32_t tokens = worth_room(w, 0, most);
    if (waits_less(v, (uint64_t)SHORT_STEPS * tokens))
      return tokens;
  }
  w->within_ns = lls_pol_margin_within(&w->margin, ends_ns);
  return worth_room(w, 0, most);
}

void worth_set_budget(struct worth *w, const struct lls_step_view *v)
{
  const struct lls_cost *cost = w->base.host->cost;
  int64_t gap = tightest(w, v), alone = 0;
  uint32_t most = v->max_tokens > w->n_decodes ? v->max_tokens - w->n_decodes : 0;
  lls_pol_margin_begin(&w->margin, w->params.margin);
  w->n_chunks = 0;
  w->unknown = lls_pol_min(most, UNKNOWN);
  w->within_ns = LLS_NEVER;
  if (cost->prefill_ns(cost->context, LEAST, 0) == LLS_NEVER)
    return;
  if (w->n_decodes > 0)
    alone = step_ns(w, 0);
  if (alone > gap) /* the gap is lost: as much time for prompts as for the decodes */
    gap = 2 * alone;
  uint32_t tokens = set_time(w, v, gap, most);
  w->chunks[0] = (struct lls_chunk_shape){.tokens = tokens};
  if (tokens >= LEAST)
    w->learned.prompt_ns = (double)step_ns(w, 1) / tokens;
}
