/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of requests. Callbacks have no view, so they only note which requests may have
 * changed; the next plan checks these. If the number of requests with cached tokens then
 * differs from the view's, a plan was not carried out or the core planned a step itself:
 * all requests are checked. With 1,600 requests this takes longer than the rest of a
 * plan, so it is not done in each plan.
 */
#include "aligned.h"

#include <llmserve/policy/check.h>
#include <llmserve/policy/step.h>

/* ---- buffers ----------------------------------------------------------------------- */

uint32_t buffer_find(const struct aligned *a, const struct buffer *b, uint32_t length)
{
  uint32_t low = 0, high = b->n;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (length_of(a, b->slots[middle]) < length)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void buffer_insert(struct aligned *a, struct buffer *b, uint32_t slot)
{
  uint32_t length = length_of(a, slot), at = buffer_find(a, b, length);
  while (at < b->n && length_of(a, b->slots[at]) == length &&
         a->members[b->slots[at]].id < a->members[slot].id)
    at++;
  LLS_POL_CHECK(b->n < a->base.host->engine->max_requests);
  memmove(&b->slots[at + 1], &b->slots[at], (b->n - at) * sizeof *b->slots);
  b->slots[at] = slot;
  b->n++;
}

/* Searches all of the buffer: the request's length may have changed since its insertion.
 */
static void buffer_remove(struct buffer *b, uint32_t slot)
{
  uint32_t at = 0;
  while (b->slots[at] != slot)
    at++;
  LLS_POL_CHECK(at < b->n);
  b->n--;
  memmove(&b->slots[at], &b->slots[at + 1], (b->n - at) * sizeof *b->slots);
}

/* ---- places ------------------------------------------------------------------------ */

static void run_add(struct aligned *a, uint32_t slot)
{
  LLS_POL_CHECK(a->n_running < a->base.host->engine->max_requests);
  a->members[slot].at = a->n_running;
  a->members[slot].tag = a->tag;
  a->running[a->n_running++] = slot;
}

static void run_remove(struct aligned *a, uint32_t slot)
{
  uint32_t at = a->members[slot].at;
  LLS_POL_CHECK(at < a->n_running && a->running[at] == slot);
  a->running[at] = a->running[--a->n_running];
  a->members[a->running[at]].at = at;
}

static void take_out(struct aligned *a, uint32_t slot)
{
  switch (a->members[slot].place) {
  case POOL:
    tree_remove(&a->tree, slot);
    break;
  case NEXT:
    buffer_remove(&a->next, slot);
    break;
  case SPARE:
    buffer_remove(&a->spare, slot);
    break;
  case RUNNING:
    run_remove(a, slot);
    break;
  default:
    break;
  }
}

static void put_in(struct aligned *a, uint32_t slot, int64_t now_ns)
{
  const struct member *m = &a->members[slot];
  switch (m->place) {
  case POOL:
    tree_insert(&a->tree, slot, m->id, length_of(a, slot),
                blocks_of(a, length_of(a, slot)), now_ns);
    break;
  case NEXT:
    buffer_insert(a, &a->next, slot);
    break;
  case SPARE:
    buffer_insert(a, &a->spare, slot);
    break;
  case RUNNING:
    run_add(a, slot);
    break;
  default:
    break;
  }
}

/* 1 if the view counts the request as prefilled: it is, and on this instance. */
static uint32_t counts(const struct member *m)
{
  return m->place != QUEUE && !m->offered;
}

void members_set(struct aligned *a, uint32_t slot, enum place place, int64_t now_ns)
{
  struct member *m = &a->members[slot];
  take_out(a, slot);
  LLS_POL_CHECK(a->n_prefilled >= counts(m));
  a->n_prefilled -= counts(m);
  m->place = (uint8_t)place;
  a->n_prefilled += counts(m);
  put_in(a, slot, now_ns);
}

void members_reject(struct aligned *a, struct lls_pol_step *s, uint32_t slot)
{
  struct member *m = &a->members[slot];
  lls_plan_reject(s->plan, m->request, LLS_FINISH_CAPACITY);
  members_set(a, slot, QUEUE, s->view->now_ns);
  m->named = a->plans;
}

static void set_partial(struct aligned *a, struct member *m, bool partial)
{
  LLS_POL_CHECK(a->n_partial >= m->partial);
  a->n_partial += partial;
  a->n_partial -= m->partial;
  m->partial = partial;
}

static void set_offered(struct aligned *a, struct member *m, bool offered)
{
  LLS_POL_CHECK(a->n_prefilled >= counts(m));
  a->n_prefilled -= counts(m);
  m->offered = offered;
  a->n_prefilled += counts(m);
}

static void forget(struct aligned *a, uint32_t slot)
{
  struct member *m = &a->members[slot];
  members_set(a, slot, QUEUE, 0);
  set_partial(a, m, false);
  *m = (struct member){
      .fresh = m->fresh, .spare_id = m->spare_id, .spare_tag = m->spare_tag};
}

/* Returns the request's member; initializes it if the slot belonged to another
 * request. */
static struct member *know(struct aligned *a, const struct lls_request *r)
{
  struct member *m = member_of(a, r);
  if (m->request != NULL && m->id != r->id)
    forget(a, r->slot);
  m->request = r;
  m->id = r->id;
  return m;
}

/* ---- looking ----------------------------------------------------------------------- */

/* True if a request in the tree or a buffer has grown: the core itself planned a step. */
static bool has_grown(const struct aligned *a, const struct member *m)
{
  const struct lls_request *r = m->request;
  return m->place == POOL && a->tree.entries[r->slot].length !=
                                 lls_pol_min(r->cached_tokens, a->tree.len_max);
}

static void look_at(struct aligned *a, const struct lls_request *r, int64_t now_ns)
{
  struct member *m = know(a, r);
  bool prefilled = lls_request_decodes(r);
  if (m->offered)
    set_offered(a, m, false);
  set_partial(a, m, !prefilled && r->state != LLS_WAITING);
  if (!prefilled && m->place != QUEUE)
    members_set(a, r->slot, QUEUE, now_ns);
  else if (prefilled && (m->place == QUEUE || has_grown(a, m)))
    members_set(a, r->slot, POOL, now_ns);
}

static void look_at_all(struct aligned *a, const struct lls_step_view *view)
{
  const struct {
    const struct lls_request *const *list;
    uint32_t n;
  } lists[] = {{view->waiting, view->n_waiting},
               {view->running, view->n_running},
               {view->preempted, view->n_preempted},
               {view->moving, view->n_moving}};
  for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
    for (uint32_t i = 0; i < lists[l].n; i++)
      look_at(a, lists[l].list[i], view->now_ns);
}

static void look_at_fresh(struct aligned *a, int64_t now_ns)
{
  for (uint32_t i = 0; i < a->n_fresh; i++) {
    struct member *m = &a->members[a->fresh[i]];
    m->fresh = false;
    if (m->request != NULL && !m->offered)
      look_at(a, m->request, now_ns);
  }
  a->n_fresh = 0;
}

/* ---- offers ------------------------------------------------------------------------ */

/* Removes offers that are not in the view: no callback reports a withdrawn offer. */
static void drop_offers(struct aligned *a, uint64_t seen)
{
  for (uint32_t i = 0; i < a->n_offers; i++) {
    const struct member *m = &a->members[a->offers[i]];
    if (m->offered && m->seen != seen)
      forget(a, a->offers[i]);
  }
}

static void see_offers(struct aligned *a, const struct lls_step_view *view)
{
  for (uint32_t i = 0; i < view->n_offered; i++) {
    const struct lls_request *r = view->offered[i];
    struct member *m = know(a, r);
    m->seen = view->step + 1;
    if (m->offered)
      continue;
    members_set(a, r->slot, QUEUE, 0);
    set_partial(a, m, false);
    m->offered = true;
    bool candidate = m->spare_id == r->id && m->spare_tag == a->tag;
    members_set(a, r->slot, candidate ? SPARE : POOL, view->now_ns);
  }
  drop_offers(a, view->step + 1);
  for (uint32_t i = 0; i < view->n_offered; i++)
    a->offers[i] = view->offered[i]->slot;
  a->n_offers = view->n_offered;
}

/* ---- callbacks --------------------------------------------------------------------- */

static void note(struct aligned *a, const struct lls_request *r)
{
  struct member *m = member_of(a, r);
  if (!m->fresh)
    a->fresh[a->n_fresh++] = r->slot;
  m->fresh = true;
}

/* Admits an arrival. An offered request that was taken over keeps the place it had. */
void members_on_arrival(void *self, const struct lls_request *r)
{
  struct aligned *a = self;
  struct member *m = know(a, r);
  r->user[LLS_POL_PREFILLER_ANSWER] = 0;
  if (m->offered)
    set_offered(a, m, false);
  note(a, r);
}

void members_on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  struct aligned *a = self;
  (void)reason;
  if (member_of(a, r)->request != NULL && member_of(a, r)->id == r->id)
    forget(a, r->slot);
}

void members_on_step(struct aligned *a, const struct lls_step_report *report)
{
  for (uint32_t i = 0; i < report->n_results; i++) {
    const struct lls_request *r = report->results[i].request;
    if (member_of(a, r)->place != RUNNING)
      note(a, r);
  }
}

void members_begin(struct aligned *a, const struct lls_step_view *view)
{
  a->block_tokens = view->cache->block_tokens;
  lls_pol_fit_look(&a->fit, view);
  look_at_fresh(a, view->now_ns);
  if (view->n_offered > 0 || a->n_offers > 0)
    see_offers(a, view);
  if (a->n_prefilled + a->n_partial !=
      view->n_running + view->n_preempted + view->n_moving)
    look_at_all(a, view);
}
