/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the requests to cache, and their forms: takes increments of memory in order of
 * value per unit (section 5.2 and appendix of the paper). V >= OPT / 2 for all requests,
 * forms and M; t/plugin/test_apt_greedy measures it against brute force.
 *
 * A request has up to two increments: its form in half the memory, then the rest of K and
 * V. The second is pushed when the first is taken, so the heap holds one entry a request
 * and is built in linear time. Only taking entries out costs n log n, and most plans take
 * a few dozen entries out of thousands.
 */
#include "apt.h"

#include <llmserve/policy/check.h>

#define UPGRADE (UINT64_C(1) << 63)

struct search {
  const struct greedy_problem *p;
  struct lls_pol_heap *heap;
  uint32_t *taken;
  struct greedy_solution out;
  uint32_t tokens; /* sum over the chosen */
  uint32_t least_units, least_tokens;
  double single; /* value of the best blocked request alone */
  uint32_t single_index;
};

/* Bits of doubles that are not negative are in the order of their values. */
static int64_t descending(double density)
{
  int64_t bits;
  density = density > 0 ? density : 0;
  memcpy(&bits, &density, sizeof bits);
  return -bits;
}

struct lls_pol_heap_entry apt_by_density(double density, bool upgrade, uint32_t units,
                                         uint32_t index)
{
  return (struct lls_pol_heap_entry){
      .key = descending(density),
      .tie = (upgrade ? UPGRADE : 0) | (uint64_t)units << 32 | index,
  };
}

/* ---- increments -------------------------------------------------------------------- */

/* N rho m: the time that hidden form costs all requests in a step. */
static double penalty(const struct greedy_problem *p, const struct candidate *c)
{
  return p->n_rho * c->kv;
}

/* theta1 = (p - N rho m) / (eta m) >= theta2 = N rho m / ((1 - eta) m), without the
 * divisions: p (m - eta m) >= N rho m m. */
static bool hidden_permitted(const struct greedy_problem *p, const struct candidate *c)
{
  if (c->hidden == 0 || c->hidden >= c->kv || c->held != LLS_FORM_NONE)
    return false;
  return c->pending * (c->kv - c->hidden) >= penalty(p, c) * c->kv;
}

static uint32_t size_of(const struct candidate *c, uint32_t form)
{
  return form == LLS_FORM_HIDDEN ? c->hidden : c->kv;
}

/* Returns the density of a violated request: eps; half of it if the request can no
 * longer meet its SLO. */
static double next_to_nothing(const struct greedy_problem *p, const struct candidate *c)
{
  return c->standing == APT_LOST ? p->eps / 2 : p->eps;
}

/* Returns g, the gain of the request in that form. */
static double gain(const struct greedy_problem *p, const struct candidate *c,
                   uint32_t form)
{
  if (c->violated)
    return next_to_nothing(p, c) * c->kv;
  return form == LLS_FORM_HIDDEN ? c->pending - penalty(p, c) : c->pending;
}

/* Returns the form of a request's first increment; NONE if no form fits or has a
 * value. */
static uint32_t first_form(const struct greedy_problem *p, const struct candidate *c)
{
  if (c->held != LLS_FORM_NONE)
    return size_of(c, c->held) <= p->memory ? c->held : LLS_FORM_NONE;
  if (c->violated && !p->hidden_pays)
    return c->kv <= p->memory ? LLS_FORM_KV : LLS_FORM_NONE;
  if (c->hidden > 0 && c->hidden <= p->memory &&
      (c->no_upgrade || hidden_permitted(p, c)))
    return LLS_FORM_HIDDEN;
  if (c->kv <= p->memory)
    return LLS_FORM_KV;
  bool worth = c->hidden > 0 && c->hidden <= p->memory && c->pending > penalty(p, c);
  return worth ? LLS_FORM_HIDDEN : LLS_FORM_NONE;
}

/* Collects the first increments of all requests that fit; sets `form` to their form. */
static void collect(struct search *s)
{
  const struct greedy_problem *p = s->p;
  s->heap->n = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    struct candidate *c = &p->candidates[i];
    uint32_t form = first_form(p, c), units = size_of(c, form);
    c->form = LLS_FORM_NONE;
    if (form == LLS_FORM_NONE || units == 0 || c->gone)
      continue;
    double density = c->violated ? next_to_nothing(p, c) : gain(p, c, form) / units;
    struct lls_pol_heap_entry e =
        apt_by_density(density, false, c->violated ? 0 : units, i);
    e.item = c;
    s->heap->entries[s->heap->n++] = e;
    s->least_units = lls_pol_min(s->least_units, units);
    s->least_tokens = lls_pol_min(s->least_tokens, c->tokens);
  }
  LLS_POL_CHECK(s->heap->n <= s->heap->capacity);
  lls_pol_heap_build(s->heap);
}

/* ---- the walk ---------------------------------------------------------------------- */

static uint64_t left(const struct search *s)
{
  LLS_POL_CHECK(s->out.used <= s->p->memory);
  return s->p->memory - s->out.used;
}

/* True if the request would exceed the limits of a step. The first prompt chosen may
 * exceed the token limit. */
static bool over_caps(const struct search *s, const struct candidate *c)
{
  return s->out.n >= s->p->sequences ||
         (s->out.n > 0 && (uint64_t)s->tokens + c->tokens > s->p->tokens);
}

static void take(struct search *s, struct candidate *c, uint32_t form)
{
  LLS_POL_CHECK(s->out.n < s->p->n && c->form == LLS_FORM_NONE);
  s->taken[s->out.n++] = (uint32_t)(c - s->p->candidates);
  c->form = form;
  s->tokens += c->tokens;
  s->out.used += size_of(c, form);
  s->out.value += gain(s->p, c, form);
  if (form != LLS_FORM_HIDDEN || c->no_upgrade || c->held != LLS_FORM_NONE ||
      c->kv > s->p->memory || c->kv <= c->hidden)
    return;
  /* theta2, the same for all: m / (m - eta m) is exact where eta is a half */
  double density = s->p->n_rho * ((double)c->kv / (c->kv - c->hidden));
  struct lls_pol_heap_entry e =
      apt_by_density(density, true, c->kv - c->hidden, (uint32_t)(c - s->p->candidates));
  e.item = c;
  lls_pol_heap_push(s->heap, e);
  s->least_units = lls_pol_min(s->least_units, c->kv - c->hidden);
}

static bool upgrade(struct search *s, struct candidate *c)
{
  uint32_t more = c->kv - c->hidden;
  LLS_POL_CHECK(c->form == LLS_FORM_HIDDEN && c->kv > c->hidden);
  if (more > left(s))
    return false;
  c->form = LLS_FORM_KV;
  s->out.used += more;
  s->out.value += penalty(s->p, c);
  return true;
}

/* Returns the best form of a blocked request alone that fits. */
static uint32_t single_form(const struct greedy_problem *p, const struct candidate *c)
{
  if (c->held != LLS_FORM_NONE)
    return c->held;
  return c->kv <= p->memory && !c->no_upgrade ? LLS_FORM_KV : LLS_FORM_HIDDEN;
}

static void consider_single(struct search *s, const struct candidate *c)
{
  uint32_t form = single_form(s->p, c);
  double value = gain(s->p, c, form);
  if (value > s->single) {
    s->single = value;
    s->single_index = (uint32_t)(c - s->p->candidates);
  }
}

/* Takes an increment; returns false if it does not fit. */
static bool step_one(struct search *s, const struct lls_pol_heap_entry *e)
{
  struct candidate *c = e->item;
  if (e->tie & UPGRADE) {
    if (upgrade(s, c))
      return true;
    consider_single(s, c);
    return false;
  }
  if (over_caps(s, c))
    return false;
  uint32_t form = first_form(s->p, c);
  if (size_of(c, form) <= left(s)) {
    take(s, c, form);
    return true;
  }
  consider_single(s, c);
  return false;
}

/* True if no increment in the heap fits. A request blocked by memory may still win
 * alone. */
static bool is_full(const struct search *s)
{
  return left(s) < s->least_units;
}

static bool takes_nobody(const struct search *s)
{
  return s->out.n >= s->p->sequences ||
         (s->out.n > 0 && (uint64_t)s->tokens + s->least_tokens > s->p->tokens);
}

static void drop_new_ones(struct search *s)
{
  struct lls_pol_heap *h = s->heap;
  uint32_t n = 0;
  for (uint32_t i = 0; i < h->n; i++)
    if (h->entries[i].tie & UPGRADE)
      h->entries[n++] = h->entries[i];
  h->n = n;
  lls_pol_heap_build(h);
}

static void walk(struct search *s)
{
  bool closed = false;
  while (s->heap->n > 0 && !is_full(s)) {
    if (!closed && s->p->skip && takes_nobody(s)) {
      closed = true;
      drop_new_ones(s);
      continue;
    }
    struct lls_pol_heap_entry e = lls_pol_heap_pop(s->heap);
    if (!step_one(s, &e) && !s->p->skip)
      return;
  }
  /* is_full: all remaining candidates are blocked; the densest one comes first */
  uint32_t n = s->p->skip || s->heap->n == 0 ? s->heap->n : 1;
  for (uint32_t i = 0; i < n; i++) {
    const struct lls_pol_heap_entry *e = &s->heap->entries[i];
    if (e->tie & UPGRADE || !over_caps(s, e->item))
      consider_single(s, e->item);
  }
}

static void single_wins(struct search *s)
{
  struct candidate *all = s->p->candidates, *c = &all[s->single_index];
  for (uint32_t i = 0; i < s->out.n; i++)
    all[s->taken[i]].form = LLS_FORM_NONE;
  s->out = (struct greedy_solution){.single_won = true};
  s->heap->n = 0;
  take(s, c, single_form(s->p, c));
}

struct greedy_solution apt_greedy(const struct greedy_problem *p,
                                  struct lls_pol_heap *heap, uint32_t *taken)
{
  struct search s = {.p = p,
                     .heap = heap,
                     .taken = taken,
                     .least_units = UINT32_MAX,
                     .least_tokens = UINT32_MAX};
  collect(&s);
  walk(&s);
  if (s.single > s.out.value)
    single_wins(&s);
  LLS_POL_CHECK(s.out.used <= p->memory && s.out.n <= p->n);
  heap->n = 0;
  return s.out;
}
