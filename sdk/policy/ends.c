/* SPDX-License-Identifier: Apache-2.0 */
/* See ends.h. */
#include <llmserve/policy/ends.h>
#include <llmserve/policy/number.h>

#include <errno.h>
#include <stdlib.h>

enum { ROUND = LLS_POL_DROPPED_ROUND };

int lls_pol_dropped_init(struct lls_pol_dropped *d, const struct lls_host *host)
{
  size_t n = host->engine->max_requests;
  *d = (struct lls_pol_dropped){.host = host,
                                .ids = calloc(n, sizeof *d->ids),
                                .slots = calloc(n, sizeof *d->slots)};
  return d->ids != NULL && d->slots != NULL ? 0 : -ENOMEM;
}

void lls_pol_dropped_free(struct lls_pol_dropped *d)
{
  free(d->ids);
  free(d->slots);
}

static void note(struct lls_pol_dropped *d, const struct lls_request *r)
{
  if (r == NULL || r->generated_tokens == 0)
    return;
  if (d->ids[r->slot] == 0)
    d->slots[d->n++] = r->slot;
  d->ids[r->slot] = r->id;
}

void lls_pol_dropped_planned(struct lls_pol_dropped *d, const struct lls_plan *plan)
{
  for (uint32_t i = 0; i < plan->n_items; i++)
    if (plan->items[i].kind == LLS_PLAN_PREEMPT)
      note(d, d->host->find(d->host->context, plan->items[i].request));
}

static void go_round(struct lls_pol_dropped *d, const struct lls_request *const *between,
                     uint32_t n)
{
  for (uint32_t i = lls_pol_min(n, ROUND); i > 0; i--) {
    d->next = d->next < n ? d->next : 0;
    note(d, between[d->next++]);
  }
}

/* Writes the next noted requests that wait and have ids between `after` and `before` to
 * found + at; returns how many. Visits up to ROUND notes, from d->turn on. Notes of
 * requests that run again, lie on the host or have ended are deleted. */
static uint32_t find(struct lls_pol_dropped *d, uint64_t after, uint64_t before,
                     uint32_t at)
{
  uint32_t i = d->turn < d->n && d->n > ROUND ? d->turn : 0, n = 0;
  for (uint32_t left = ROUND; left > 0 && i < d->n; left--) {
    uint32_t slot = d->slots[i];
    const struct lls_request *r = d->host->find(d->host->context, d->ids[slot]);
    if (r == NULL || r->state != LLS_WAITING) {
      d->ids[slot] = 0;
      d->slots[i] = d->slots[--d->n];
      continue;
    }
    i++;
    if (r->id > after && r->id < before)
      d->found[at + n++] = r;
  }
  d->turn = i;
  return n;
}

/* Splits `most` requests between the two ends of the waiting list, which is longer. */
static void set_ends(struct lls_pol_ends *e, const struct lls_step_view *v, int64_t most)
{
  e->n_first = (uint32_t)(most - most / 2);
  e->n_last = (uint32_t)(most / 2);
  e->last = v->waiting + (v->n_waiting - e->n_last);
}

/* Finds urgent requests between two ends of a quarter of `most` together, then lengthens
 * the ends by the rest of `most`. Urgent requests inside the longer ends are left out of
 * d->found. */
static void find_urgent(struct lls_pol_dropped *d, struct lls_pol_urgent *u,
                        const struct lls_step_view *v, int64_t most,
                        struct lls_pol_ends *e)
{
  int64_t least = (most + 3) / 4 + 1;
  set_ends(e, v, least);
  uint32_t n =
      lls_pol_urgent_find(u, v->now_ns, e->first[e->n_first - 1]->id, e->last[0]->id);
  set_ends(e, v, most - n > least ? most - n : least);
  uint64_t after = e->first[e->n_first - 1]->id, before = e->last[0]->id;
  for (uint32_t i = 0; i < n; i++)
    if (u->found[i]->id > after && u->found[i]->id < before)
      d->found[e->n_between++] = u->found[i];
}

struct lls_pol_ends lls_pol_ends_of(struct lls_pol_dropped *d, struct lls_pol_urgent *u,
                                    const struct lls_step_view *v, int64_t most)
{
  uint32_t n = v->n_waiting;
  struct lls_pol_ends e = {.first = v->waiting, .n_first = n};
  if (n <= most)
    return e;
  e.between = d->found;
  set_ends(&e, v, most);
  if (u != NULL)
    find_urgent(d, u, v, most, &e);
  go_round(d, v->waiting + e.n_first, n - e.n_first - e.n_last);
  e.n_between += find(d, v->waiting[e.n_first - 1]->id, e.last[0]->id, e.n_between);
  return e;
}
