/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a batch (section 5.2). Real-time requests may displace slots of best-effort
 * ones, which the cache manager does. If that is not enough, or the manager does not
 * displace, requests that are not selected are dropped: first best-effort ones, the
 * latest first; then real-time ones, the largest slack first. Best-effort requests take
 * free memory only.
 *
 * All of this is part of the plan's transaction. Memory reserved for a real-time
 * request that a best-effort one has replaced stays reserved until the batch is
 * complete, and is then freed by one rollback: the transaction is a stack, so later
 * reservations are repeated. A request for which others were dropped is not replaced,
 * since they would get their memory back. Memory for uploads concurrent with the step
 * is reserved too, and rolled back last: the core reserves it again when the plan is
 * complete.
 */
#include "bros.h"

#include <llmserve/policy/check.h>

static bool has_memory(const struct bros_candidate *c)
{
  return !c->gone && bros_is_there(c);
}

/* True if dropping the request frees blocks: no real-time request shares some of them. */
static bool frees_blocks(const struct lls_cache_service *cache,
                         const struct bros_candidate *c)
{
  struct lls_cache_info info = {.size = sizeof info};
  return cache->info(cache->context, c->request, &info) == 0 && info.owned_units > 0;
}

/* Returns the last of the first *left candidates that may be dropped; sets *left to its
 * index. */
static struct bros_candidate *latest(const struct bros *b, struct bros_candidate *from,
                                     uint32_t *left, const struct bros_candidate *keeper)
{
  for (; *left > 0; (*left)--) {
    struct bros_candidate *c = &from[*left - 1];
    if (!bros_is_realtime(c->request) && has_memory(c) && c != keeper &&
        frees_blocks(b->view->cache, c))
      return c;
  }
  return NULL;
}

static struct bros_candidate *best_effort_victim(struct bros *b,
                                                 const struct bros_candidate *keeper)
{
  struct bros_candidate *preempted = b->candidates + b->view->n_running;
  struct bros_candidate *x = latest(b, b->candidates, &b->be_running, keeper);
  struct bros_candidate *y = latest(b, preempted, &b->be_preempted, keeper);
  if (x == NULL || y == NULL)
    return x != NULL ? x : y;
  return x->request->id > y->request->id ? x : y;
}

/* Returns the real-time request to drop next, out of those still in the heap. */
static struct bros_candidate *realtime_victim(const struct bros *b)
{
  const struct lls_pol_heap_entry *last = NULL;
  for (uint32_t i = 0; i < b->realtime.n; i++) {
    const struct lls_pol_heap_entry *e = &b->realtime.entries[i];
    if (has_memory(e->item) && (last == NULL || lls_pol_heap_before(last, e)))
      last = e;
  }
  return last != NULL ? last->item : NULL;
}

/* True if real-time requests may be dropped for this one: it is on the device, or the
 * head. */
static bool may_drop_realtime(const struct bros *b, const struct bros_candidate *keeper)
{
  return b->params.drop == BROS_ANY || bros_is_there(keeper) ||
         b->rt_ready.n + b->be_ready.n == 0;
}

static bool drop_one(struct bros *b, struct lls_pol_step *s,
                     const struct bros_candidate *keeper)
{
  struct bros_candidate *c = best_effort_victim(b, keeper);
  if (c == NULL && may_drop_realtime(b, keeper))
    c = realtime_victim(b);
  if (c == NULL || !lls_pol_step_take_off(s, c->request))
    return false;
  c->gone = true;
  bros_push(&b->dropped, c);
  return true;
}

/* Undoes the candidate's reservation and all later ones. */
static void undo(struct bros *b, struct lls_pol_step *s, const struct bros_candidate *c)
{
  LLS_POL_CHECK(c->n_items <= s->plan->n_items && c->n_dropped <= b->dropped.n);
  s->cache->rollback(s->cache->context, c->mark);
  s->plan->n_items = c->n_items;
  while (b->dropped.n > c->n_dropped)
    b->dropped.items[--b->dropped.n]->gone = false;
  b->be_running = b->view->n_running;
  b->be_preempted = b->view->n_preempted;
}

/* True if a prompt leaves enough memory for displaced requests, which come later in the
 * order (by Mcpu). Otherwise these would keep their remaining memory without being able
 * to run, and no request would end. */
static bool leaves_room_for_displaced(const struct bros *b, const struct lls_pol_step *s,
                                      const struct bros_candidate *c)
{
  return bros_is_realtime(c->request) || bros_is_there(c) || c->missing > 0 ||
         lls_pol_step_free_units(s) / b->fit.growth_units >= b->be_missing;
}

/* True if enough memory stays free after this request. A new request leaves the
 * watermark free, for the others to grow into, unless there are best-effort requests
 * that would leave for a real-time one. */
static bool leaves_room(struct bros *b, const struct lls_pol_step *s,
                        const struct bros_candidate *c)
{
  if (!leaves_room_for_displaced(b, s, c))
    return false;
  if (bros_is_there(c) || b->rt_ready.n + b->be_ready.n == 0 || s->watermark_units == 0)
    return true;
  return lls_pol_step_free_units(s) >= s->watermark_units ||
         (bros_is_realtime(c->request) && best_effort_victim(b, c) != NULL);
}

/* A cache without a sequence on the host may not use the host at all. */
bool bros_host_has_room(const struct bros *b, const struct lls_pol_step *s,
                        const struct bros_candidate *c)
{
  struct lls_capacity host = {.size = sizeof host};
  if (b->n_realtime == 0 ||
      s->cache->capacity(s->cache->context, LLS_TIER_HOST, &host) < 0 ||
      host.total_units == 0 || host.free_units == host.total_units)
    return true;
  return lls_pol_fit_tokens(&b->fit, host.free_units) >= b->be_tokens + c->tokens;
}

int bros_reserve(struct bros *b, struct lls_pol_step *s, struct bros_candidate *c,
                 bool drop)
{
  const struct lls_cache_service *cache = s->cache;
  const struct lls_request *r = c->request;
  uint32_t flags = bros_is_realtime(r) ? LLS_MAY_DISPLACE : 0;
  int rc;
  c->mark = cache->mark(cache->context);
  c->n_items = s->plan->n_items;
  c->n_dropped = b->dropped.n;
  do
    rc = lls_pol_step_reserve_as(s, r, lls_request_pending(r), LLS_FORM_NONE, flags);
  while (rc == LLS_RESERVE_LATER && drop && drop_one(b, s, c));
  bool late = rc == LLS_RESERVE_OK && !leaves_room(b, s, c);
  if (late || (rc != LLS_RESERVE_OK && b->dropped.n > c->n_dropped))
    undo(b, s, c);
  return late ? LLS_RESERVE_LATER : rc;
}

/* Arriving requests were reserved after all others, so the rollback affects only them. */
static void release_arriving(struct bros *b, struct lls_pol_step *s)
{
  const struct bros_list *l = &b->arriving;
  if (l->n > 0)
    s->cache->rollback(s->cache->context, l->items[0]->mark);
}

void bros_settle(struct bros *b, struct lls_pol_step *s)
{
  struct bros_list *ready = &b->be_ready;
  struct bros_candidate *first = b->rt_ready.items[b->rt_ready.n];
  uint32_t n = ready->n;
  release_arriving(b, s);
  if (b->n_deferred == 0)
    return;
  LLS_POL_CHECK(b->n_deferred == b->n_replaced);
  undo(b, s, first);
  b->n_deferred = 0;
  s->draft_tokens = 0; /* s->tokens is that of the last candidate */
  ready->n = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct bros_candidate *c = ready->items[i];
    if (bros_reserve(b, s, c, false) == LLS_RESERVE_OK)
      bros_push(ready, c);
    else
      bros_load_remove(&b->load, c);
  }
  if (b->rt_ready.n + ready->n == 0 && bros_reserve(b, s, first, true) == LLS_RESERVE_OK)
    bros_accept(b, &b->rt_ready, first);
}
