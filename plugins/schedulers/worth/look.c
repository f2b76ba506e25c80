/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worth and the cost of each request. Its worth per time is its slowdown so far,
 * weighed by its class and priority: (waited + size) / size, the highest response ratio
 * next of Brinch Hansen, which is shortest first among new requests and lets no request
 * starve. Both the cost and the answer's own time measure a wait, so both ratios count:
 * waited / cost + waited / time of the answer.
 */
#include "worth.h"

#include <math.h>

/* Most waiting requests that a plan considers (ends.h), in addition to those in urgent.h.
 * 4,096 took four times as long, most of an overloaded simulation, and kept fewer
 * deadlines: among more requests, more are short and late and pass those in time. */
enum { LOOK = 1024 };

static const double best_effort = 0.1; /* weight of that class */

bool worth_best_effort(const struct lls_request *r)
{
  return r->request_class == LLS_CLASS_BEST_EFFORT;
}

static double weight_of(const struct lls_request *r)
{
  int32_t p = r->priority < -16 ? -16 : r->priority > 16 ? 16 : r->priority;
  return (p == 0 ? 1 : exp2(-p)) * (worth_best_effort(r) ? best_effort : 1);
}

/* ---- deadlines --------------------------------------------------------------------- */

static int64_t asked_gap(const struct lls_request *r)
{
  return r->slo.tbt_ns != LLS_NEVER ? r->slo.tbt_ns : r->slo.tpot_ns;
}

int64_t worth_gap(const struct worth *w, const struct lls_request *r)
{
  int64_t asked = asked_gap(r), usual = w->usual_gap;
  if (worth_best_effort(r) && asked == LLS_NEVER)
    return 4 * usual;
  if (asked == LLS_NEVER)
    return usual;
  return w->jobs[r->slot].lost && asked < usual ? usual : asked;
}

bool worth_owed(const struct lls_request *r)
{
  return asked_gap(r) != LLS_NEVER || r->slo.completion_ns != LLS_NEVER;
}

static bool owed_stream(const struct lls_request *r)
{
  return worth_owed(r) && !worth_best_effort(r);
}

/* Returns when the request's next token is due. A preempted stream with a TBT limit or
 * an end is due before it has stood still for max_stall; other ones wait with all
 * requests until batch.c readmits them. */
static int64_t due_of(const struct worth *w, const struct lls_request *r, double left)
{
  int64_t due = INT64_MAX;
  if (r->generated_tokens > 0 && owed_stream(r))
    due = r->last_token_ns + w->params.max_stall / 4;
  if (r->generated_tokens == 0 && r->slo.ttft_ns != LLS_NEVER)
    due = lls_time_after(r->arrival_ns, r->slo.ttft_ns);
  if (r->slo.completion_ns != LLS_NEVER) {
    int64_t end = lls_time_after(r->arrival_ns, r->slo.completion_ns);
    end -= (int64_t)(left * w->learned.step_ns);
    due = end < due ? end : due;
  }
  return due;
}

/* Returns a request's level in tenths of a priority, the least first; best effort is
 * 3.3 priorities after the other classes. */
static int32_t level_of(const struct lls_request *r)
{
  int32_t p = r->priority < -16 ? -16 : r->priority > 16 ? 16 : r->priority;
  int32_t level = 10 * p + (worth_best_effort(r) ? 33 : 0);
  return level < 33 ? level : LLS_POL_URGENT_ORDINARY;
}

/* Notes an arrival with its deadline itself, not with the time at which its prompt must
 * begin: that is estimated again in each plan, and a deadline that seems lost now may
 * be met by the next estimate. */
void worth_arrived(struct worth *w, const struct lls_request *r)
{
  lls_pol_urgent_arrived(&w->urgent, r, due_of(w, r, 0), level_of(r));
}

/* Returns the time by which a request is planned early. Its answer may be longer than
 * expected, by three times the mean error but within max_new_tokens, and its steps may
 * take half as long again as they have so far. */
static int64_t caution_of(const struct worth *w, const struct lls_request *r, double left)
{
  double most = (double)r->max_new_tokens - r->generated_tokens - left;
  double more = 3 * w->learned.error;
  more = fmin(more, fmax(most, 0));
  return (int64_t)((more + (left + more) / 2) * w->learned.step_ns);
}

/* ---- sizes ------------------------------------------------------------------------- */

/* Returns the time to compute again what others hold of the prompt, if it leaves before
 * the request has begun: it waits for reuse, and its memory is given to others. What the
 * host has then is not computed again. */
static double loss_of(const struct worth *w, const struct lls_request *r,
                      uint32_t pending)
{
  uint32_t all = lls_request_pending(r);
  double prefix = r->cached_tokens == 0 && all > pending ? all - pending : 0;
  return prefix * (1 - w->stay.on_host) * w->learned.prompt_ns;
}

/*
 * Returns the step time of the prompt, plus its fraction of the memory times the time it
 * holds it, times the memory price. To let a prompt begin whose beginning is there saves
 * the loss of it; otherwise agents that came back waited behind others until they had
 * lost their prefix: the first token of the median turn came after 18 s in place of 8.
 */
static double cost_of(const struct worth *w, const struct lls_request *r,
                      uint32_t pending, double left, uint32_t total_tokens)
{
  const struct worth_learned *l = &w->learned;
  double compute = pending * l->prompt_ns;
  double held = lls_request_length(r) + left / 2;
  double hold = held / total_tokens * (compute + left * l->step_ns);
  double net = fmax(hold - loss_of(w, r, pending), 0);
  return fmax(compute + l->memory_price * net, 1);
}

/*
 * A wait is weighed by both cost and answer: 1 / size = 1 / cost + 1 / time of the
 * answer. By the cost alone, a request with an answer of one token after a prompt of
 * 4,700 that had missed its deadline waited 27 s, 27,000 times its own time, and four
 * such requests caused most of the mean latency of 400. No user waits for a best-effort
 * answer: only its cost counts.
 */
static double size_of(const struct worth *w, const struct lls_request *r, double cost,
                      double left)
{
  double own = left * w->learned.step_ns;
  return own > 0 && !worth_best_effort(r) ? cost * own / (cost + own) : cost;
}

static uint32_t look_up(struct worth *w, const struct lls_step_view *v,
                        const struct lls_request *r)
{
  struct lls_prefix p = {.size = sizeof p};
  if (v->cache->prefix_info(v->cache->context, r, &p) < 0)
    return 0;
  worth_stay_found(w, r, &p);
  return p.tokens;
}

/* Returns the tokens still to compute. The cached prefix of a waiting prompt is looked
 * up only once: looking up all prompts in every plan would take longer than the rest.
 * It is looked up again when the prompt's turn comes (batch.c). */
static uint32_t pending_of(struct worth *w, const struct lls_step_view *v,
                           const struct lls_request *r)
{
  struct worth_job *job = &w->jobs[r->slot];
  uint32_t pending = lls_request_pending(r);
  if (r->cached_tokens > 0)
    return pending;
  if (job->prefix == UINT32_MAX)
    job->prefix = look_up(w, v, r);
  return job->prefix < pending ? pending - job->prefix : 1;
}

static void add(struct worth *w, const struct lls_step_view *v,
                const struct lls_request *r, uint32_t total_tokens)
{
  struct worth_candidate *c = &w->order.all[w->order.n++];
  double left = worth_left(&w->learned, r);
  *c = (struct worth_candidate){.request = r,
                                .due = LLS_NEVER,
                                .pending = pending_of(w, v, r),
                                .started = r->state == LLS_PREFILLING,
                                .stream = r->generated_tokens > 0,
                                .best = worth_best_effort(r)};
  c->time = (int64_t)(c->pending * w->learned.prompt_ns) + 1;
  c->memory = c->started ? 0 : lls_request_length(r) + left / 2;
  c->seats = !c->started;
  c->stays = c->time + (int64_t)(left * w->learned.step_ns);
  double size = size_of(w, r, cost_of(w, r, c->pending, left, total_tokens), left);
  int64_t due = due_of(w, r, left);
  int64_t soonest = v->now_ns + c->time;
  if (due != INT64_MAX && due >= soonest)
    c->due = due;
  if (c->stream && owed_stream(r) && c->due == LLS_NEVER)
    /* the stream has stood still too long: it is due at once */
    c->due = soonest + c->time;
  if (c->due != LLS_NEVER && r->slo.completion_ns != LLS_NEVER)
    c->caution = caution_of(w, r, left);
  double dear = 1 + w->params.fairness * worth_excess(&w->learned, r->tenant);
  double weight = weight_of(r) / dear;
  c->dear = c->stream ? 0 : size / weight;
  c->density = weight * ((double)(v->now_ns - r->queue_enter_ns) + size) / size;
}

static void add_list(struct worth *w, const struct lls_step_view *v,
                     const struct lls_request *const *list, uint32_t n,
                     uint32_t total_tokens)
{
  for (uint32_t i = 0; i < n; i++) {
    if (i + 4 < n) {
      __builtin_prefetch(&list[i + 4]->slot);
      __builtin_prefetch(&list[i + 4]->slo);
    }
    add(w, v, list[i], total_tokens);
  }
}

/* Returns the tokens held by best effort, which gives its memory to requests that are
 * in time. */
static double held_by_best_effort(const struct lls_step_view *v)
{
  double tokens = 0;
  for (uint32_t i = 0; i < v->n_running; i++)
    tokens += worth_best_effort(v->running[i]) ? v->running[i]->cached_tokens : 0;
  return tokens;
}

/* Sets the free seats of the batch, and the rate at which seats become free; see
 * set_memory. Seats of best-effort requests count as free. */
static void set_seats(struct worth *w, const struct lls_step_view *v)
{
  const struct worth_learned *l = &w->learned;
  uint32_t taken = 0;
  for (uint32_t i = 0; i < v->n_running; i++)
    taken += !worth_best_effort(v->running[i]);
  double usual = v->max_sequences / (l->output * l->step_ns + 1e6);
  w->order.closed = v->n_running >= v->max_sequences;
  w->order.seats = (double)v->max_sequences - taken;
  w->order.seats_per_ns = l->freed_ns > 1e9 ? l->ended / l->freed_ns : usual;
  if (w->order.seats_per_ns < usual / 10)
    w->order.seats_per_ns = usual / 10;
}

/* Sets the free memory, and the rate at which memory becomes free: the recent rate, or,
 * at first, the rate if answers of the usual length held all of it. */
static void set_memory(struct worth *w, const struct lls_step_view *v,
                       uint32_t total_tokens)
{
  const struct worth_learned *l = &w->learned;
  struct lls_capacity capacity = {.size = sizeof capacity};
  v->cache->capacity(v->cache->context, LLS_TIER_DEVICE, &capacity);
  w->order.free = lls_pol_fit_tokens(&w->fit, capacity.free_units);
  w->order.free += held_by_best_effort(v) - l->headroom * w->n_owed;
  double usual = total_tokens / (l->output * l->step_ns + 1e6);
  w->order.freed_per_ns = l->freed_ns > 1e9 ? l->freed / l->freed_ns : usual;
  if (w->order.freed_per_ns < usual / 10)
    w->order.freed_per_ns = usual / 10;
}

void worth_look(struct worth *w, const struct lls_step_view *v, uint32_t total_tokens)
{
  w->order.n = 0;
  for (uint32_t i = 0; i < v->n_running; i++)
    if (v->running[i]->state != LLS_DECODING)
      add(w, v, v->running[i], total_tokens);
  add_list(w, v, v->preempted, v->n_preempted, total_tokens);
  struct lls_pol_ends e = lls_pol_ends_of(&w->dropped, &w->urgent, v, LOOK);
  add_list(w, v, e.first, e.n_first, total_tokens);
  add_list(w, v, e.between, e.n_between, total_tokens);
  add_list(w, v, e.last, e.n_last, total_tokens);
  set_memory(w, v, total_tokens);
  set_seats(w, v);
  w->order.steps_ns = w->room.within_ns != LLS_NEVER ? 2 * w->room.within_ns : 0;
  w->order.more = w->urgent.due.far.n > 0;
  worth_keep(&w->order, v->now_ns);
}
