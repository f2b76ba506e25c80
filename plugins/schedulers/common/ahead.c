/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has memory on the device (ALISE, section 3.3, algorithm 2): the first in order
 * whose needs fit. Who is among them and on the host is uploaded, who is on the device
 * and not among them is offloaded, both while others compute; so memory is moved before
 * the job's turn comes and no step waits for it.
 *
 * The order is the queues', and inside a queue by estimated waiting time, which is 0 for
 * who ran in the last step: in a queue of long jobs whose next turn is their promotion,
 * those on the host would else come before those on the device until they have come, and
 * all of them change places for ever. Of the jobs off the device only the first
 * HEAP_LOOKED_AT are looked at: more cannot get in in the next steps. An upload takes
 * free memory alone, so it evicts nobody; who is offloaded comes behind all who are
 * uploaded.
 */
#include "ahead.h"

#include <errno.h>
#include <stdlib.h>

int ahead_init(struct ahead *a, uint32_t max_requests)
{
  a->jobs = malloc((max_requests + (size_t)HEAP_LOOKED_AT) * sizeof *a->jobs);
  a->leaves = calloc(max_requests, sizeof *a->leaves);
  return a->jobs != NULL && a->leaves != NULL ? 0 : -ENOMEM;
}

void ahead_free(struct ahead *a)
{
  free(a->jobs);
  free(a->leaves);
}

/* ---- who is looked at -------------------------------------------------------------- */

void ahead_begin(struct ahead *a, const struct lls_step_view *view)
{
  struct lls_capacity c = {.size = sizeof c};
  view->cache->capacity(view->cache->context, LLS_TIER_DEVICE, &c);
  a->view = view;
  a->n = a->n_off = 0;
  a->units = a->free_units = c.free_units;
}

void ahead_add(struct ahead *a, const struct ahead_candidate *candidate)
{
  const struct lls_cache_service *cache = a->view->cache;
  const struct lls_request *r = candidate->request;
  struct ahead_candidate *j = &a->jobs[a->n++];
  struct lls_cache_info info = {.size = sizeof info};
  struct lls_need need = {.size = sizeof need};
  *j = *candidate;
  j->decision = AHEAD_STAYS;
  j->on_device = r->state == LLS_PREFILLING || r->state == LLS_DECODING;
  if (j->on_device) {
    cache->info(cache->context, r, &info);
    j->units = info.device_units;
    a->units += j->units;
  } else {
    cache->need(cache->context, r, lls_request_pending(r), LLS_FORM_NONE, &need);
    j->units = need.new_units + need.restore_units;
    a->n_off++;
  }
}

/* ---- the decision ------------------------------------------------------------------ */

/* Level, EWT, key, arrival. */
static bool before(const struct ahead_candidate *a, const struct ahead_candidate *b)
{
  if (a->level != b->level)
    return a->level < b->level;
  if (a->ewt != b->ewt)
    return a->ewt < b->ewt;
  return a->key != b->key ? a->key < b->key : a->request->id < b->request->id;
}

/* Those off the device are few, and in nearly this order already. */
static void sort_off(struct ahead *a)
{
  for (uint32_t i = 1; i < a->n_off; i++) {
    struct ahead_candidate j = a->jobs[i];
    uint32_t at = i;
    for (; at > 0 && before(&j, &a->jobs[at - 1]); at--)
      a->jobs[at] = a->jobs[at - 1];
    a->jobs[at] = j;
  }
}

/* Sequences on the device that come before j; their units are added up. */
static uint32_t count_before(const struct ahead *a, const struct ahead_candidate *j,
                             int64_t *units)
{
  uint32_t n = 0;
  for (uint32_t i = a->n_off; i < a->n; i++)
    if (before(&a->jobs[i], j)) {
      *units += a->jobs[i].units;
      n++;
    }
  return n;
}

/* The first of those off the device for whom there is room after all before them; how
 * many, and their units. */
static uint32_t let_come(struct ahead *a, uint32_t seats, uint32_t margin, int64_t *taken)
{
  int64_t now = (int64_t)a->free_units;
  uint32_t n = 0;
  for (; n < a->n_off; n++) {
    struct ahead_candidate *j = &a->jobs[n];
    int64_t sum = *taken + j->units;
    uint32_t place = n + count_before(a, j, &sum);
    int64_t spare = place == 0 ? 0 : margin; /* the first may have all */
    if (sum + spare > (int64_t)a->units || place >= seats)
      break;
    if (j->units + spare <= now && j->request->state == LLS_PREEMPTED)
      j->decision = AHEAD_COMES;
    *taken += j->units;
    now -= j->units; /* kept for it, whether it comes now or later */
  }
  return n;
}

/* The last in order of those on the device goes to the end of jobs[0..n). */
static struct ahead_candidate *last_of(struct ahead *a, uint32_t n)
{
  struct ahead_candidate *end = &a->jobs[n - 1], *last = end;
  for (uint32_t i = a->n_off; i < n; i++)
    if (before(last, &a->jobs[i]))
      last = &a->jobs[i];
  struct ahead_candidate j = *last;
  *last = *end;
  *end = j;
  return end;
}

/*
 * Who comes leaves `margin` units free, for those on the device to grow into; who is
 * there may use them up to a quarter, or the one that comes would be the next to leave.
 * Who is not there and does not fit stays where it is, and so does everybody behind it;
 * those on the device behind it need not leave for what could not come.
 *
 * All who leave come behind all who come: what fits with the whole margin leaves room for
 * everybody before it. So those on the device need not be sorted, which took half of the
 * time of a plan; mostly nobody leaves.
 */
void ahead_decide(struct ahead *a, uint32_t seats, uint32_t margin)
{
  int64_t sum = 0;
  uint32_t n = a->n;
  sort_off(a);
  uint32_t coming = let_come(a, seats, margin, &sum);
  for (uint32_t i = a->n_off; i < n; i++)
    sum += a->jobs[i].units;
  while (n > a->n_off + (coming == 0) &&
         (sum + margin / 4 > (int64_t)a->units || n - a->n_off + coming > seats)) {
    struct ahead_candidate *last = last_of(a, n--);
    last->decision = AHEAD_LEAVES;
    sum -= last->units;
  }
}

/* ---- around a plan ----------------------------------------------------------------- */

bool ahead_is_possible(const struct lls_host *host, const struct lls_step_view *view)
{
  return view->preempt_mode == LLS_PREEMPT_SWAP && host->engine->async_transfers;
}

/* Units that a margin of the cache is, and those that the running ones grow by before the
 * next look: one of a step's sequences in block_tokens needs two of them. */
static uint32_t margin_of(const struct ahead *a, const struct priority_params *params)
{
  return (uint32_t)((double)a->units * params->watermark) + a->view->n_running;
}

bool ahead_look(struct ahead *a, struct priority *p, const struct priority_params *params,
                const struct lls_step_view *view, ahead_rank *rank)
{
  void *first[HEAP_LOOKED_AT];
  struct ranked *waiting = &p->waiting;
  struct ahead_candidate c = {0};
  backlog_begin(&waiting->backlog, view);
  uint32_t n = heap_first(&waiting->heap, HEAP_LOOKED_AT, first);
  if (n == 0)
    return false;
  ahead_begin(a, view);
  for (uint32_t i = 0; i < n + view->n_running; i++) {
    c.request = i < n ? first[i] : view->running[i - n];
    rank(waiting->scheduler, view->now_ns, &c);
    ahead_add(a, &c);
  }
  ahead_decide(a, min_u32((uint32_t)params->max_seqs, view->max_sequences),
               margin_of(a, params));
  for (uint32_t i = 0; i < a->n; i++)
    if (a->jobs[i].decision == AHEAD_LEAVES)
      a->leaves[a->jobs[i].request->slot] = view->step + 1;
  return true;
}

bool ahead_leaves(const struct ahead *a, const struct lls_request *r)
{
  return a->leaves[r->slot] == a->view->step + 1;
}

/* The host is full: the last in order loses what it has. */
static void send_away(const struct ahead *a, struct backlog *backlog,
                      const struct ahead_candidate *j, uint32_t *host_units,
                      struct lls_plan *out)
{
  const struct lls_cache_service *cache = a->view->cache;
  if (j->units <= *host_units) {
    *host_units -= j->units;
    lls_plan_add(out, LLS_PLAN_OFFLOAD, j->request);
  } else if (cache->preempt(cache->context, j->request, LLS_PREEMPT_RECOMPUTE) == 0) {
    lls_plan_preempt(out, j->request, LLS_PREEMPT_RECOMPUTE);
    backlog_note(backlog, j->request);
  }
}

void ahead_move(struct ahead *a, struct backlog *backlog, struct lls_plan *out)
{
  const struct lls_cache_service *cache = a->view->cache;
  struct lls_capacity host = {.size = sizeof host};
  cache->capacity(cache->context, LLS_TIER_HOST, &host);
  for (uint32_t i = 0; i < a->n; i++) {
    const struct ahead_candidate *j = &a->jobs[i];
    if (j->decision == AHEAD_LEAVES)
      send_away(a, backlog, j, &host.free_units, out);
    else if (j->decision == AHEAD_COMES && backlog_take(backlog, j->request))
      lls_plan_add(out, LLS_PLAN_UPLOAD, j->request);
  }
}
