/* SPDX-License-Identifier: Apache-2.0 */
/* See outbox.h. */
#include "core/instance/outbox.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/instance/event.h"

static int reserve(struct lls_event_buffer *b, size_t capacity)
{
  if (capacity <= b->capacity)
    return 0;
  struct lls_event *events = realloc(b->events, capacity * sizeof *events);
  if (events == NULL)
    return -ENOMEM;
  b->events = events;
  b->capacity = capacity;
  return 0;
}

/* Moves all events of `from` to the end of `to`. */
static int append(struct lls_event_buffer *to, struct lls_event_buffer *from)
{
  size_t wanted = to->n + from->n;
  int rc = wanted > to->capacity ? reserve(to, wanted * 2) : 0;
  if (rc < 0)
    return rc;
  memcpy(to->events + to->n, from->events, from->n * sizeof *from->events);
  to->n = wanted;
  from->n = 0;
  return 0;
}

#define STEPS_BEHIND 8 /* main normally lags by one */

int lls_delivery_init(struct lls_delivery *d, size_t events_per_step)
{
  *d = (struct lls_delivery){0};
  pthread_mutex_init(&d->lock, NULL);
  int rc = reserve(&d->ready, events_per_step * STEPS_BEHIND);
  return rc < 0 ? rc : reserve(&d->taken, events_per_step * STEPS_BEHIND);
}

void lls_delivery_free(struct lls_delivery *d)
{
  free(d->ready.events);
  free(d->taken.events);
  pthread_mutex_destroy(&d->lock);
  *d = (struct lls_delivery){0};
}

int lls_outbox_init(struct lls_outbox *out, struct lls_delivery *delivery,
                    size_t events_per_step)
{
  *out = (struct lls_outbox){.delivery = delivery};
  return reserve(&out->filling, events_per_step * STEPS_BEHIND);
}

void lls_outbox_free(struct lls_outbox *out)
{
  free(out->filling.events);
  *out = (struct lls_outbox){0};
}

struct lls_event *lls_outbox_add(struct lls_outbox *out)
{
  struct lls_event_buffer *b = &out->filling;
  assert(b->n < b->capacity);
  return &b->events[b->n++];
}

int lls_outbox_publish(struct lls_outbox *out)
{
  struct lls_delivery *d = out->delivery;
  struct lls_event_buffer *from = &out->filling, *to = &d->ready;
  int rc = 0;
  pthread_mutex_lock(&d->lock);
  if (to->n == 0) { /* main has kept up: no need to copy */
    struct lls_event_buffer empty = *to;
    *to = *from;
    *from = empty;
  } else {
    rc = append(to, from);
  }
  pthread_mutex_unlock(&d->lock);
  return rc;
}

const struct lls_event_buffer *lls_delivery_take(struct lls_delivery *d)
{
  struct lls_event_buffer empty = d->taken;
  empty.n = 0;
  pthread_mutex_lock(&d->lock);
  d->taken = d->ready;
  d->ready = empty;
  pthread_mutex_unlock(&d->lock);
  return &d->taken;
}
