/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many prompt tokens a step has time for. No stream waits longer for its next token
 * than its TBT limit or the usual gap, unless the decodes alone take longer
 * (llmserve/policy/room.h). The cost of a prompt token is the time of a step filled with
 * one prompt, divided by its tokens.
 */
#include "worth.h"

#include <math.h>

enum {
  UNKNOWN = 512, /* tokens of a step as long as there is no model */
  LEAST = 32,    /* tokens of any step */
  PROMPTS = 16,  /* most prompts in a step */
  SHORT_STEPS =
      10, /* with fewer waiting prompts than this many steps take, steps are short */
};

#define AIM   0.96 /* fraction of a gap that a step may take */
#define SHORT 0.4  /* fraction of that for short steps, while few tokens wait */

/* Adds the contexts of the streams that have a seat in the step, either best effort or
 * others. The device may hold more streams than a step runs. When all of them were
 * counted, a step of 64 seats had room for 30 prompt tokens where it had time for
 * 1,500. */
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

/* Returns the time of the shortest step of this device: one stream, the one with the
 * least context. */
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
  if (w->usual_gap >= shortest)
    least = w->usual_gap;
  for (uint32_t i = 0; i < v->n_running; i++) {
    if (v->running[i]->state != LLS_DECODING)
      continue;
    int64_t gap = worth_gap(w, v->running[i]);
    least = gap >= shortest && gap < least ? gap : least;
  }
  return least == none ? LLS_NEVER : least;
}

/*
 * Returns the gap where requests name none: `gap`, or the time of a step with `chunk`
 * tokens, if that is longer; like sarathi's, its decodes are among them. On two cores,
 * where 16 streams took 120 ms and a prompt token 2.7, steps of 200 ms had 26 prompt
 * tokens: .81 of the throughput of sarathi's steps with 512, and first tokens 2.5 times
 * later.
 */
static int64_t usual_gap(struct worth *w)
{
  uint32_t most = (uint32_t)w->params.chunk;
  uint32_t tokens = most > w->n_decodes ? most - w->n_decodes : 0;
  int64_t chunk = lls_pol_room_ns(&w->room, 0, tokens);
  chunk = (int64_t)ceil((double)chunk / AIM);
  return chunk > w->params.gap ? chunk : w->params.gap;
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

/* True if `tokens` is not 0 and suffices for all tokens that requests still have to
 * compute. */
static bool waits_less(const struct lls_step_view *v, uint64_t tokens)
{
  uint64_t pending = v->n_preempted; /* each preempted request has at least one token */
  for (uint32_t i = 0; i < v->n_running; i++)
    if (v->running[i]->state != LLS_DECODING)
      pending += lls_request_pending(v->running[i]);
  for (uint32_t i = 0; i < v->n_waiting && pending <= tokens; i++)
    pending += lls_request_pending(v->waiting[i]);
  return pending <= tokens && tokens > 0;
}

/* Sets the time of the step and returns the tokens that prompts may have in it. If no
 * stream has a shorter gap than `gap`, no chunk takes longer, and few tokens wait, the
 * step gets only a fraction of the gap: streams then end sooner and free memory, and
 * first tokens come a step later. Without streams this gains nothing (of AccelGen's load
 * at rate 1.0 it kept 0.9 points fewer deadlines). */
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

/* Sets the time of the step if no gap can be kept: prompts get as much time as the
 * decodes. The margin is ignored, since there is no gap to protect. */
static uint32_t set_time_of_none(struct worth *w, uint32_t most)
{
  w->room.within_ns = 2 * lls_pol_room_ns(&w->room, 0, 0);
  /* the margin learns from this step as well */
  lls_pol_margin_within(&w->margin, w->room.within_ns);
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
  w->usual_gap = w->params.gap;
  if (!lls_pol_room_known(cost))
    return;
  if (w->params.chunk > 0)
    w->usual_gap = usual_gap(w);
  int64_t gap = tightest(w, v);
  uint32_t tokens =
      gap != LLS_NEVER ? set_time(w, v, gap, most) : set_time_of_none(w, most);
  if (tokens >= LEAST)
    w->learned.prompt_ns = (double)lls_pol_room_ns(&w->room, 0, tokens) / tokens;
}
