/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that were dropped, and now wait among those that never ran. A plan looks at no
 * more than the ends of a long queue (look.c); a stream between them would not be found
 * again before those around it have come and gone: with 25,000 that waited one stood
 * still for 36 s, and max_stall was 10. They are few, so each has its place here, by what
 * finds it in the queue and not by a pointer, which a hand-over to another instance would
 * leave dangling.
 */
#include "worth.h"

static void note(struct worth_dropped *d, const struct lls_request *r)
{
  if (r->generated_tokens > 0 && d->n < d->capacity)
    d->all[d->n++] = (struct worth_name){r->arrival_ns, r->id};
}

void worth_note_dropped(struct worth *w, const struct lls_pol_step *s)
{
  for (uint32_t i = s->tail; i < s->view->n_running; i++)
    note(&w->dropped, s->order[i]);
}

void worth_find_dropped(struct worth *w, const struct lls_step_view *v)
{
  for (uint32_t i = 0; i < v->n_waiting; i++)
    note(&w->dropped, v->waiting[i]);
}

/* Where it waits, of a queue in (arrival_ns, id) order; n if it does not. */
static uint32_t place_of(const struct worth_name *name, const struct lls_step_view *v)
{
  uint32_t first = 0, end = v->n_waiting;
  while (first < end) {
    uint32_t middle = first + (end - first) / 2;
    const struct lls_request *r = v->waiting[middle];
    bool before = r->arrival_ns != name->arrival_ns ? r->arrival_ns < name->arrival_ns
                                                    : r->id < name->id;
    if (before)
      first = middle + 1;
    else
      end = middle;
  }
  return first < v->n_waiting && v->waiting[first]->id == name->id ? first : v->n_waiting;
}

uint32_t worth_dropped_between(struct worth *w, const struct lls_step_view *v,
                               uint32_t begin, uint32_t end,
                               const struct lls_request **out)
{
  struct worth_dropped *d = &w->dropped;
  uint32_t kept = 0, n = 0;
  for (uint32_t i = 0; i < d->n; i++) {
    uint32_t place = place_of(&d->all[i], v);
    if (place == v->n_waiting) /* it runs again, lies on the host, or has ended */
      continue;
    d->all[kept++] = d->all[i];
    if (place >= begin && place < end)
      out[n++] = v->waiting[place];
  }
  d->n = kept;
  return n;
}
