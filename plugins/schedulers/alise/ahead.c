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
 * ALISE_LOOKED_AT are looked at: more cannot get in in the next steps. An upload takes
 * free memory alone, so it evicts nobody; who is offloaded comes behind all who are
 * uploaded.
 */
#include "alise.h"

#include <errno.h>
#include <stdlib.h>

int64_t alise_ewt(const struct alise_waits *w, uint32_t level, int64_t until_promotion)
{
  int64_t sum = 0;
  for (uint32_t i = 1; i < level; i++)
    sum += w->of_level[i];
  until_promotion = until_promotion > 0 ? until_promotion : 0;
  return sum < until_promotion ? sum : until_promotion;
}

int alise_ahead_init(struct alise_ahead *a, uint32_t max_requests)
{
  a->jobs = malloc((max_requests + (size_t)ALISE_LOOKED_AT) * sizeof *a->jobs);
  return a->jobs != NULL ? 0 : -ENOMEM;
}

void alise_ahead_free(struct alise_ahead *a)
{
  free(a->jobs);
}

/* ---- who is looked at -------------------------------------------------------------- */

void alise_ahead_begin(struct alise_ahead *a, const struct lls_step_view *view)
{
  struct lls_capacity c = {.size = sizeof c};
  view->cache->capacity(view->cache->context, LLS_TIER_DEVICE, &c);
  a->view = view;
  a->n = 0;
  a->units = a->free_units = c.free_units;
}

void alise_ahead_add(struct alise_ahead *a, const struct alise_candidate *candidate)
{
  const struct lls_cache_service *cache = a->view->cache;
  const struct lls_request *r = candidate->request;
  struct alise_candidate *j = &a->jobs[a->n++];
  struct lls_cache_info info = {.size = sizeof info};
  struct lls_need need = {.size = sizeof need};
  *j = *candidate;
  j->decision = ALISE_STAYS;
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

/* The first of a heap in order, without taking them out: whoever comes next is a child of
 * one that has come. */
uint32_t alise_first_of(const struct heap *h, const struct lls_request *out[],
                        uint32_t max)
{
  uint32_t open[ALISE_LOOKED_AT + 2], n_open = h->n > 0, n = 0;
  open[0] = 0;
  max = max < ALISE_LOOKED_AT ? max : ALISE_LOOKED_AT;
  while (n < max && n_open > 0) {
    uint32_t first = 0;
    for (uint32_t i = 1; i < n_open; i++)
      if (heap_before(&h->entries[open[i]], &h->entries[open[first]]))
        first = i;
    uint32_t at = open[first], child = 2 * at + 1;
    out[n++] = h->entries[at].item;
    open[first] = open[--n_open];
    for (uint32_t i = child; i < child + 2 && i < h->n; i++)
      open[n_open++] = i;
  }
  return n;
}

/* ---- the decision ------------------------------------------------------------------ */

static int compare_numbers(int64_t a, int64_t b)
{
  return (a > b) - (a < b);
}

/* The lifted first, as they were; then queue, EWT, T, arrival. */
static int in_order(const void *left, const void *right)
{
  const struct alise_candidate *a = left, *b = right;
  int order = compare_numbers(a->level, b->level);
  if (order == 0)
    order = compare_numbers(a->ewt, b->ewt);
  if (order == 0)
    order = compare_numbers(a->key, b->key);
  return order != 0 ? order
                    : compare_numbers((int64_t)a->request->id, (int64_t)b->request->id);
}

/*
 * Who comes leaves `margin` units free, for those on the device to grow into; who is
 * there may use them up to a quarter, or the one that comes would be the next to leave.
 * Who is not there and does not fit stays where it is, and so does everybody behind it;
 * those on the device behind it need not leave for what could not come.
 */
void alise_ahead_decide(struct alise_ahead *a, uint32_t seats, uint32_t margin)
{
  int64_t left = (int64_t)a->units, now = (int64_t)a->free_units;
  bool blocked = false;
  qsort(a->jobs, a->n, sizeof *a->jobs, in_order);
  for (uint32_t i = 0; i < a->n; i++) {
    struct alise_candidate *j = &a->jobs[i];
    int64_t units = j->units, spare = i == 0 ? 0 : margin; /* the first may have all */
    if (j->on_device) {
      bool stays = units + spare / 4 <= left && i < seats;
      left -= stays ? units : 0;
      j->decision = stays ? ALISE_STAYS : ALISE_LEAVES;
      blocked |= !stays; /* nobody comes in its place */
      continue;
    }
    blocked |= units + spare > left || i >= seats;
    if (blocked)
      continue;
    if (units + spare <= now && j->request->state == LLS_PREEMPTED)
      j->decision = ALISE_COMES;
    left -= units;
    now -= units; /* kept for it, whether it comes now or later */
  }
}
