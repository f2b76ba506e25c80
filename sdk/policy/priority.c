/* SPDX-License-Identifier: Apache-2.0 */
/* See priority.h. */
#include <llmserve/policy/priority.h>

#include <errno.h>
#include <stdlib.h>

int lls_pol_priority_init(struct lls_pol_priority *p, struct lls_pol_scheduler *scheduler,
                          lls_pol_ranked_key *key)
{
  uint32_t n = scheduler->host->engine->max_requests;
  p->deferred = malloc(n * sizeof *p->deferred);
  int rc = lls_pol_heap_init(&p->running, n);
  if (rc == 0)
    rc = lls_pol_ranked_init(&p->waiting, scheduler, key);
  return p->deferred != NULL ? rc : -ENOMEM;
}

void lls_pol_priority_free(struct lls_pol_priority *p)
{
  lls_pol_ranked_free(&p->waiting);
  lls_pol_heap_free(&p->running);
  free(p->deferred);
}

struct pass { /* one walk over the candidates, in order */
  struct lls_pol_priority *priority;
  const struct lls_pol_priority_rules *rules;
  const struct lls_engine_caps *engine;
  struct lls_pol_step *step;
  bool prompts_only, decodes_only;
  bool full;       /* no further request is admitted in this step */
  uint32_t budget; /* prompt tokens in the step */
  uint32_t seats;  /* sequences that may still be added */
};

static bool off_device(const struct lls_request *r)
{
  return r->state == LLS_WAITING || r->state == LLS_PREEMPTED;
}

static struct lls_pol_heap_entry entry_of(const struct lls_pol_priority *p,
                                          const struct lls_request *r)
{
  return (struct lls_pol_heap_entry){
      .key = p->waiting.key(p->waiting.scheduler, r), .tie = r->id, .item = (void *)r};
}

static void add_candidates(struct lls_pol_priority *p,
                           const struct lls_pol_priority_rules *rules,
                           const struct lls_request *const *list, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (rules->leaves == NULL || !rules->leaves(p->waiting.scheduler, list[i]))
      p->running.entries[p->running.n++] = entry_of(p, list[i]);
}

/* ---- room ----------------------------------------------------------------------- */

/* Finds the last running candidate in order not yet considered, if it comes after e. */
static bool find_victim(const struct lls_pol_heap *running,
                        const struct lls_pol_heap_entry *e, uint32_t *at)
{
  bool found = false;
  for (uint32_t i = 0; i < running->n; i++)
    if (!off_device(running->entries[i].item) &&
        lls_pol_heap_before(found ? &running->entries[*at] : e, &running->entries[i])) {
      *at = i;
      found = true;
    }
  return found;
}

static bool evict(struct pass *p, const struct lls_pol_heap_entry *e)
{
  uint32_t at;
  if (!find_victim(&p->priority->running, e, &at) ||
      !lls_pol_step_take_off(p->step, p->priority->running.entries[at].item))
    return false;
  lls_pol_heap_remove(&p->priority->running, at);
  p->step->tail--;
  return true;
}

/* Takes off a request that finds no memory though it is alone on the device: its blocks
 * lie such that they can't grow. When it begins again they lie elsewhere; else no request
 * would ever run. */
static void start_over(struct pass *p, const struct lls_request *r)
{
  if (p->step->runs == 0 && p->priority->running.n == 0 &&
      lls_pol_step_take_off(p->step, r))
    p->step->tail--;
}

/* Reserves memory for a running request, if need be by evicting requests after it. */
static bool grow(struct pass *p, const struct lls_pol_heap_entry *e, uint32_t tokens)
{
  int rc;
  while ((rc = lls_pol_step_reserve(p->step, e->item, tokens)) == LLS_RESERVE_LATER)
    if (!evict(p, e)) {
      start_over(p, e->item);
      return false;
    }
  if (rc != LLS_RESERVE_OK)
    lls_plan_reject(p->step->plan, e->item, LLS_FINISH_CAPACITY);
  return rc == LLS_RESERVE_OK;
}

static const struct lls_request *find(const struct pass *p, uint64_t id)
{
  const struct lls_host *host = p->priority->waiting.backlog.host;
  return host->find(host->context, id);
}

/* Admits e, keeping the watermark free; evicts later requests if the rules allow it.
 * Evictions that do not free enough are rolled back. */
static enum lls_pol_step_answer
make_room(struct pass *p, const struct lls_pol_heap_entry *e, uint32_t pending)
{
  struct lls_pol_step *s = p->step;
  struct lls_pol_heap *running = &p->priority->running;
  uint32_t mark = s->cache->mark(s->cache->context), items = s->plan->n_items;
  uint32_t preempted = s->preempted;
  enum lls_pol_step_answer answer = lls_pol_step_admit(s, e->item, pending);
  while (answer == LLS_POL_STEP_NOT_NOW && p->rules->evict && evict(p, e))
    answer = lls_pol_step_admit(s, e->item, pending);
  if (answer != LLS_POL_STEP_NOT_NOW || s->preempted == preempted)
    return answer;
  s->cache->rollback(s->cache->context, mark);
  for (uint32_t i = items; i < s->plan->n_items; i++)
    lls_pol_heap_push(running, entry_of(p->priority, find(p, s->plan->items[i].request)));
  s->tail += s->preempted - preempted;
  s->preempted = preempted;
  s->plan->n_items = items;
  return answer;
}

/* ---- candidates ----------------------------------------------------------------- */

static uint32_t tokens_of(const struct pass *p, const struct lls_request *r,
                          uint32_t pending)
{
  return lls_request_decodes(r) ? lls_pol_step_decode_tokens(p->step, r)
                                : lls_pol_step_chunk(p->step, p->engine, pending,
                                                     p->budget, p->rules->whole);
}

static void run_one(struct pass *p, const struct lls_pol_heap_entry *e)
{
  uint32_t pending = lls_request_pending(e->item);
  uint32_t tokens = tokens_of(p, e->item, pending);
  if (tokens == 0 || !grow(p, e, pending))
    return;
  lls_pol_step_run(p->step, e->item, tokens);
  p->seats--;
}

static void begin_one(struct pass *p, const struct lls_pol_heap_entry *e)
{
  uint32_t pending = lls_pol_step_pending(p->step, e->item);
  if (lls_pol_step_too_long(p->step, p->engine, e->item, pending))
    return;
  uint32_t tokens = tokens_of(p, e->item, pending);
  enum lls_pol_step_answer answer =
      tokens > 0 ? make_room(p, e, pending) : LLS_POL_STEP_NOT_NOW;
  if (answer == LLS_POL_STEP_NOT_NOW)
    p->full = true;
  if (answer != LLS_POL_STEP_YES)
    return;
  lls_pol_step_run(p->step, e->item, tokens);
  p->seats--;
}

/* Takes the first candidate of both heaps; one that runs is removed from its heap.
 * Returns false if none is left. */
static bool next(struct pass *p, struct lls_pol_heap_entry *out)
{
  struct lls_pol_heap *running = &p->priority->running;
  struct lls_pol_ranked *waiting = &p->priority->waiting;
  while (!p->full && !p->rules->closed && waiting->heap.n > 0 &&
         (running->n == 0 ||
          lls_pol_heap_before(&waiting->heap.entries[0], &running->entries[0]))) {
    *out = waiting->heap.entries[0];
    if (p->rules->uploaded &&
        ((const struct lls_request *)out->item)->state == LLS_PREEMPTED) {
      p->full = true; /* free memory is kept for its upload */
      break;
    }
    if (lls_pol_backlog_take(&waiting->backlog, out->item))
      return true;
  }
  if (running->n == 0)
    return false;
  *out = lls_pol_heap_pop(running);
  return true;
}

static void consider(struct pass *p, const struct lls_pol_heap_entry *e)
{
  struct lls_pol_priority *q = p->priority;
  bool decode = lls_request_decodes(e->item), off = off_device(e->item);
  if (decode && p->prompts_only) {
    q->deferred[q->n_deferred++] = *e;
    p->seats--;
  } else if (!decode && p->decodes_only) {
    return;
  } else if (!off) {
    run_one(p, e);
  } else if (!p->full) {
    lls_pol_backlog_take(&q->waiting.backlog, e->item);
    begin_one(p, e);
  }
}

static void walk(struct pass *p)
{
  struct lls_pol_heap_entry e;
  while (p->seats > 0 && p->step->tokens > 0 && p->step->sequences > 0 && next(p, &e))
    consider(p, &e);
}

/* No prompt could run: considers the decodes deferred for prompts and all after them. */
static void walk_decodes(struct pass *p, uint32_t seats)
{
  struct lls_pol_priority *q = p->priority;
  for (uint32_t i = 0; i < q->n_deferred; i++)
    lls_pol_heap_push(&q->running, q->deferred[i]);
  p->prompts_only = false;
  p->decodes_only = true;
  p->seats = seats;
  walk(p);
}

/* ---- memory ahead of need -------------------------------------------------------- */

/* Offloads r if the host has room for it and the *leaving units offloaded so far. */
static bool leave(struct pass *p, const struct lls_request *r, uint32_t *leaving)
{
  const struct lls_cache_service *cache = p->step->cache;
  struct lls_cache_info info = {.size = sizeof info};
  struct lls_capacity host = {.size = sizeof host};
  cache->info(cache->context, r, &info);
  cache->capacity(cache->context, LLS_TIER_HOST, &host);
  if (*leaving + info.device_units > host.free_units)
    return false;
  *leaving += info.device_units;
  lls_plan_add(p->step->plan, LLS_PLAN_OFFLOAD, r);
  return true;
}

/* Offloads requests that were not chosen, the last in order first, until rules->reserve
 * units are free. Returns true if any was offloaded. */
static bool keep_free(struct pass *p)
{
  static const struct lls_pol_heap_entry before_all = {.key = INT64_MIN};
  struct lls_pol_heap *running = &p->priority->running;
  uint32_t at, leaving = 0, n = running->n;
  while (lls_pol_step_free_units(p->step) + leaving < p->rules->reserve &&
         find_victim(running, &before_all, &at) &&
         leave(p, running->entries[at].item, &leaving)) {
    lls_pol_heap_remove(running, at);
    p->step->tail--;
  }
  return running->n < n;
}

/* Brings requests whose turn comes next from the host while others compute, as long as
 * the reserve stays free. */
static void bring_in(struct pass *p)
{
  const struct lls_cache_service *cache = p->step->cache;
  struct lls_pol_ranked *waiting = &p->priority->waiting;
  void *soon[LLS_POL_HEAP_LOOKED_AT];
  uint32_t free_units = lls_pol_step_free_units(p->step);
  uint32_t n =
      lls_pol_heap_first(&waiting->heap, (uint32_t)p->rules->params->max_seqs, soon);
  for (uint32_t i = 0; i < n; i++) {
    const struct lls_request *r = soon[i];
    struct lls_need need = {.size = sizeof need};
    if (r->state != LLS_PREEMPTED)
      continue;
    cache->need(cache->context, r, lls_request_pending(r), LLS_FORM_NONE, &need);
    uint32_t units = need.new_units + need.restore_units;
    if (units + p->rules->reserve > free_units)
      return;
    if (lls_pol_backlog_take(&waiting->backlog, r))
      lls_plan_add(p->step->plan, LLS_PLAN_UPLOAD, r);
    free_units -= units;
  }
}

/* FastServe, section 4.2: frees memory before it is needed; if enough is free, uploads
 * the requests that run soon. */
static void look_ahead(struct pass *p)
{
  if (!keep_free(p) && !p->full && p->step->preempted == 0)
    bring_in(p);
}

static void set_candidates(struct lls_pol_priority *q,
                           const struct lls_pol_priority_rules *rules,
                           const struct lls_step_view *view)
{
  q->n_deferred = 0;
  q->running.n = 0;
  add_candidates(q, rules, view->running, view->n_running);
  if (rules->closed)
    add_candidates(q, rules, view->preempted, view->n_preempted);
  lls_pol_heap_build(&q->running);
}

void lls_pol_priority_plan(struct lls_pol_priority *q,
                           const struct lls_pol_priority_rules *rules,
                           const struct lls_step_view *view, struct lls_plan *out)
{
  struct lls_pol_step s;
  const struct lls_engine_caps *engine = q->waiting.backlog.host->engine;
  uint32_t seats = lls_pol_min((uint32_t)rules->params->max_seqs, view->max_sequences);
  lls_pol_step_begin(&s, view, out, rules->params->watermark);
  lls_pol_step_drafts(&s, q->waiting.backlog.host->cost);
  lls_pol_backlog_begin(&q->waiting.backlog, view);
  set_candidates(q, rules, view);
  struct pass p = {
      .priority = q,
      .rules = rules,
      .engine = engine,
      .step = &s,
      .prompts_only = !engine->mixed_batch,
      .budget = lls_pol_min((uint32_t)rules->params->max_tokens, view->max_tokens),
      .seats = seats,
  };
  walk(&p);
  if (p.prompts_only && s.runs == 0)
    walk_decodes(&p, seats);
  if (rules->reserve > 0)
    look_ahead(&p);
  lls_pol_backlog_end(&q->waiting.backlog, out);
  lls_pol_step_end(&s);
}
