/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running batch (the paper's Algorithm 2). Memory for its next tokens is freed by
 * preempting requests that do not run, then the remainder of the batch before or the
 * longest running requests. If no running request was preempted, spare ones are admitted,
 * the nearest to the median length first (batching = fcfs: the oldest).
 */
#include "aligned.h"

uint32_t decode_headroom(const struct aligned *a, const struct lls_pol_step *s,
                         uint32_t n)
{
  uint64_t tokens = (uint64_t)n * (uint64_t)a->params.headroom_iters;
  uint64_t units =
      s->watermark_units +
      a->fit.growth_units * ((tokens + a->block_tokens - 1) / a->block_tokens);
  return units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

uint32_t decode_units(struct aligned *a, const struct lls_pol_step *s,
                      const struct lls_request *r)
{
  struct lls_need need = {.size = sizeof need};
  bool offered = member_of(a, r)->offered;
  s->cache->need(s->cache->context, r, offered ? r->cached_tokens : 1, LLS_FORM_NONE,
                 &need);
  return need.new_units + need.restore_units;
}

/* ---- room -------------------------------------------------------------------------- */

/* Preempts a request, or sends it back to a prefill instance, and sets its place. */
static bool take_off(struct aligned *a, struct lls_pol_step *s, uint32_t slot,
                     enum place place)
{
  if (!lls_pol_step_take_off(s, a->members[slot].request))
    return false;
  bool dropped = s->plan->items[s->plan->n_items - 1].mode == LLS_PREEMPT_RECOMPUTE;
  a->members[slot].named = a->plans;
  members_set(a, slot, dropped ? QUEUE : place, s->view->now_ns);
  return true;
}

/* Preempts the newest resident request that does not run, of the pool, else of the next
 * batch, else of this one; with `prompts` also a prompt that was begun. */
static bool take_off_another(struct aligned *a, struct lls_pol_step *s, bool prompts)
{
  static const enum place order[] = {POOL, NEXT, SPARE, QUEUE};
  for (uint32_t k = 0; k < (prompts ? 4 : 3); k++)
    for (uint32_t i = s->view->n_running; i-- > 0;) {
      const struct lls_request *r = s->view->running[i];
      const struct member *m = member_of(a, r);
      if (m->place != order[k] || m->named == a->plans ||
          (m->place == QUEUE && !m->partial))
        continue;
      if (take_off(a, s, r->slot, m->place == NEXT ? POOL : m->place))
        return true;
    }
  return false;
}

static bool is_switching(const struct aligned *a)
{
  for (uint32_t i = 1; i < a->n_running; i++)
    if (a->members[a->running[i]].tag != a->members[a->running[0]].tag)
      return true;
  return false;
}

static uint32_t newest_tag(const struct aligned *a)
{
  uint32_t newest = 0;
  for (uint32_t i = 0; i < a->n_running; i++)
    if (a->members[a->running[i]].tag > newest)
      newest = a->members[a->running[i]].tag;
  return newest;
}

static bool is_longer(const struct aligned *a, uint32_t slot, uint32_t than)
{
  uint32_t length = length_of(a, slot), other = length_of(a, than);
  return length > other || (length == other && a->members[slot].id > a->members[than].id);
}

uint32_t decode_choose_victim(struct aligned *a)
{
  const struct lls_host *host = a->base.host;
  uint32_t newest = newest_tag(a), best = UINT32_MAX, n = 0;
  bool switching = is_switching(a);
  for (uint32_t i = 0; i < a->n_running; i++) {
    if (switching && a->members[a->running[i]].tag == newest)
      continue;
    n++;
    bool chosen = best == UINT32_MAX;
    if (!chosen && a->params.victim == VICTIM_RANDOM)
      chosen = host->random(host->context, 0) % n == 0;
    else if (!chosen)
      chosen = is_longer(a, a->running[i], a->running[best]);
    best = chosen ? i : best;
  }
  return best;
}

static bool at_block_end(const struct aligned *a, uint32_t slot)
{
  return length_of(a, slot) % a->block_tokens == 0;
}

/* Returns the blocks for the next token of each running request (the condition in
 * Algorithm 2). */
uint32_t decode_need(const struct aligned *a)
{
  uint32_t blocks = 0;
  for (uint32_t i = 0; i < a->n_running; i++)
    blocks += at_block_end(a, a->running[i]);
  return blocks;
}

/* Preempts before memory is short if victims leave over the link between instances, which
 * takes a step or two: when half of the headroom is used. Requests that do not run leave
 * first. */
static uint32_t leave_early(struct aligned *a, struct lls_pol_step *s)
{
  uint64_t tokens = (uint64_t)a->n_running * (uint64_t)a->params.headroom_iters / 2;
  uint64_t need = a->fit.growth_units * (decode_need(a) + tokens / a->block_tokens);
  uint32_t left = 0;
  while (a->n_running > 1 && need > lls_pol_step_free_units(s) + a->leaving_units) {
    uint32_t slot = a->running[decode_choose_victim(a)];
    struct member *m = &a->members[slot];
    bool switching = is_switching(a);
    if (!is_resident(a, slot) || !home_send(a, s, slot))
      break;
    m->spare_id = switching ? 0 : m->id;
    m->spare_tag = a->tag;
    lls_pol_scheduler_count(&a->base, "evicted", 1);
    left++;
  }
  return left;
}

/* Steps 2 and 3: frees memory; returns how many running requests were preempted. */
static uint32_t make_room(struct aligned *a, struct lls_pol_step *s)
{
  uint32_t need = a->fit.growth_units * decode_need(a), left = 0;
  uint32_t free_units = lls_pol_step_free_units(s);
  while (need > free_units) {
    if (!take_off_another(a, s, a->n_running < 2)) {
      if (a->n_running < 2)
        break;
      enum place place = is_switching(a) ? POOL : SPARE;
      uint32_t slot = a->running[decode_choose_victim(a)];
      need -= at_block_end(a, slot) ? a->fit.growth_units : 0;
      if (!take_off(a, s, slot, place))
        break;
      lls_pol_scheduler_count(&a->base, "evicted", 1);
      left++;
    }
    free_units = lls_pol_step_free_units(s);
  }
  return left;
}

/* ---- running ----------------------------------------------------------------------- */

/* Makes running requests spare that are off the device: the plan that was to bring them
 * was not carried out. */
static void put_back_absent(struct aligned *a, int64_t now_ns)
{
  for (uint32_t i = a->n_running; i-- > 0;)
    if (!is_resident(a, a->running[i]))
      members_set(a, a->running[i], SPARE, now_ns);
}

/* Reserves the next tokens of the only running request, if need be by preempting all
 * others. The caller makes sure that the request is not its own victim. */
static int reserve_alone(struct aligned *a, struct lls_pol_step *s,
                         const struct lls_request *r)
{
  uint32_t tokens = lls_pol_step_decode_tokens(s, r);
  int rc = lls_pol_step_reserve(s, r, tokens);
  while (rc == LLS_RESERVE_LATER && take_off_another(a, s, true))
    rc = lls_pol_step_reserve(s, r, tokens);
  return rc;
}

/* Runs a request. Its memory was only estimated: if the reservation fails, the request is
 * preempted, or, if it runs alone, requests that do not run are. With regions (cache
 * contiguous) it may need far more than the block that was estimated. */
static bool run_one(struct aligned *a, struct lls_pol_step *s, uint32_t slot)
{
  const struct lls_request *r = a->members[slot].request;
  bool alone = a->n_running == 1;
  uint32_t tokens = lls_pol_step_decode_tokens(s, r);
  int rc = alone ? reserve_alone(a, s, r) : lls_pol_step_reserve(s, r, tokens);
  if (rc == LLS_RESERVE_OK)
    lls_pol_step_run(s, r, tokens);
  else if (rc !=
           LLS_RESERVE_LATER) /* the request could not grow even if alone in memory */
    members_reject(a, s, slot);
  else
    return !alone && take_off(a, s, slot, SPARE);
  return false;
}

static bool run_all(struct aligned *a, struct lls_pol_step *s)
{
  bool left = false;
  uint32_t mixed = is_switching(a);
  for (uint32_t i = 0; i < a->n_running && s->tokens > 0 && s->sequences > 0;) {
    uint32_t slot = a->running[i];
    left |= run_one(a, s, slot);
    i += a->members[slot].place == RUNNING;
  }
  if (s->runs > 0) {
    a->steps++;
    uint64_t blocks = batch_blocks(a);
    a->peak_blocks = blocks > a->peak_blocks ? blocks : a->peak_blocks;
    lls_pol_scheduler_count(&a->base, "steps", 1);
    lls_pol_scheduler_count(&a->base, "mixed_steps", mixed);
  }
  return left;
}

/* ---- admission -------------------------------------------------------------------- */

struct door { /* what one plan may still admit */
  uint32_t seats;
  uint32_t free_units;
  bool shut; /* a request on the device already had no room to grow */
};

static bool needs_a_copy(const struct aligned *a, uint32_t slot)
{
  const struct member *m = &a->members[slot];
  return m->offered || m->named == a->plans || m->request->state == LLS_MOVING ||
         (m->request->state == LLS_PREEMPTED && a->ahead && a->n_running > 0);
}

/* Step 4: true if memory and headroom suffice for the request, or no request runs. */
static bool has_room(struct aligned *a, const struct lls_pol_step *s, struct door *d,
                     uint32_t slot)
{
  bool here = is_resident(a, slot);
  uint32_t units = a->fit.growth_units;
  if (!here)
    units = decode_units(a, s, a->members[slot].request);
  else if (!at_block_end(a, slot))
    units = 0;
  bool room =
      a->n_running == 0 ||
      (d->free_units >= (uint64_t)units + decode_headroom(a, s, a->n_running + 1) &&
       units_of(a, length_of(a, slot)) <= batch_room(a, s));
  d->shut |= !room && here;
  return room;
}

/* Tries to run a spare request. Returns true if it is no longer SPARE. */
static bool let_in(struct aligned *a, struct lls_pol_step *s, struct door *d,
                   uint32_t slot)
{
  const struct lls_request *r = a->members[slot].request;
  if (needs_a_copy(a, slot) || !has_room(a, s, d, slot))
    return false;
  uint32_t tokens = lls_pol_step_decode_tokens(s, r);
  int rc = lls_pol_step_reserve(s, r, tokens);
  if (rc == LLS_RESERVE_LATER && a->n_running == 0) {
    members_set(a, slot, QUEUE, 0); /* otherwise the request could be its own victim */
    rc = reserve_alone(a, s, r);
    members_set(a, slot, SPARE, 0);
  }
  if (rc == LLS_RESERVE_LATER)
    return false;
  if (rc == LLS_RESERVE_OK) {
    members_set(a, slot, RUNNING, s->view->now_ns);
    lls_pol_step_run(s, r, tokens);
  } else {
    members_reject(a, s, slot);
  }
  d->free_units = lls_pol_step_free_units(s);
  return true;
}

/* Returns the spare request with the least id above `id`; TREE_NIL if there is none. */
static uint32_t spare_after(const struct aligned *a, uint64_t id)
{
  uint32_t best = TREE_NIL;
  for (uint32_t i = 0; i < a->spare.n; i++) {
    const struct member *m = &a->members[a->spare.slots[i]];
    if (m->id > id && (best == TREE_NIL || m->id < a->members[best].id))
      best = a->spare.slots[i];
  }
  return best;
}

/* batching = fcfs: a request that waits for a copy is skipped; one that waits for memory
 * ends the admission. */
static void let_in_by_arrival(struct aligned *a, struct lls_pol_step *s, struct door *d)
{
  uint32_t slot = spare_after(a, 0);
  while (slot != TREE_NIL && a->n_running < d->seats && s->sequences > 0 &&
         s->tokens > 0) {
    uint64_t id = a->members[slot].id;
    if (!let_in(a, s, d, slot) && !needs_a_copy(a, slot))
      return;
    slot = spare_after(a, id);
  }
}

/* Steps 5 and 6: the nearest to the median first, ties to the shorter. */
static void let_in_nearest(struct aligned *a, struct lls_pol_step *s, struct door *d)
{
  struct buffer *b = &a->spare;
  if (b->n == 0)
    return;
  uint32_t median = batch_median(a), right = buffer_find(a, b, median + 1);
  uint32_t left = right; /* one after the next one on the left */
  while (a->n_running < d->seats && s->sequences > 0 && s->tokens > 0 && !d->shut &&
         (left > 0 || right < b->n)) {
    bool to_left =
        right == b->n || (left > 0 && median - length_of(a, b->slots[left - 1]) <=
                                          length_of(a, b->slots[right]) - median);
    uint32_t n = b->n;
    bool gone = let_in(a, s, d, b->slots[to_left ? left - 1 : right]);
    if (n - b->n != gone) /* other spare requests were dropped to make room */
      return;
    left -= to_left;
    right += to_left ? -(uint32_t)gone : !gone;
  }
}

static void let_in_spare(struct aligned *a, struct lls_pol_step *s, struct door *d)
{
  if (a->params.batching == BATCHING_FCFS)
    let_in_by_arrival(a, s, d);
  else
    let_in_nearest(a, s, d);
}

static void let_others_in(struct aligned *a, struct lls_pol_step *s, uint32_t seats)
{
  struct door door = {.seats = seats, .free_units = lls_pol_step_free_units(s)};
  bool now = a->params.prefetch == PREFETCH_OFF; /* the next batch is made when it runs */
  let_in_spare(a, s, &door);
  if (a->spare.n == 0 && (a->n_running == 0 || (now && batch_is_low(a, s, 1))))
    batch_form(a, s);
  if (a->n_running == 0 && batch_is_due(a, s)) {
    batch_switch(a, s);
    let_in_spare(a, s, &door);
  }
  if (!now && batch_is_low(a, s, a->params.bring_at))
    batch_form(a, s);
  batch_fill(a, s, seats);
}

/* ---- when nothing moves ------------------------------------------------------------ */

/* Returns the oldest request on the device, or else on the host. */
static uint32_t find_oldest(const struct aligned *a, const struct lls_step_view *view)
{
  for (uint32_t i = 0; i < view->n_running; i++)
    if (a->members[view->running[i]->slot].place != QUEUE)
      return view->running[i]->slot;
  for (uint32_t i = 0; i < view->n_preempted; i++)
    if (a->members[view->preempted[i]->slot].place != QUEUE)
      return view->preempted[i]->slot;
  return TREE_NIL;
}

/* Takes over one offer that fits: the offers may fill the memory of their instance, which
 * then has none to bring the next batch to its device. */
static void take_any(struct aligned *a, struct lls_pol_step *s)
{
  for (uint32_t i = 0; i < s->view->n_offered; i++) {
    const struct lls_request *r = s->view->offered[i];
    if (r->residency == LLS_RESIDENT_DEVICE) {
      members_set(a, r->slot, SPARE, s->view->now_ns);
      return;
    }
  }
}

/* Runs one request if memory is divided such that no batch fits. */
static void force_one(struct aligned *a, struct lls_pol_step *s)
{
  struct door door = {.seats = 1, .free_units = lls_pol_step_free_units(s)};
  uint32_t slot = find_oldest(a, s->view);
  if (slot == TREE_NIL) {
    take_any(a, s);
    return;
  }
  members_set(a, slot, SPARE, s->view->now_ns);
  let_in(a, s, &door, slot);
}

/* Ends a deadlock: requests returning to another instance may wait for memory that offers
 * hold there, and these offers for memory that the returning ones hold here. Offers that
 * fit are taken over, other offers go to the host there, and no batch is brought here
 * until a request runs or all returning ones have left. */
static void give_way(struct aligned *a, struct lls_pol_step *s)
{
  uint64_t free_units = lls_pol_step_free_units(s);
  a->gives_way = a->idle_plans > 3 && a->n_leaving > 0;
  for (uint32_t i = 0; i < s->view->n_offered && a->gives_way; i++) {
    const struct lls_request *r = s->view->offered[i];
    members_set(a, r->slot, POOL, s->view->now_ns);
    if (r->residency != LLS_RESIDENT_DEVICE)
      continue;
    uint32_t units = decode_units(a, s, r);
    if (units > free_units) {
      lls_plan_add(s->plan, LLS_PLAN_OFFLOAD, r);
      continue;
    }
    lls_plan_migrate(s->plan, r, s->view->instance);
    free_units -= units;
  }
}

void decode_plan(struct aligned *a, struct lls_pol_step *s)
{
  uint32_t seats = lls_pol_min(s->view->max_sequences, s->view->max_tokens);
  put_back_absent(a, s->view->now_ns);
  give_way(a, s);
  if (a->n_running > 0 && batch_is_due(a, s))
    batch_switch(a, s);
  bool left = a->remote && leave_early(a, s) > 0;
  left |= make_room(a, s) > 0;
  left |= run_all(a, s);
  if (!left)
    let_others_in(a, s, seats);
  a->idle_plans = s->runs == 0 && s->view->n_moving == 0 ? a->idle_plans + 1 : 0;
  if (a->idle_plans > 3)
    force_one(a, s);
}
