/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which deadlines are kept, and which request comes next.
 *
 * As many deadlines as possible are kept: in order of due times, whenever one would be
 * missed, the costliest request so far is given up (Moore, "An n job, one machine
 * sequencing algorithm for minimizing the number of late jobs", 1968, algorithm 1, due
 * to Hodgson). Then the densest of all requests comes first, as long as it makes none
 * of the kept requests that it passes late: in order of due times each kept request has
 * a slack, the time that may be inserted before it. With ample slack the result is
 * shortest first, without slack it is earliest due time first.
 */
#include "worth.h"

#include <llmserve/policy/check.h>

/* ---- keeping deadlines ------------------------------------------------------------- */

static void push(struct lls_pol_heap *h, struct worth_candidate *c, int64_t key)
{
  lls_pol_heap_push(
      h, (struct lls_pol_heap_entry){.key = key, .tie = c->request->id, .item = c});
}

struct demand { /* sums over the candidates kept so far */
  int64_t time;
  double memory, seats;
};

static void add(struct demand *d, const struct worth_candidate *c, int sign)
{
  d->time += sign * c->time;
  d->memory += sign * c->memory;
  d->seats += sign * c->seats;
}

/* Time until `amount` has come free at per_ns. */
static int64_t wait_for(double amount, double per_ns)
{
  double ns = amount > 0 ? amount / per_ns : 0;
  return ns < 1e15 ? (int64_t)ns : (int64_t)1e15;
}

static int64_t least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static int64_t longest(int64_t a, int64_t b, int64_t c)
{
  int64_t ab = a > b ? a : b;
  return ab > c ? ab : c;
}

/* Returns when the last kept candidate can be done, given time, memory and seats. */
static int64_t end_of(const struct worth_order *o, const struct demand *d)
{
  return longest(d->time, wait_for(d->memory - o->free, o->freed_per_ns),
                 wait_for(d->seats - o->seats, o->seats_per_ns));
}

/* Gives up the dearest of those kept so far. */
static void give_up(struct worth_order *o, struct demand *d)
{
  struct worth_candidate *c = lls_pol_heap_pop(&o->sizes).item;
  c->kept = false;
  add(d, c, -1);
}

static void collect(struct worth_order *o)
{
  struct lls_pol_heap *h = &o->others;
  h->n = 0;
  for (uint32_t i = 0; i < o->n; i++) {
    struct worth_candidate *c = &o->all[i];
    c->kept = false;
    if (c->due != LLS_NEVER)
      h->entries[h->n++] =
          (struct lls_pol_heap_entry){.key = c->due, .tie = c->request->id, .item = c};
  }
  lls_pol_heap_build(h);
}

static void sort_others(struct worth_order *o)
{
  struct lls_pol_heap *h = &o->others;
  h->n = 0;
  for (uint32_t i = 0; i < o->n; i++) {
    struct worth_candidate *c = &o->all[i];
    bool begins = !o->closed || c->started || !c->best;
    if (!c->kept && begins)
      h->entries[h->n++] = (struct lls_pol_heap_entry){
          .key = -(int64_t)(c->density * 1e6), .tie = c->request->id, .item = c};
  }
  lls_pol_heap_build(h);
}

void worth_keep(struct worth_order *o, int64_t now_ns)
{
  struct demand d = {0, 0, 0};
  uint32_t n = 0;
  collect(o);
  o->sizes.n = 0;
  while (o->others.n > 0 && n < WORTH_KEPT) {
    struct worth_candidate *c = lls_pol_heap_pop(&o->others).item;
    c->kept = true;
    o->kept[n++] = (uint32_t)(c - o->all);
    push(&o->sizes, c, -(int64_t)c->dear);
    add(&d, c, 1);
    if (end_of(o, &d) > c->due - now_ns)
      give_up(o, &d);
  }
  o->more |= o->others.n > 0;
  o->n_kept = 0;
  d = (struct demand){0, 0, 0};
  for (uint32_t i = 0; i < n; i++) {
    struct worth_candidate *c = &o->all[o->kept[i]];
    if (!c->kept)
      continue;
    add(&d, c, 1);
    c->slack = c->due - now_ns - end_of(o, &d) - o->steps_ns - c->caution;
    o->kept[o->n_kept++] = o->kept[i];
  }
  /* the slack of further deadlines is unknown: none of them may be passed */
  if (o->more && o->n_kept > 0)
    o->all[o->kept[o->n_kept - 1]].slack = 0;
  o->crowded = d.memory > o->free;
  o->seated = d.seats > o->seats;
  sort_others(o);
}

/* ---- the next request -------------------------------------------------------------- */

/* Returns the time by which c delays the candidates it passes. Memory and a seat are free
 * again when its answer ends. */
static int64_t passing(const struct worth_order *o, const struct worth_candidate *c)
{
  int64_t memory = o->crowded ? wait_for(c->memory, o->freed_per_ns) : 0;
  int64_t seat = o->seated ? wait_for(c->seats, o->seats_per_ns) : 0;
  return longest(c->time, least(memory, c->stays), least(seat, c->stays));
}

/* Returns the densest kept candidate that makes no passed one late; *least_slack is the
 * least slack of all kept ones. */
static uint32_t densest(const struct worth_order *o, int64_t *least_slack)
{
  uint32_t best = UINT32_MAX;
  int64_t room = INT64_MAX;
  for (uint32_t k = 0; k < o->n_kept; k++) {
    const struct worth_candidate *c = &o->all[o->kept[k]];
    if (c->done)
      continue;
    if (passing(o, c) <= room &&
        (best == UINT32_MAX || c->density > o->all[o->kept[best]].density))
      best = k;
    room = c->slack < room ? c->slack : room;
  }
  *least_slack = room;
  return best;
}

struct worth_candidate *worth_next(struct worth_order *o)
{
  int64_t room;
  uint32_t k = densest(o, &room);
  struct worth_candidate *next = k == UINT32_MAX ? NULL : &o->all[o->kept[k]];
  while (o->others.n > 0 && ((struct worth_candidate *)o->others.entries[0].item)->done)
    lls_pol_heap_pop(&o->others);
  if (o->others.n > 0) {
    struct worth_candidate *c = o->others.entries[0].item;
    if (next == NULL || (passing(o, c) <= room && c->density > next->density)) {
      lls_pol_heap_pop(&o->others);
      next = c;
      k = o->n_kept;
    }
  }
  if (next == NULL)
    return NULL;
  /* the kept candidates that `next` passes */
  for (uint32_t i = 0; i < k && i < o->n_kept; i++)
    o->all[o->kept[i]].slack -= passing(o, next);
  next->done = true;
  return next;
}
