/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ways between [main] and [step].
 *
 * Inbox: main posts new requests and ids to cancel, the step thread takes all of it at
 * the start of a step. Outbox: the step thread collects a step's events and publishes
 * them at once; main takes them. Each lock is held for a few pointer moves, and neither
 * side allocates on the step thread, but for the outbox when main is behind by more than
 * it ever was.
 */
#ifndef LLS_LOOP_MAILBOX_H
#define LLS_LOOP_MAILBOX_H

#include <pthread.h>

#include "core/loop/request.h"

struct lls_inbox {
  pthread_mutex_t lock;
  pthread_cond_t filled;
  struct lls_live *first, **last; /* arrivals in order, linked by next */
  uint64_t *cancels; /* (capacity) ids; a request is cancelled at most once */
  uint32_t n_cancels, capacity;
  /* (capacity) from predictors that took their time */
  struct lls_late_prediction *predictions;
  uint32_t n_predictions;
  bool stop;   /* the step thread shall end */
  bool hold;   /* it shall wait between two steps, so that main may touch its things */
  bool parked; /* it does */
};

struct lls_late_prediction {
  uint64_t request;
  struct lls_prediction prediction;
};

int lls_inbox_init(struct lls_inbox *, uint32_t max_requests);
void lls_inbox_free(struct lls_inbox *);
void lls_inbox_post(struct lls_inbox *, struct lls_live *); /* [main] */
void lls_inbox_cancel(struct lls_inbox *, uint64_t id);     /* [main] */
void lls_inbox_stop(struct lls_inbox *);                    /* [main] */
/* [main] Asks the step thread to park; it does so at the next step boundary. */
void lls_inbox_hold(struct lls_inbox *);
bool lls_inbox_is_parked(struct lls_inbox *); /* [main] all it wrote is visible then */
void lls_inbox_release(struct lls_inbox *);   /* [main] it goes on */
/* [step] Parks if it was asked to, and tells main through `wake`. */
void lls_inbox_park(struct lls_inbox *, void (*wake)(void *context), void *context);
/* [any] -ENOSPC if more are waiting than requests can live. */
int lls_inbox_predicted(struct lls_inbox *, uint64_t request,
                        const struct lls_prediction *);

/* What lls_inbox_take took; the arrays are the caller's, (max_requests) each. */
struct lls_inbox_content {
  struct lls_live *arrivals; /* linked by next, in order */
  uint64_t *cancels;
  uint32_t n_cancels;
  struct lls_late_prediction *predictions;
  uint32_t n_predictions;
  bool stop;
};

/* [step] Everything posted so far. */
void lls_inbox_take(struct lls_inbox *, struct lls_inbox_content *);
/* [step] Sleeps until something is posted or timeout_ns have passed; LLS_NEVER = no
 * limit. */
void lls_inbox_wait(struct lls_inbox *, int64_t timeout_ns);

struct lls_event_buffer {
  struct lls_event *events; /* (capacity) */
  size_t n, capacity;
};

struct lls_outbox {
  pthread_mutex_t lock;
  struct lls_event_buffer filling; /* [step] this step's, no lock needed */
  struct lls_event_buffer ready;   /* both, under lock */
  struct lls_event_buffer taken;   /* [main] being handed out */
};

int lls_outbox_init(struct lls_outbox *, size_t events_per_step);
void lls_outbox_free(struct lls_outbox *);
/* [step] An event to fill in, every member the kind has; at most events_per_step between
 * two publishes. */
struct lls_event *lls_outbox_add(struct lls_outbox *);
/* [step] 0, or -ENOMEM: nothing is lost, publish again before the next step. */
int lls_outbox_publish(struct lls_outbox *);
/* [main] The events published since the last call; valid until the next. */
const struct lls_event_buffer *lls_outbox_take(struct lls_outbox *);

#endif
