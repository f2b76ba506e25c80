/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch (Algorithm 1, with rules for cases that it leaves open): decodes stay,
 * urgent requests take the free tokens and memory, all others the remainder (fill.c).
 *
 * As printed, an urgent request displaces others, which return as urgent ones: in the
 * reference model that is 15,134 preemptions for 300 requests. So here a prompt never
 * takes a decode's memory: too many tokens only defer a request; a chunk shrinks before
 * any request is preempted; and only growing decodes preempt: first prompts under way,
 * then decodes, the largest slack first.
 */
#include "accelgen.h"

#include <llmserve/policy/check.h>

enum { PROGRESS = 64 }; /* tokens of a prompt that runs at the cost of all others */

/* ---- common to all ----------------------------------------------------------------- */

/* Returns the tokens for which the step has time. If there are none for a prompt that
 * may be cut, the step is full. */
static uint32_t in_time(struct accelgen *a, struct lls_pol_step *s,
                        const struct accelgen_candidate *c, uint32_t tokens, bool cut)
{
  if (c->decode)
    return tokens;
  uint32_t timely = accelgen_in_time(a, s, c, tokens);
  if (timely == 0 && cut)
    s->tokens = 0;
  return cut || timely == tokens ? timely : 0;
}

uint32_t accelgen_run(struct accelgen *a, struct lls_pol_step *s,
                      struct accelgen_candidate *c, uint32_t tokens, bool cut)
{
  const struct lls_request *r = c->request;
  if (c->fresh) { /* the prefix index may have changed */
    c->tokens = lls_pol_max(lls_pol_step_pending(s, r), 1);
    tokens = lls_pol_min(tokens, c->tokens);
  }
  tokens = in_time(a, s, c, tokens, cut);
  if (tokens == 0)
    return 0;
  uint32_t mark = s->cache->mark(s->cache->context);
  int rc = lls_pol_step_reserve(s, r, tokens);
  if (rc == LLS_RESERVE_OK) {
    s->tokens = tokens > s->tokens ? tokens : s->tokens; /* accelgen_uncut */
    lls_pol_step_run(s, r, tokens);
    if (a->room.within_ns != LLS_NEVER)
      lls_pol_room_add(&a->room, lls_request_length(r) - c->tokens, tokens);
    c->done = true;
    return tokens;
  }
  s->cache->rollback(s->cache->context, mark);
  a->jobs[r->slot].prefix = UINT32_MAX; /* the index may have less of it */
  if (rc != LLS_RESERVE_LATER) {
    lls_plan_reject(s->plan, r, LLS_FINISH_CAPACITY);
    c->done = true;
  }
  return 0;
}

uint32_t accelgen_uncut(const struct accelgen *a, const struct lls_pol_step *s,
                        const struct accelgen_candidate *c)
{
  if (c->tokens <= s->tokens)
    return c->tokens;
  if (c->tokens <= a->budget || s->prompts > 0)
    return 0;
  return lls_pol_min(c->tokens, s->view->max_tokens - (a->budget - s->tokens));
}

bool accelgen_hopeless(struct accelgen *a, struct lls_pol_step *s,
                       struct accelgen_candidate *c)
{
  uint32_t most = lls_pol_fit_tokens(&a->fit, s->total_units - s->watermark_units);
  if (c->started || c->tokens <= most || !lls_pol_step_never_fits(s, c->request))
    return false;
  c->done = true;
  return true;
}

/* Updates the state of a preempted candidate. */
static void note_eviction(struct accelgen *a, struct accelgen_candidate *c)
{
  c->done = true;
  a->jobs[c->request->slot].prefix = UINT32_MAX;
  lls_pol_scheduler_count(&a->base, "evicted", 1);
  LLS_POL_CHECK(a->under_way >= c->started);
  a->under_way -= c->started;
  if (!c->decode)
    return;
  a->jobs[c->request->slot].paused = true;
  a->pace.preempted++;
}

/* ---- decodes ----------------------------------------------------------------------- */

static void heap_add(struct lls_pol_heap *h, struct accelgen_candidate *c, int64_t key)
{
  LLS_POL_CHECK(h->n < h->capacity);
  h->entries[h->n++] = (struct lls_pol_heap_entry){.key = key, .tie = c->id, .item = c};
}

/* Lists the resident requests: decodes, then begun prompts. They are in order of slack
 * only with `sorted`: sorting hundreds takes longer than planning them. */
static void set_order(struct accelgen *a, struct lls_pol_step *s, bool sorted)
{
  static const int64_t after_decodes = INT64_C(1) << 60;
  a->heap.n = 0;
  for (uint32_t i = 0; i < a->n_all; i++) {
    struct accelgen_candidate *c = &a->candidates[i];
    if (i >= a->n_decodes && !c->started)
      break; /* the others are not on the device */
    heap_add(&a->heap, c, c->slack + (i >= a->n_decodes ? after_decodes : 0));
  }
  a->n_order = a->heap.n;
  if (sorted)
    lls_pol_heap_build(&a->heap);
  for (uint32_t k = 0; k < a->n_order; k++) {
    a->on_device[k] = sorted ? lls_pol_heap_pop(&a->heap).item : a->heap.entries[k].item;
    a->order[k] = a->on_device[k]->request;
  }
  s->order = a->order;
  s->tail = a->n_order;
}

void accelgen_grow(struct accelgen *a, struct lls_pol_step *s)
{
  uint32_t n = a->n_decodes, most = lls_pol_min(s->tokens, s->sequences);
  uint64_t growth = (uint64_t)n * a->fit.growth_units;
  set_order(a, s, n > most || growth > lls_pol_step_free_units(s));
  for (uint32_t i = 0; i < n && i < most && i < s->tail; i++) {
    lls_pol_step_decode(s, i);
    a->on_device[i]->done = true;
  }
  for (uint32_t i = s->tail; i < a->n_order; i++)
    note_eviction(a, a->on_device[i]);
  if (s->tail > most && n > most)
    lls_pol_scheduler_count(&a->base, "deferred", lls_pol_min(n, s->tail) - most);
}

/* ---- urgent requests --------------------------------------------------------------- */

/* Returns the tokens of an urgent request to run, out of the free ones. A short prompt
 * is cut, too, but no second prompt is begun while another one is cut: otherwise the
 * rest of every step would begin another prompt, and hundreds would hold memory for a
 * first chunk. */
static uint32_t urgent_tokens(const struct accelgen *a, const struct lls_pol_step *s,
                              const struct accelgen_candidate *c)
{
  struct accelgen_option o = accelgen_option(a, s, c);
  uint32_t room = lls_pol_fit_tokens(&a->fit, lls_pol_step_free_units(s));
  if (room < o.before)
    return 0;
  if (c->decode)
    return 1;
  if (!a->params.chunk)
    return accelgen_uncut(a, s, c);
  uint32_t tokens =
      lls_pol_min(lls_pol_min(c->tokens, s->tokens), room - o.before + o.slots);
  bool begun = !c->started && tokens < c->tokens;
  bool one_at_a_time = a->params.era != ACCELGEN_ERA_OFF;
  return begun && one_at_a_time && a->under_way > 0 ? 0 : tokens;
}

void accelgen_admit_urgent(struct accelgen *a, struct lls_pol_step *s)
{
  uint32_t held = a->under_way; /* begun prompts left, which may have free slots */
  a->heap.n = 0;
  for (uint32_t i = a->n_decodes; i < a->n_all; i++)
    if (a->candidates[i].urgent && !a->candidates[i].done)
      heap_add(&a->heap, &a->candidates[i], a->candidates[i].slack);
  lls_pol_heap_build(&a->heap);
  while (a->heap.n > 0 && s->tokens > 0 && s->sequences > 0) {
    struct accelgen_candidate *c = lls_pol_heap_pop(&a->heap).item;
    bool full = lls_pol_step_free_units(s) < a->fit.growth_units;
    if (full && held == 0)
      return;
    LLS_POL_CHECK(held >= c->started);
    held -= c->started;
    if ((full && !c->started) || accelgen_hopeless(a, s, c))
      continue;
    uint32_t tokens = urgent_tokens(a, s, c);
    tokens = tokens > 0 ? accelgen_run(a, s, c, tokens, a->params.chunk) : 0;
    if (tokens > 0 && !c->decode)
      a->under_way += (tokens < c->tokens) - c->started;
  }
}

/* ---- Algorithm 1, literally ------------------------------------------------------- */

static void add_member(struct accelgen *a, struct lls_pol_step *s,
                       struct accelgen_candidate *c, uint32_t *n)
{
  struct lls_need need = {.size = sizeof need};
  struct lls_cache_info info = {.size = sizeof info};
  uint32_t tokens = c->decode ? 1 : lls_pol_min(c->tokens, a->budget);
  s->cache->need(s->cache->context, c->request, tokens, LLS_FORM_NONE, &need);
  s->cache->info(s->cache->context, c->request, &info);
  a->members[(*n)++] = (struct accelgen_member){
      .slack = c->slack,
      .id = c->id,
      .tokens = tokens,
      .memory = need.new_units + need.restore_units,
      .held = c->request->state == LLS_DECODING || c->started ? info.device_units : 0,
      .candidate = (uint32_t)(c - a->candidates),
  };
}

void accelgen_admit_literally(struct accelgen *a, struct lls_pol_step *s)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < a->n_all; i++) {
    struct accelgen_candidate *c = &a->candidates[i];
    if ((i < a->n_decodes || c->urgent) && !accelgen_hopeless(a, s, c))
      add_member(a, s, c, &n);
  }
  accelgen_literal(a->members, n, s->tokens, lls_pol_step_free_units(s), &a->heap);
  for (uint32_t i = 0; i < n; i++) {
    struct accelgen_candidate *c = &a->candidates[a->members[i].candidate];
    if (a->members[i].preempted && lls_pol_step_take_off(s, c->request))
      note_eviction(a, c);
    else if (a->members[i].out && c->decode)
      c->done = true; /* deferred */
  }
  for (uint32_t i = 0; i < n && s->tokens > 0 && s->sequences > 0; i++) {
    struct accelgen_candidate *c = &a->candidates[a->members[i].candidate];
    if (!a->members[i].out && a->members[i].tokens <= s->tokens)
      accelgen_run(a, s, c, a->members[i].tokens, a->params.chunk);
    else if (a->members[i].out && c->decode)
      lls_pol_scheduler_count(&a->base, "deferred", 1);
  }
}

/* ---- none could be taken ---------------------------------------------------------- */

/* Order of victims: begun prompts before decodes, then by the largest slack. */
static bool leaves_before(const struct accelgen_candidate *a,
                          const struct accelgen_candidate *b)
{
  return a->started != b->started ? a->started : a->slack >= b->slack;
}

static struct accelgen_candidate *next_to_leave(struct accelgen *a,
                                                const struct accelgen_candidate *stays)
{
  struct accelgen_candidate *last = NULL;
  for (uint32_t i = 0; i < a->n_all; i++) {
    struct accelgen_candidate *c = &a->candidates[i];
    bool there = c->request->state == LLS_DECODING || c->started;
    if (there && !c->done && c != stays && (last == NULL || leaves_before(c, last)))
      last = c;
  }
  return last;
}

static struct accelgen_candidate *first_of_all(struct accelgen *a)
{
  struct accelgen_candidate *first = NULL;
  for (uint32_t i = 0; i < a->n_all; i++) {
    struct accelgen_candidate *c = &a->candidates[i];
    if (!c->done && (first == NULL || c->key < first->key))
      first = c;
  }
  return first;
}

void accelgen_progress(struct accelgen *a, struct lls_pol_step *s)
{
  struct accelgen_candidate *c;
  while (s->runs == 0 && (c = first_of_all(a)) != NULL) {
    if (accelgen_hopeless(a, s, c))
      continue;
    uint32_t tokens = lls_pol_min(lls_pol_min(c->tokens, PROGRESS), s->tokens);
    if (!a->params.chunk && !c->decode)
      tokens = accelgen_uncut(a, s, c);
    while (accelgen_run(a, s, c, tokens, a->params.chunk) == 0 && !c->done) {
      struct accelgen_candidate *victim = next_to_leave(a, c);
      if (victim == NULL || !lls_pol_step_take_off(s, victim->request))
        return;
      note_eviction(a, victim);
    }
  }
}
