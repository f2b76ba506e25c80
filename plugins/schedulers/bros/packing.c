/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Algorithm 1: real-time requests in order of urgency; then best-effort ones, added or
 * replacing the least urgent, as long as the estimated time of the batch is within
 * T_res and its size within B_curr.
 *
 * The time is checked before the memory, so that no request is dropped for one that
 * then does not run.
 */
#include "bros.h"

#include <llmserve/policy/check.h>

#include <math.h>

enum { MISFITS = 32 };

static uint32_t batch_size(const struct bros *b)
{
  return b->rt_ready.n + b->be_ready.n;
}

/* Returns the tokens of a candidate that fit into the step: 0 if none do, or if the
 * prompt is too long ever to run; then the request has been ended. */
static uint32_t room_for(const struct bros *b, struct lls_pol_step *s,
                         struct bros_candidate *c)
{
  const struct lls_engine_caps *engine = b->base.host->engine;
  uint32_t pending = lls_pol_step_pending(s, c->request), most = s->view->max_tokens;
  c->gone = lls_pol_step_too_long(s, engine, c->request, pending);
  if (c->gone)
    return 0;
  s->prompts = (uint32_t)b->load.prefill.tokens;
  s->tokens = most - s->prompts - (uint32_t)b->load.decode.n;
  return lls_pol_step_chunk(s, engine, pending, most, true);
}

static double time_with(const struct bros *b, const struct bros_candidate *c,
                        const struct bros_candidate *without)
{
  struct bros_load load = b->load;
  bros_load_add(&load, c);
  if (without != NULL)
    bros_load_remove(&load, without);
  return bros_time(&b->cost, &load);
}

/* Ends a request that would not fit even alone. */
static void reject(struct lls_pol_step *s, struct bros_candidate *c)
{
  lls_plan_reject(s->plan, c->request, LLS_FINISH_CAPACITY);
  c->gone = true;
}

/* ---- real-time requests ------------------------------------------------------------ */

/* Removes the entries from the heap for which `out` is true. Popping a thousand requests
 * that can't run would take longer than the rest of the plan. */
static void leave_out(struct lls_pol_heap *h, const struct bros_candidate *like,
                      bool (*out)(const struct bros_candidate *like,
                                  const struct bros_candidate *))
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < h->n; i++)
    if (!out(like, h->entries[i].item))
      h->entries[n++] = h->entries[i];
  h->n = n;
  lls_pol_heap_build(h);
}

static bool has_missed(const struct bros_candidate *like, const struct bros_candidate *c)
{
  return !c->attainable && c->prompt == like->prompt;
}

static bool would_come(const struct bros_candidate *like, const struct bros_candidate *c)
{
  (void)like;
  return !bros_is_there(c);
}

/* Called when the time does not suffice for a request that has missed its deadline.
 * Leaves out all missed requests of its phase if the time does not suffice for one
 * token without context either, or if this was the MISFITS-th such request. */
static void skip_missed(struct bros *b, const struct bros_candidate *c)
{
  const struct bros_candidate least = {.tokens = 1, .prompt = c->prompt};
  if (++b->misfits[c->prompt] >= MISFITS || time_with(b, &least, NULL) > b->t_res)
    leave_out(&b->realtime, c, has_missed);
}

/* True if c runs however long it takes: it is the first of the batch, and either no
 * request can meet its deadline or c starves. */
static bool is_forced(const struct bros *b, const struct bros_candidate *c)
{
  return b->rt_ready.n == 0 && !b->cost_exit && (b->n_attainable == 0 || c->starved);
}

/* Handles a failed reservation. Returns true if packing may go on: the request was
 * rejected, or it is not on the device, so that requests on the device may still grow. */
static bool refused(struct bros *b, struct lls_pol_step *s, struct bros_candidate *c,
                    int rc)
{
  if (rc == LLS_RESERVE_NEVER)
    reject(s, c);
  else if (!bros_is_there(c))
    leave_out(&b->realtime, c, would_come);
  return rc == LLS_RESERVE_NEVER || !bros_is_there(c);
}

/* Tries to add a real-time request; returns false if no further one is to be tried. */
static bool try_realtime(struct bros *b, struct lls_pol_step *s, struct bros_candidate *c)
{
  bool forced = is_forced(b, c);
  uint32_t tokens = c->gone ? 0 : room_for(b, s, c);
  if (tokens == 0)
    return true;
  c->tokens = tokens;
  if (!forced && time_with(b, c, NULL) > b->t_res) {
    b->cost_exit = true;
    if (!c->attainable)
      skip_missed(b, c);
    return !c->attainable;
  }
  int rc = bros_reserve(b, s, c, true);
  if (rc != LLS_RESERVE_OK)
    return refused(b, s, c, rc);
  bros_accept(b, &b->rt_ready, c);
  b->n_forced += forced;
  if (c->starved)
    b->starved_ran_ns = b->view->now_ns;
  return true;
}

static void pack_realtime(struct bros *b, struct lls_pol_step *s)
{
  uint32_t seats = b->seats - (b->guaranteed && b->seats > 1);
  while (b->realtime.n > 0 && b->rt_ready.n < seats)
    if (!try_realtime(b, s, lls_pol_heap_pop(&b->realtime).item))
      return;
}

/* ---- best-effort requests ---------------------------------------------------------- */

/* Returns the time of the longest batch that keeps v in time if v is not in it: (6)
 * with x = 0. */
static double latest_end(const struct bros *b, const struct bros_candidate *v)
{
  return v->slack - (b->t_avg > 0 ? b->t_avg : 0);
}

/* True if c can replace the last real-time request of the batch. */
static bool can_replace(const struct bros *b, const struct bros_candidate *c)
{
  if (!b->params.replace || b->rt_ready.n == 0)
    return false;
  const struct bros_candidate *v = b->rt_ready.items[b->rt_ready.n - 1];
  double t = time_with(b, c, v);
  return v->attainable && v->n_dropped == b->dropped.n && batch_size(b) <= b->seats &&
         t <= b->t_res && t <= latest_end(b, v);
}

static bool fits(const struct bros *b, const struct bros_candidate *c)
{
  return batch_size(b) < b->seats && (b->guaranteed || time_with(b, c, NULL) <= b->t_res);
}

/* Takes the last real-time request out of the batch. The batch must still end early
 * enough for it. */
static void defer_last(struct bros *b)
{
  const struct bros_candidate *v = b->rt_ready.items[--b->rt_ready.n];
  LLS_POL_CHECK(v->attainable && v->n_dropped == b->dropped.n);
  b->t_res = fmin(b->t_res, latest_end(b, v));
  bros_load_remove(&b->load, v);
  b->n_deferred++;
  b->n_replaced++;
}

/* True if missing tokens of c should be restored during the step rather than before
 * it. */
static bool should_arrive(const struct bros *b, const struct bros_candidate *c)
{
  return c->missing > 0 && batch_size(b) > 0 && !b->guaranteed &&
         b->base.host->engine->async_transfers;
}

/* Adds c to `arriving`, unless it was displaced just now: then it waits for the next
 * plan. Returns false if the link has no time left, or memory is short. */
static bool try_arriving(struct bros *b, struct lls_pol_step *s, struct bros_candidate *c)
{
  struct bros_load load = b->load;
  load.beside += c->missing;
  if (c->request->state != LLS_PREEMPTED)
    return true;
  if (bros_time(&b->cost, &load) > b->t_res ||
      bros_reserve(b, s, c, false) != LLS_RESERVE_OK)
    return false;
  bros_push(&b->arriving, c);
  b->load = load;
  return true;
}

/* True if a prompt waits because the host has no room for it: real-time requests could
 * not displace it to the host and would have to drop it. It does not wait if nothing
 * else runs. */
static bool waits_for_host(const struct bros *b, const struct lls_pol_step *s,
                           const struct bros_candidate *c)
{
  return c->context == 0 && !b->guaranteed && batch_size(b) > 0 &&
         !bros_host_has_room(b, s, c);
}

static bool is_prompt(const struct bros_candidate *like, const struct bros_candidate *c)
{
  (void)like;
  return c->context == 0;
}

/* Called when a prompt has to wait: removes all prompts from the heap, but no displaced
 * requests, which come later in the order and free no memory before they end. Returns
 * false if none is displaced. */
static bool wait_for_displaced(struct bros *b, const struct bros_candidate *c)
{
  if (c->context > 0 || b->be_missing == 0)
    return false;
  leave_out(&b->best_effort, c, is_prompt);
  return true;
}

static bool try_best_effort(struct bros *b, struct lls_pol_step *s,
                            struct bros_candidate *c)
{
  uint32_t tokens = c->gone ? 0 : room_for(b, s, c);
  if (tokens == 0)
    return true;
  c->tokens = tokens;
  if (waits_for_host(b, s, c))
    return wait_for_displaced(b, c);
  if (should_arrive(b, c))
    return try_arriving(b, s, c);
  bool beside = fits(b, c);
  if (!beside && !can_replace(b, c))
    return false;
  int rc = bros_reserve(b, s, c, false);
  if (rc == LLS_RESERVE_NEVER)
    reject(s, c);
  if (rc != LLS_RESERVE_OK)
    return rc == LLS_RESERVE_NEVER || wait_for_displaced(b, c);
  if (!beside)
    defer_last(b);
  bros_accept(b, &b->be_ready, c);
  b->be_tokens += c->tokens;
  b->guaranteed = false;
  return true;
}

/* Returns the next best-effort request by Mcpu. Real-time requests may have displaced
 * slots since the plan began, so its missing tokens are read again; if there are more,
 * it is pushed back. */
static struct bros_candidate *next_best_effort(struct bros *b, struct lls_pol_step *s)
{
  while (b->best_effort.n > 0) {
    struct lls_pol_heap_entry e = lls_pol_heap_pop(&b->best_effort);
    struct bros_candidate *c = e.item;
    struct lls_cache_info info = {.size = sizeof info};
    if (c->fresh || c->context == 0 || b->rt_ready.n == 0)
      return c;
    c->fresh = true;
    if (s->cache->info(s->cache->context, c->request, &info) < 0 ||
        info.missing_tokens <= c->missing)
      return c;
    e.key = c->missing = info.missing_tokens;
    lls_pol_heap_push(&b->best_effort, e);
  }
  return NULL;
}

static void pack_best_effort(struct bros *b, struct lls_pol_step *s)
{
  struct bros_candidate *c;
  lls_pol_heap_build(&b->best_effort);
  while ((c = next_best_effort(b, s)) != NULL)
    if (!try_best_effort(b, s, c))
      break;
  if (batch_size(b) > 0 || c == NULL)
    return;
  /* no request runs: runs the head of the waiting ones, dropping others for it (step
   * 7) */
  if (bros_reserve(b, s, c, true) == LLS_RESERVE_OK)
    bros_accept(b, &b->be_ready, c);
}

/* ---- the batch --------------------------------------------------------------------- */

void bros_pack(struct bros *b, struct lls_pol_step *s)
{
  b->rt_ready.n = b->be_ready.n = b->arriving.n = b->dropped.n = b->n_deferred = 0;
  b->n_replaced = b->n_forced = 0;
  b->be_running = b->view->n_running;
  b->be_preempted = b->view->n_preempted;
  b->cost_exit = false;
  b->misfits[0] = b->misfits[1] = 0;
  b->load = (struct bros_load){0};
  pack_realtime(b, s);
  pack_best_effort(b, s);
  bros_settle(b, s);
  LLS_POL_CHECK(batch_size(b) <= b->seats);
}

static uint32_t tokens_of(const struct bros_list *ready)
{
  uint32_t tokens = 0;
  for (uint32_t i = 0; i < ready->n; i++)
    tokens += ready->items[i]->tokens;
  return tokens;
}

/* s->tokens was set for each candidate in turn: a run has its own, and its guesses take
 * of those that no request of the batch needs (*spare). */
static void emit(struct lls_pol_step *s, const struct bros_list *ready, bool prompts,
                 uint32_t *spare)
{
  for (uint32_t i = 0; i < ready->n; i++) {
    const struct bros_candidate *c = ready->items[i];
    if (c->prompt != prompts)
      continue;
    s->tokens = c->tokens + *spare;
    lls_pol_step_run(s, c->request, c->tokens);
    *spare = s->tokens;
  }
}

/* Prompts first, then decodes (section 6). */
void bros_emit(struct bros *b, struct lls_pol_step *s)
{
  uint32_t used = tokens_of(&b->rt_ready) + tokens_of(&b->be_ready);
  uint32_t most = s->view->max_tokens, spare = used < most ? most - used : 0;
  for (int prompts = 1; prompts >= 0; prompts--) {
    emit(s, &b->rt_ready, prompts, &spare);
    emit(s, &b->be_ready, prompts, &spare);
  }
  for (uint32_t i = 0; i < b->arriving.n; i++)
    lls_plan_add(s->plan, LLS_PLAN_UPLOAD, b->arriving.items[i]->request);
}
