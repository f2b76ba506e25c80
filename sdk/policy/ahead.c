/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement of requests on the device (ALISE, section 3.3, algorithm 2): the first
 * requests in order that fit together should be resident. Chosen requests on the host are
 * uploaded, resident requests that were not chosen are offloaded, both while the step
 * computes. So a request's memory is moved before its turn and no step waits for it.
 *
 * Order: level, then estimated waiting time. The latter is 0 for a request that ran in
 * the last step. Otherwise, in a level of long jobs that wait for promotion, a request on
 * the host would rank before the resident ones until its upload completes, and the two
 * groups would swap for ever. Of the requests off the device only the first
 * LLS_POL_HEAP_LOOKED_AT are considered: more could not be admitted in the next steps. An
 * upload uses free memory only, so it evicts no request; offloaded requests rank after
 * all uploaded ones.
 */
#include <llmserve/policy/ahead.h>

#include <errno.h>
#include <stdlib.h>

int lls_pol_ahead_init(struct lls_pol_ahead *a, uint32_t max_requests)
{
  a->jobs = malloc((max_requests + (size_t)LLS_POL_HEAP_LOOKED_AT) * sizeof *a->jobs);
  a->leaves = calloc(max_requests, sizeof *a->leaves);
  return a->jobs != NULL && a->leaves != NULL ? 0 : -ENOMEM;
}

void lls_pol_ahead_free(struct lls_pol_ahead *a)
{
  free(a->jobs);
  free(a->leaves);
}

/* ---- the candidates ---------------------------------------------------------------- */

void lls_pol_ahead_begin(struct lls_pol_ahead *a, const struct lls_step_view *view)
{
  struct lls_capacity c = {.size = sizeof c};
  view->cache->capacity(view->cache->context, LLS_TIER_DEVICE, &c);
  a->view = view;
  a->n = 0;
  a->units = a->free_units = c.free_units;
}

void lls_pol_ahead_add(struct lls_pol_ahead *a,
                       const struct lls_pol_ahead_candidate *candidate)
{
  const struct lls_cache_service *cache = a->view->cache;
  const struct lls_request *r = candidate->request;
  struct lls_pol_ahead_candidate *j = &a->jobs[a->n++];
  struct lls_cache_info info = {.size = sizeof info};
  struct lls_need need = {.size = sizeof need};
  *j = *candidate;
  j->decision = LLS_POL_AHEAD_STAYS;
  j->on_device = r->state == LLS_PREFILLING || r->state == LLS_DECODING;
  if (j->on_device) {
    cache->info(cache->context, r, &info);
    j->units = info.device_units;
    a->units += j->units;
  } else {
    cache->need(cache->context, r, lls_request_pending(r), LLS_FORM_NONE, &need);
    j->units = need.new_units + need.restore_units;
  }
}

/* ---- the decision ------------------------------------------------------------------ */

static int compare_numbers(int64_t a, int64_t b)
{
  return (a > b) - (a < b);
}

/* Orders candidates by level, estimated waiting time, key and arrival. */
static int in_order(const void *left, const void *right)
{
  const struct lls_pol_ahead_candidate *a = left, *b = right;
  int order = compare_numbers(a->level, b->level);
  if (order == 0)
    order = compare_numbers(a->ewt, b->ewt);
  if (order == 0)
    order = compare_numbers(a->key, b->key);
  return order != 0 ? order
                    : compare_numbers((int64_t)a->request->id, (int64_t)b->request->id);
}

/*
 * A request is uploaded only if `margin` units stay free, for resident requests to grow
 * into. A resident request stays if a quarter of the margin is left; with the full margin
 * asked of it, each upload would be offloaded again soon. The first request off the
 * device that does not fit blocks all uploads after it. A blocked request takes no room,
 * so no resident request after it is offloaded for its sake.
 */
void lls_pol_ahead_decide(struct lls_pol_ahead *a, uint32_t seats, uint32_t margin)
{
  int64_t left = (int64_t)a->units, now = (int64_t)a->free_units;
  bool blocked = false;
  qsort(a->jobs, a->n, sizeof *a->jobs, in_order);
  for (uint32_t i = 0; i < a->n; i++) {
    struct lls_pol_ahead_candidate *j = &a->jobs[i];
    int64_t units = j->units, spare = i == 0 ? 0 : margin; /* the first needs no margin */
    if (j->on_device) {
      bool stays = units + spare / 4 <= left && i < seats;
      left -= stays ? units : 0;
      j->decision = stays ? LLS_POL_AHEAD_STAYS : LLS_POL_AHEAD_LEAVES;
      blocked |= !stays; /* no upload takes its place */
      continue;
    }
    blocked |= units + spare > left || i >= seats;
    if (blocked)
      continue;
    if (units + spare <= now && j->request->state == LLS_PREEMPTED)
      j->decision = LLS_POL_AHEAD_COMES;
    left -= units;
    now -= units; /* reserved for it, uploaded now or later */
  }
}

/* ---- around a plan ----------------------------------------------------------------- */

bool lls_pol_ahead_is_possible(const struct lls_host *host,
                               const struct lls_step_view *view)
{
  return view->preempt_mode == LLS_PREEMPT_SWAP && host->engine->async_transfers;
}

/* Units to keep free: the watermark, and one unit for each running request, which may
 * grow into a new block before the next decision. */
static uint32_t margin_of(const struct lls_pol_ahead *a,
                          const struct lls_pol_priority_params *params)
{
  return (uint32_t)((double)a->units * params->watermark) + a->view->n_running;
}

bool lls_pol_ahead_look(struct lls_pol_ahead *a, struct lls_pol_priority *p,
                        const struct lls_pol_priority_params *params,
                        const struct lls_step_view *view, lls_pol_ahead_rank *rank)
{
  void *first[LLS_POL_HEAP_LOOKED_AT];
  struct lls_pol_ranked *waiting = &p->waiting;
  struct lls_pol_ahead_candidate c = {0};
  lls_pol_backlog_begin(&waiting->backlog, view);
  uint32_t n = lls_pol_heap_first(&waiting->heap, LLS_POL_HEAP_LOOKED_AT, first);
  if (n == 0)
    return false;
  lls_pol_ahead_begin(a, view);
  for (uint32_t i = 0; i < n + view->n_running; i++) {
    c.request = i < n ? first[i] : view->running[i - n];
    rank(waiting->scheduler, view->now_ns, &c);
    lls_pol_ahead_add(a, &c);
  }
  lls_pol_ahead_decide(a, lls_pol_min((uint32_t)params->max_seqs, view->max_sequences),
                       margin_of(a, params));
  for (uint32_t i = 0; i < a->n; i++)
    if (a->jobs[i].decision == LLS_POL_AHEAD_LEAVES)
      a->leaves[a->jobs[i].request->slot] = view->step + 1;
  return true;
}

bool lls_pol_ahead_leaves(const struct lls_pol_ahead *a, const struct lls_request *r)
{
  return a->leaves[r->slot] == a->view->step + 1;
}

/* Offloads a request. If the host is full, which only the last requests in order meet,
 * drops its cache instead. */
static void send_away(const struct lls_pol_ahead *a, struct lls_pol_backlog *backlog,
                      const struct lls_pol_ahead_candidate *j, uint32_t *host_units,
                      struct lls_plan *out)
{
  const struct lls_cache_service *cache = a->view->cache;
  if (j->units <= *host_units) {
    *host_units -= j->units;
    lls_plan_add(out, LLS_PLAN_OFFLOAD, j->request);
  } else if (cache->preempt(cache->context, j->request, LLS_PREEMPT_RECOMPUTE) == 0) {
    lls_plan_preempt(out, j->request, LLS_PREEMPT_RECOMPUTE);
    lls_pol_backlog_note(backlog, j->request);
  }
}

void lls_pol_ahead_move(struct lls_pol_ahead *a, struct lls_pol_backlog *backlog,
                        struct lls_plan *out)
{
  const struct lls_cache_service *cache = a->view->cache;
  struct lls_capacity host = {.size = sizeof host};
  cache->capacity(cache->context, LLS_TIER_HOST, &host);
  for (uint32_t i = 0; i < a->n; i++) {
    const struct lls_pol_ahead_candidate *j = &a->jobs[i];
    if (j->decision == LLS_POL_AHEAD_LEAVES)
      send_away(a, backlog, j, &host.free_units, out);
    else if (j->decision == LLS_POL_AHEAD_COMES &&
             lls_pol_backlog_take(backlog, j->request))
      lls_plan_add(out, LLS_PLAN_UPLOAD, j->request);
  }
}
