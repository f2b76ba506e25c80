/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of requests on their way from [step] to [main]. Each instance has an outbox:
 * its step thread collects a step's events there and publishes them at once to one
 * delivery, which all instances share and from which main takes them. So the events of a
 * request that migrates stay in order. The lock is held for a few pointer moves. The step
 * thread allocates only if main lags more than ever before.
 */
#ifndef LLS_INSTANCE_OUTBOX_H
#define LLS_INSTANCE_OUTBOX_H

#include <pthread.h>
#include <stddef.h>

struct lls_event;

struct lls_event_buffer {
  struct lls_event *events; /* (capacity) */
  size_t n, capacity;
};

/* The events that all instances have published, for main. */
struct lls_delivery {
  pthread_mutex_t lock;
  struct lls_event_buffer ready; /* posted by [step], taken by main, under lock */
  struct lls_event_buffer taken; /* [main] being handed out */
};

int lls_delivery_init(struct lls_delivery *, size_t events_per_step);
void lls_delivery_free(struct lls_delivery *);
/* [main] Returns the events published since the last call, valid until the next
 * call. */
const struct lls_event_buffer *lls_delivery_take(struct lls_delivery *);

struct lls_outbox {
  struct lls_event_buffer filling; /* [step] the current step's, without a lock */
  struct lls_delivery *delivery;
};

/* All outboxes of a delivery have the same events_per_step. */
int lls_outbox_init(struct lls_outbox *, struct lls_delivery *, size_t events_per_step);
void lls_outbox_free(struct lls_outbox *);
/* [step] Adds an event, of which the caller sets every member that its kind has. At
 * most events_per_step between two publishes. */
struct lls_event *lls_outbox_add(struct lls_outbox *);
/* [step] Publishes the step's events. Returns 0; -ENOMEM: the events are kept, and the
 * caller must publish again before the next step. */
int lls_outbox_publish(struct lls_outbox *);

#endif
