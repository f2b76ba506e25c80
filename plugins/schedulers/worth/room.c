/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many tokens of prompts a step has time for: no stream waits longer for its next
 * token than it has asked for, nor than `gap`, as long as the decodes alone leave time
 * for it (llmserve/policy/room.h). What a token of a prompt costs follows from the step
 * filled with one.
 */
#include "worth.h"

enum {
  UNKNOWN = 512,    /* tokens of a step as long as there is no model */
  LEAST = 32,       /* tokens of any step */
  PROMPTS = 16,     /* most in a step */
  SHORT_STEPS = 10, /* that prompts may take before steps become longer */
};

#define AIM   0.96 /* part of a gap that a step is filled to */
#define SHORT 0.4  /* part of that as long as there is time for it */

/* Contexts of the streams that have a seat in the step: best effort after the others.
 * There may be more on the device than run: all of them priced in, a step of 64 seats had
 * room for 30 tokens of prompts where it had time for 1,500. */
static void add_streams(struct worth *w, const struct lls_step_view *v, bool best)
{
  for (uint32_t i = 0; i < v->n_running && w->n_decodes < v->max_sequences; i++) {
    const struct lls_request *r = v->running[i];
    if (r->state == LLS_DECODING && worth_best_effort(r) == best)
      w->contexts[w->n_decodes++] = r->cached_tokens;
  }
}

static void count_streams(struct worth *w, const struct lls_step_view *v)
{
  w->n_decodes = w->n_owed = w->n_growing = 0;
  for (uint32_t i = 0; i < v->n_running; i++)
    w->n_owed += v->running[i]->state == LLS_DECODING && worth_owed(v->running[i]);
  add_streams(w, v, false);
  add_streams(w, v, true);
}

/* ---- gaps -------------------------------------------------------------------------- */

/* The time of a step of one stream, the shortest: the device has no shorter one. */
static int64_t least_step_ns(struct worth *w)
{
  uint32_t least = UINT32_MAX;
  struct lls_pol_room one;
  for (uint32_t i = 0; i < w->n_decodes; i++)
    least = lls_pol_min(least, w->contexts[i]);
  lls_pol_room_begin(&one, w->base.host->cost, &least, 1);
  return lls_pol_room_ns(&one, 0, 0);
}

/*
 * Returns the tightest gap that can be kept, over the streams and the usual gap: it can
 * be kept if the device has such short steps and this step's decodes take no longer. A
 * gap that is missed in any case is ignored: one client that requested 1 ms made all
 * prompts wait. LLS_NEVER: none can be kept.
 */
static int64_t tightest(struct worth *w, const struct lls_step_view *v)
{
  int64_t none = INT64_MAX, least = none, shortest = 0;
  if (w->n_decodes > 0) {
    int64_t step = lls_pol_margin_takes(&w->margin, least_step_ns(w));
    int64_t all = lls_pol_room_ns(&w->room, 0, 0);
    step = (int64_t)((double)step / AIM);
    shortest = step > all ? step : all;
  }
  if (w->params.gap >= shortest)
    least = w->params.gap;
  for (uint32_t i = 0; i < v->n_running; i++) {
    if (v->running[i]->state != LLS_DECODING)
      continue;
    int64_t gap = worth_gap(w, v->running[i]);
    least = gap >= shortest && gap < least ? gap : least;
  }
  return least == none ? LLS_NEVER : least;
}

/* ---- the room ---------------------------------------------------------------------- */

uint32_t worth_room(struct worth *w, uint32_t context, uint32_t most)
{
  uint32_t low = w->n_decodes + w->room.n_chunks > 0 ? 0 : LEAST;
  if (w->room.within_ns == LLS_NEVER)
    return w->unknown;
  if (w->room.n_chunks == PROMPTS)
    return 0;
  return lls_pol_room_tokens(&w->room, context, low, most);
}

void worth_has_chunk(struct worth *w, uint32_t context, uint32_t tokens)
{
  lls_pol_room_add(&w->room, context, tokens);
  w->unknown -= lls_pol_min(w->unknown, tokens);
}

/* True if `tokens` is not 0 and suffices for all requests that wait. */
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

/* Tokens that prompts may have in this step. If no stream has a shorter gap than the
 * usual one and few tokens wait, the step gets only a fraction of the gap: streams then
 * end sooner and free memory, for first tokens that come a step later. Without a stream
 * this gains nothing (1.0 of AccelGen's load kept .9 points less). */
static uint32_t set_time(struct worth *w, const struct lls_step_view *v, int64_t gap,
                         uint32_t most)
{
  int64_t ends_ns = (int64_t)(AIM * (double)gap);
  if (gap == w->params.gap && w->n_decodes > 0) {
    w->room.within_ns = lls_pol_margin_within(&w->margin, (int64_t)(SHORT * ends_ns));
    uint32_t tokens = worth_room(w, 0, most);
    if (waits_less(v, (uint64_t)SHORT_STEPS * tokens))
      return tokens;
  }
  w->room.within_ns = lls_pol_margin_within(&w->margin, ends_ns);
  return worth_room(w, 0, most);
}

/* No gap can be kept: as much time for prompts as for the decodes, whatever the margin
 * says of the estimates, which has nothing to protect. */
static uint32_t set_time_of_none(struct worth *w, uint32_t most)
{
  w->room.within_ns = 2 * lls_pol_room_ns(&w->room, 0, 0);
  lls_pol_margin_within(&w->margin, w->room.within_ns); /* it learns from this step too */
  return worth_room(w, 0, most);
}

void worth_set_budget(struct worth *w, const struct lls_step_view *v)
{
  const struct lls_cost *cost = w->base.host->cost;
  lls_pol_margin_begin(&w->margin, w->params.margin);
  count_streams(w, v);
  lls_pol_room_begin(&w->room, cost, w->contexts, w->n_decodes);
  uint32_t most = v->max_tokens > w->n_decodes ? v->max_tokens - w->n_decodes : 0;
  w->unknown = lls_pol_min(most, UNKNOWN);
  if (!lls_pol_room_known(cost))
    return;
  int64_t gap = tightest(w, v);
  uint32_t tokens =
      gap != LLS_NEVER ? set_time(w, v, gap, most) : set_time_of_none(w, most);
  if (tokens >= LEAST)
    w->learned.prompt_ns = (double)lls_pol_room_ns(&w->room, 0, tokens) / tokens;
}
