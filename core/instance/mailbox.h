/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways between [main] and the [step] threads, and between two of these.
 *
 * Inbox: main posts new requests and ids to cancel, other instances post requests that
 * migrate and what became of those that came from here; the step thread takes all
 * of it at the start of a step. Outbox: the step thread collects a step's events and
 * publishes them at once, to the one delivery of all instances, where main takes them: so
 * a request that moves has its events in order. Each lock is held for a few pointer
 * moves, and neither side allocates on the step thread, but for the delivery when main is
 * behind by more than it ever was.
 *
 * Instances of a simulation have a clock each. What one posts bears its time, and is not
 * seen by another before its own clock says so.
 */
#ifndef LLS_INSTANCE_MAILBOX_H
#define LLS_INSTANCE_MAILBOX_H

#include <pthread.h>

#include "core/instance/request.h"

/* A request that migrated has been taken, or has ended, and no longer needs its
 * blocks here. */
struct lls_settled {
  uint32_t slot;
  int64_t mailed_ns;
};

/* An instance to which a request is offered wants its blocks moved, where they are. */
struct lls_shift {
  uint64_t request;
  uint32_t slot;
  bool to_host;
  int64_t mailed_ns;
};

/* The end of a fetch of blocks of another process (fetch.h). */
struct lls_fetched {
  uint64_t request, ticket, bytes;
  bool good;
};

/* Where the blocks are, that were to be shifted, of a request offered to another process:
 * what was packed for it (left.c). */
struct lls_placed_there {
  char *data; /* (bytes) malloc's */
  size_t bytes;
  uint32_t slot;
};

struct lls_inbox {
  pthread_mutex_t lock;
  pthread_cond_t filled;
  struct lls_live *first, **last; /* requests in order, linked by next */
  uint64_t *cancels; /* (capacity) ids; a request is cancelled at most once */
  uint32_t n_cancels, capacity;
  bool cancels_lost; /* there were more, of requests that live elsewhere or did */
  struct lls_settled *settled; /* (capacity) at most one for each slot */
  uint32_t n_settled;
  struct lls_shift *shifts; /* (capacity) at most one for each slot */
  uint32_t n_shifts;
  struct lls_fetched *fetched; /* (capacity) */
  uint32_t n_fetched;
  struct lls_placed_there *placed; /* (capacity) at most one for each slot */
  uint32_t n_placed;
  bool end_all;   /* all that live there are to end with an error */
  uint64_t clear; /* all that live there, or left there, do so elsewhere; 0: no */
  /* (capacity) from predictors that took their time */
  struct lls_late_prediction *predictions;
  uint32_t n_predictions;
  struct lls_snapshot *asked; /* the snapshot that main wants; NULL: none */
  bool stop;                  /* main wants the step thread to end */
  bool hold;   /* main wants it to wait between two steps, to touch what is [step] */
  bool parked; /* it waits for that */
};

struct lls_late_prediction {
  uint64_t request;
  struct lls_prediction prediction;
};

int lls_inbox_init(struct lls_inbox *, uint32_t max_requests);
void lls_inbox_free(struct lls_inbox *);
/* [main] an arrival; [step] of another instance: as live->move says */
void lls_inbox_post(struct lls_inbox *, struct lls_live *);
/* [step] of another instance */
void lls_inbox_settle(struct lls_inbox *, uint32_t slot, int64_t now_ns);
void lls_inbox_shift(struct lls_inbox *, const struct lls_shift *);
/* [any] the thread of a channel: core/cluster/remote.c */
void lls_inbox_fetched(struct lls_inbox *, const struct lls_fetched *);
void lls_inbox_end_all(struct lls_inbox *);
/* number, not 0: shown in lls_instance.cleared when it is done. */
void lls_inbox_clear(struct lls_inbox *, uint64_t number);
/* [step] of another instance, in another process; takes the data over */
void lls_inbox_placed(struct lls_inbox *, const struct lls_placed_there *);
void lls_inbox_cancel(struct lls_inbox *, uint64_t id);        /* [main] */
void lls_inbox_ask(struct lls_inbox *, struct lls_snapshot *); /* [main] */
void lls_inbox_stop(struct lls_inbox *);                       /* [main] */
/* [main] Asks the step thread to park; it does so at the next step boundary. */
void lls_inbox_hold(struct lls_inbox *);
bool lls_inbox_is_parked(struct lls_inbox *); /* [main] all it wrote is visible then */
void lls_inbox_release(struct lls_inbox *);   /* [main] it goes on */
/* [step] Parks if it was asked to, and tells main through `wake`. */
void lls_inbox_park(struct lls_inbox *, void (*wake)(void *context), void *context);
/* [any] -ENOSPC if more are waiting than requests can live. */
int lls_inbox_predicted(struct lls_inbox *, uint64_t request,
                        const struct lls_prediction *);

/* The result of lls_inbox_take; the arrays are of lls_inbox_content_init, (max_requests)
 * each. */
struct lls_inbox_content {
  struct lls_live *arrivals; /* linked by next, in order */
  uint64_t *cancels;
  uint32_t n_cancels;
  bool cancels_lost;
  struct lls_settled *settled;
  uint32_t n_settled;
  struct lls_shift *shifts;
  uint32_t n_shifts;
  struct lls_fetched *fetched;
  uint32_t n_fetched;
  struct lls_placed_there *placed;
  uint32_t n_placed;
  bool end_all;
  uint64_t clear;
  struct lls_late_prediction *predictions;
  uint32_t n_predictions;
  struct lls_snapshot *asked;
  bool stop;
};

int lls_inbox_content_init(struct lls_inbox_content *, uint32_t max_requests);
void lls_inbox_content_free(struct lls_inbox_content *);
/* [step] Everything posted so far, but by instances whose clock was beyond now_ns. */
void lls_inbox_take(struct lls_inbox *, int64_t now_ns, struct lls_inbox_content *);
/* From when on there is something to take: 0 = in any case, LLS_NEVER = nothing. */
int64_t lls_inbox_due_ns(struct lls_inbox *);
/* [step] Sleeps until something is posted or timeout_ns have passed; LLS_NEVER = no
 * limit. */
void lls_inbox_wait(struct lls_inbox *, int64_t timeout_ns);

struct lls_event_buffer {
  struct lls_event *events; /* (capacity) */
  size_t n, capacity;
};

/* The events that all instances have published, for main. */
struct lls_delivery {
  pthread_mutex_t lock;
  struct lls_event_buffer ready; /* both sides, under lock */
  struct lls_event_buffer taken; /* [main] being handed out */
};

int lls_delivery_init(struct lls_delivery *, size_t events_per_step);
void lls_delivery_free(struct lls_delivery *);
/* [main] The events published since the last call; valid until the next. */
const struct lls_event_buffer *lls_delivery_take(struct lls_delivery *);

struct lls_outbox {
  struct lls_event_buffer filling; /* [step] this step's, no lock needed */
  struct lls_delivery *delivery;
};

/* The same events_per_step for all of a delivery's. */
int lls_outbox_init(struct lls_outbox *, struct lls_delivery *, size_t events_per_step);
void lls_outbox_free(struct lls_outbox *);
/* [step] An event to fill in, every member the kind has; at most events_per_step between
 * two publishes. */
struct lls_event *lls_outbox_add(struct lls_outbox *);
/* [step] 0, or -ENOMEM: nothing is lost, publish again before the next step. */
int lls_outbox_publish(struct lls_outbox *);

#endif
