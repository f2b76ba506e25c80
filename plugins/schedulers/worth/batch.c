/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch: all streams on the device, then prompts in the order of worth_next while
 * there is time and memory, then best-effort streams, which give their memory to prompts
 * that are in time. A stream is preempted only for the growth of other streams, the last
 * to arrive first. It returns before any new request is admitted that would take the
 * memory it waits for.
 */
#include "worth.h"

#include <llmserve/policy/check.h>

#include <math.h>

enum {
  BRIEF = 8, /* requests that pass one which waits for memory, in a plan */
  AHEAD =
      2, /* times its wait that they may take; of servegen at load 1.3, 1 has a P99
            latency of 1.48 s a token, 2 of 1.31, 4 of 1.41, 8 of 1.46; without: 1.88 */
};

/* ---- who gives way ----------------------------------------------------------------- */

/* Rank of a running request; the largest is preempted first. Best effort precedes other
 * classes, prompts precede streams, streams without a deadline precede those with one. Of
 * streams without a deadline the one with most tokens left, which would hold its memory
 * longest, is first; otherwise the last to arrive. */
static int64_t keeps(const struct worth *w, const struct lls_request *r)
{
  bool prompt = r->generated_tokens == 0, owed = worth_owed(r);
  int64_t group = prompt ? 2 : w->jobs[r->slot].lost || !owed;
  int64_t place = r->arrival_ns;
  group += worth_best_effort(r) ? 3 : 0;
  if (!prompt && !owed)
    place = (int64_t)(1e3 * worth_left(&w->learned, r));
  return group << 58 | (place & ((INT64_C(1) << 58) - 1));
}

static void set_order(struct worth *w, struct lls_pol_step *s)
{
  const struct lls_step_view *v = s->view;
  struct lls_pol_heap *h = &w->victims;
  h->n = 0;
  for (uint32_t i = 0; i < v->n_running; i++)
    h->entries[h->n++] = (struct lls_pol_heap_entry){.key = keeps(w, v->running[i]),
                                                     .tie = v->running[i]->id,
                                                     .item = (void *)v->running[i]};
  lls_pol_heap_build(h);
  for (uint32_t i = 0; i < v->n_running; i++)
    w->running[i] = lls_pol_heap_pop(h).item;
  s->order = w->running;
}

/* ---- streams ----------------------------------------------------------------------- */

static void run_streams(struct worth *w, struct lls_pol_step *s, bool best)
{
  for (uint32_t i = 0; i < s->tail && s->sequences > 0 && s->tokens > 0; i++) {
    const struct lls_request *r = s->order[i];
    struct worth_job *job = &w->jobs[r->slot];
    if (r->state != LLS_DECODING || worth_best_effort(r) != best ||
        job->planned == w->plans)
      continue;
    if (lls_pol_step_decode(s, i) > 0) {
      w->n_growing += worth_owed(r);
      job->planned = w->plans;
    }
  }
}

/* ---- prompts ----------------------------------------------------------------------- */

/* Returns the units that must stay free when a candidate is admitted: the growth of
 * streams that a pause makes late, twice for those on the device; and, if the candidate
 * has no deadline to meet, a fraction for requests that have one. */
static uint32_t spare_units(const struct worth *w, const struct lls_pol_step *s,
                            const struct worth_candidate *c)
{
  double streams = w->n_growing + w->n_owed;
  double blocks = streams * w->learned.headroom / s->cache->block_tokens;
  double spare = blocks * w->fit.growth_units;
  if (c->stream) /* a preempted stream may use all free memory */
    return w->fit.growth_units;
  if (!c->kept)
    spare += w->params.reserve * w->learned.deadlines * s->total_units;
  return spare < s->total_units ? (uint32_t)spare : s->total_units;
}

static bool has_room(const struct worth *w, struct lls_pol_step *s,
                     const struct worth_candidate *c)
{
  struct lls_need need = {.size = sizeof need};
  if (s->runs == 0 && s->view->n_running == 0)
    return true;
  s->cache->need(s->cache->context, c->request, c->pending, LLS_FORM_NONE, &need);
  uint64_t takes = (uint64_t)need.new_units + need.restore_units + spare_units(w, s, c);
  return takes <= lls_pol_step_free_units(s);
}

/* Preempts the last running request for candidate c, if that request is best effort and
 * does not run in this plan. For a best-effort candidate it must also have neither a
 * gap nor an end to lose. */
static bool make_way(struct worth *w, struct lls_pol_step *s,
                     const struct worth_candidate *c)
{
  if (s->tail == 0 || !c->kept)
    return false;
  const struct lls_request *last = s->order[s->tail - 1];
  if (!worth_best_effort(last) || (worth_best_effort(c->request) && worth_owed(last)) ||
      w->jobs[last->slot].planned == w->plans)
    return false;
  if (!lls_pol_step_take_off(s, last))
    return false;
  s->tail--;
  return true;
}

static bool gone(const struct lls_pol_step *s, const struct lls_request *r)
{
  for (uint32_t i = s->tail; i < s->view->n_running; i++)
    if (s->order[i] == r)
      return true;
  return false;
}

static enum lls_pol_step_answer reserve(struct worth *w, struct lls_pol_step *s,
                                        const struct worth_candidate *c)
{
  const struct lls_request *r = c->request;
  if (c->started) {
    uint32_t mark = s->cache->mark(s->cache->context);
    if (gone(s, r))
      return LLS_POL_STEP_REJECTED;
    if (lls_pol_step_reserve(s, r, c->pending) == LLS_RESERVE_OK)
      return LLS_POL_STEP_YES;
    s->cache->rollback(s->cache->context, mark);
    return LLS_POL_STEP_NOT_NOW;
  }
  while (!has_room(w, s, c))
    if (!make_way(w, s, c))
      return LLS_POL_STEP_NOT_NOW;
  uint32_t pending = lls_pol_step_pending(s, r);
  return r->state == LLS_PREEMPTED ? lls_pol_step_bring_back(s, r, pending)
                                   : lls_pol_step_admit(s, r, pending);
}

/* Returns the context of a candidate's next chunk, on which its time depends. Looks the
 * prefix up again, since the index may have changed. */
static uint32_t context_of(struct worth *w, const struct lls_pol_step *s,
                           struct worth_candidate *c)
{
  uint32_t all = lls_request_pending(c->request);
  if (c->request->cached_tokens == 0) {
    c->pending = lls_pol_step_pending(s, c->request);
    w->jobs[c->request->slot].prefix = all - c->pending;
  }
  return lls_request_length(c->request) - c->pending;
}

/*
 * Returns true if the step is better without the candidate's tokens: on a device so slow
 * that `chunk` sets the time of steps, where a prompt that ends in this step has its
 * first token when the step ends. Tokens of a prompt that does not end in it, or that
 * fill more than half of it, only delay that. In closed loops of 32 clients on a
 * simulated CPU the median first token came after 2.42 s in place of 2.72, at the same
 * tokens/s.
 */
static bool can_wait(const struct worth *w, const struct lls_pol_step *s,
                     const struct worth_candidate *c, uint32_t tokens)
{
  bool slow = w->usual_gap > w->params.gap;
  bool half_full = 2 * (int64_t)s->prompts >= w->params.chunk;
  return slow && !c->kept && w->n_ends > 0 && (tokens < c->pending || half_full);
}

/* Returns the time until a candidate that found no memory has it, if memory comes free as
 * it did of late. */
static int64_t vacant_in(const struct worth *w, const struct lls_pol_step *s,
                         const struct worth_candidate *c)
{
  struct lls_need need = {.size = sizeof need};
  s->cache->need(s->cache->context, c->request, c->pending, LLS_FORM_NONE, &need);
  double units = (double)need.new_units + need.restore_units + spare_units(w, s, c);
  units -= lls_pol_step_free_units(s);
  double tokens = units * lls_pol_fit_tokens(&w->fit, s->total_units) / s->total_units;
  /* below 0 if memory is there but not for this one, say by its class */
  return (int64_t)fmax(fmin(tokens / w->order.freed_per_ns, 1e15), 0);
}

/* Notes the first candidate of a plan that found no memory. How long others may pass it
 * is set once, so that they do not pass it for ever. */
static void note_blocked(struct worth *w, const struct lls_pol_step *s,
                         const struct worth_candidate *c)
{
  struct worth_job *job = &w->jobs[c->request->slot];
  if (job->vacant_at == 0)
    job->vacant_at = lls_time_after(s->view->now_ns, AHEAD * vacant_in(w, s, c));
  w->vacant_at = job->vacant_at;
}

/* Runs a candidate. If it finds no memory, those with memory still run, and new ones that
 * leave soon (run_brief). Returns false if the step is full. */
static bool take(struct worth *w, struct lls_pol_step *s, struct worth_candidate *c)
{
  const struct lls_engine_caps *engine = w->base.host->engine;
  struct worth_job *job = &w->jobs[c->request->slot];
  uint32_t context = context_of(w, s, c);
  if (lls_pol_step_too_long(s, engine, c->request, c->pending))
    return true;
  uint32_t room = worth_room(w, context, c->pending);
  uint32_t tokens = lls_pol_step_chunk(s, engine, c->pending, s->prompts + room, false);
  if (tokens == 0 || can_wait(w, s, c, tokens))
    return false;
  enum lls_pol_step_answer answer = reserve(w, s, c);
  if (answer == LLS_POL_STEP_NOT_NOW) {
    if (!w->short_of_memory)
      note_blocked(w, s, c);
    w->short_of_memory = true;
    job->prefix = UINT32_MAX;
  }
  if (answer != LLS_POL_STEP_YES)
    return true;
  tokens = lls_pol_min(tokens, lls_pol_step_pending(s, c->request));
  lls_pol_step_run(s, c->request, tokens);
  worth_has_chunk(w, context, tokens);
  w->n_ends += tokens == c->pending;
  w->n_growing += worth_owed(c->request);
  job->planned = w->plans;
  return true;
}

/* Returns the stream that has stood still longest, if that is most of max_stall, or
 * NULL. It is readmitted before all others, one in a plan, by preempting the last to
 * arrive: under overload no memory becomes free in time by itself. A stream that has
 * begun to return is left out: the growth of others could still preempt it. */
static struct worth_candidate *overdue(const struct worth *w, int64_t now_ns)
{
  int64_t first_ns = now_ns - w->params.max_stall * 3 / 4;
  struct worth_candidate *first = NULL;
  for (uint32_t i = 0; i < w->order.n; i++) {
    struct worth_candidate *c = &w->order.all[i];
    const struct lls_request *r = c->request;
    if (!c->stream || c->started || worth_best_effort(r) || r->last_token_ns > first_ns)
      continue;
    first = c;
    first_ns = r->last_token_ns;
  }
  return first;
}

static void rescue(struct worth *w, struct lls_pol_step *s)
{
  struct worth_candidate *c = overdue(w, s->view->now_ns);
  if (c == NULL)
    return;
  while (s->tail > 0 && !has_room(w, s, c)) {
    if (!lls_pol_step_take_off(s, s->order[s->tail - 1]))
      return;
    s->tail--;
  }
  c->done = true;
  take(w, s, c);
}

/* Returns true if the request names no time for first token, gaps or end. */
static bool named_nothing(const struct lls_request *r)
{
  return r->slo.ttft_ns == LLS_NEVER && !worth_owed(r) && !worth_best_effort(r);
}

/* Returns the prompt that has waited most, as a part of its own time, of those that named
 * no deadline and have waited for `age` times that; or NULL. */
static struct worth_candidate *aged(const struct worth *w, int64_t now_ns)
{
  struct worth_candidate *first = NULL;
  double most = w->params.age;
  for (uint32_t i = 0; i < w->order.n && w->params.age > 0; i++) {
    struct worth_candidate *c = &w->order.all[i];
    double waited = (double)(now_ns - c->request->arrival_ns) / (double)c->stays;
    if (c->stream || c->started || c->done || !named_nothing(c->request) || waited < most)
      continue;
    first = c;
    most = waited;
  }
  return first;
}

/* Begins the aged prompt. It preempts only streams that named nothing either. */
static void begin_aged(struct worth *w, struct lls_pol_step *s)
{
  struct worth_candidate *c = aged(w, s->view->now_ns);
  if (c == NULL)
    return;
  for (; s->tail > 0 && !has_room(w, s, c); s->tail--) {
    const struct lls_request *last = s->order[s->tail - 1];
    if (!(named_nothing(last) || worth_best_effort(last)) ||
        last->generated_tokens == 0 || !lls_pol_step_take_off(s, last))
      return;
  }
  c->done = true;
  take(w, s, c);
}

/* Prompts under way are the first of all, see look.c. */
static void run_started(struct worth *w, struct lls_pol_step *s)
{
  for (uint32_t i = 0; i < w->order.n && w->order.all[i].started; i++) {
    struct worth_candidate *c = &w->order.all[i];
    if (!c->done && s->tokens > 0 && s->sequences > 0 && !take(w, s, c))
      return;
  }
}

/* Sets `brief` to the densest new candidates that will have left by `vacant_at`, and
 * returns how many there are. */
static uint32_t find_brief(struct worth *w, int64_t now_ns,
                           struct worth_candidate *brief[BRIEF])
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->order.n; i++) {
    struct worth_candidate *c = &w->order.all[i];
    if (c->stays > w->vacant_at - now_ns || c->done || c->started || c->stream || c->best)
      continue;
    uint32_t k = n < BRIEF ? n++ : BRIEF;
    for (; k > 0 && c->density > brief[k - 1]->density; k--)
      if (k < BRIEF)
        brief[k] = brief[k - 1];
    if (k < BRIEF)
      brief[k] = c;
  }
  return n;
}

/*
 * Runs brief requests while a request waits for memory, since what is free is too little
 * for that one alone: no prompt ran for 1.4 s when one of 2,570 tokens waited. A request
 * that has left before the waiting one can begin does not delay it (EASY backfilling:
 * Lifka, "The ANL/IBM SP scheduling system", 1995).
 */
static void run_brief(struct worth *w, struct lls_pol_step *s)
{
  struct worth_candidate *brief[BRIEF];
  uint32_t n = find_brief(w, s->view->now_ns, brief);
  for (uint32_t k = 0; k < n && s->tokens > 0 && s->sequences > 0; k++) {
    brief[k]->done = true;
    if (!take(w, s, brief[k]))
      return;
  }
}

static void run_prompts(struct worth *w, struct lls_pol_step *s)
{
  struct worth_candidate *c;
  while (!w->short_of_memory && s->tokens > 0 && s->sequences > 0 &&
         (c = worth_next(&w->order)) != NULL)
    if (!take(w, s, c))
      return;
  if (w->short_of_memory) {
    run_started(w, s);
    run_brief(w, s);
  }
}

/* True if the plan has an item for the request, such as the rejection of a stream that
 * could not grow even alone. */
static bool named(const struct lls_pol_step *s, const struct lls_request *r)
{
  for (uint32_t i = 0; i < s->plan->n_items; i++)
    if (s->plan->items[i].request == r->id)
      return true;
  return false;
}

/* For an empty plan: runs the first request, if need be by preempting others. */
static void progress(struct lls_pol_step *s)
{
  for (uint32_t i = 0; i < s->tail && s->runs == 0; i++) {
    const struct lls_request *r = s->order[i];
    uint32_t tokens = lls_pol_min(lls_request_pending(r), s->tokens);
    if (tokens > 0 && !named(s, r) && lls_pol_step_grow(s, i, lls_request_pending(r)))
      lls_pol_step_run(s, r, tokens);
  }
}

void worth_fill(struct worth *w, struct lls_pol_step *s)
{
  w->short_of_memory = false;
  w->n_ends = 0;
  set_order(w, s);
  rescue(w, s);
  begin_aged(w, s);
  run_streams(w, s, false);
  run_prompts(w, s);
  run_streams(w, s, true);
  if (s->runs == 0)
    progress(s);
}
