/* SPDX-License-Identifier: Apache-2.0 */
/* See ends.h. */
#include <llmserve/policy/ends.h>
#include <llmserve/policy/number.h>

#include <errno.h>
#include <stdlib.h>

enum { ROUND = 64 }; /* of those between the ends, each time */

int lls_pol_dropped_init(struct lls_pol_dropped *d, const struct lls_host *host)
{
  size_t n = host->engine->max_requests;
  *d = (struct lls_pol_dropped){.host = host,
                                .ids = calloc(n, sizeof *d->ids),
                                .slots = calloc(n, sizeof *d->slots),
                                .found = calloc(n, sizeof *d->found)};
  return d->ids != NULL && d->slots != NULL && d->found != NULL ? 0 : -ENOMEM;
}

void lls_pol_dropped_free(struct lls_pol_dropped *d)
{
  free(d->ids);
  free(d->slots);
  free(d->found);
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

/* Those of them that wait between two others. Who runs again, lies on the host or has
 * ended is forgotten. */
static uint32_t find(struct lls_pol_dropped *d, uint64_t after, uint64_t before)
{
  uint32_t kept = 0, n = 0;
  for (uint32_t i = 0; i < d->n; i++) {
    uint32_t slot = d->slots[i];
    const struct lls_request *r = d->host->find(d->host->context, d->ids[slot]);
    if (r == NULL || r->state != LLS_WAITING) {
      d->ids[slot] = 0;
      continue;
    }
    d->slots[kept++] = slot;
    if (r->id > after && r->id < before)
      d->found[n++] = r;
  }
  d->n = kept;
  return n;
}

struct lls_pol_ends lls_pol_ends_of(struct lls_pol_dropped *d,
                                    const struct lls_step_view *v, int64_t most)
{
  uint32_t n = v->n_waiting;
  struct lls_pol_ends e = {.first = v->waiting, .n_first = n};
  if (n <= most)
    return e;
  e.n_first = (uint32_t)(most - most / 2);
  e.n_last = (uint32_t)(most / 2);
  e.last = v->waiting + (n - e.n_last);
  e.between = d->found;
  go_round(d, v->waiting + e.n_first, n - e.n_first - e.n_last);
  e.n_between = find(d, v->waiting[e.n_first - 1]->id, e.last[0]->id);
  return e;
}
