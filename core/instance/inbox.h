/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inbox of an instance: messages of [main] and of other instances' [step] threads to
 * its step thread, which takes all of them at the start of a step. Main posts new
 * requests and ids to cancel; other instances post requests that migrate, and the fate of
 * requests that this instance offered. The lock is held for a few pointer moves, and
 * nothing is allocated on a step thread.
 *
 * Each instance of a simulation has a clock of its own. A message has its sender's time,
 * and its receiver does not see it before its own clock has reached that time.
 */
#ifndef LLS_INSTANCE_INBOX_H
#define LLS_INSTANCE_INBOX_H

#include <llmserve/types.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lls_live;
struct lls_session_note;
struct lls_snapshot;

/* A request that this instance offered has been taken or has ended: its blocks here are
 * no longer needed. */
struct lls_settled {
  uint32_t slot;
  int64_t mailed_ns;
};

/* Asks a source instance to move the blocks of a request that it offers to its other
 * tier. The target of the offer sends it. */
struct lls_shift {
  uint64_t request;
  uint32_t slot;
  bool to_host;
  int64_t mailed_ns;
};

/* The end of a fetch of blocks from another process (fetch.h). */
struct lls_fetched {
  uint64_t request, ticket, bytes;
  bool good;
};

/* The new place of a shifted request's blocks, packed for the other process that the
 * request is offered to (offered.c). */
struct lls_placed_there {
  char *data; /* (bytes) allocated with malloc */
  size_t bytes;
  uint32_t slot;
};

struct lls_inbox {
  pthread_mutex_t lock;
  pthread_cond_t filled;
  struct lls_live *first, **last; /* requests in order, linked by next */
  uint64_t *cancels;              /* (capacity) ids; each is posted once */
  uint32_t n_cancels, capacity;
  bool cancels_lost;           /* more ids were posted than fit */
  struct lls_settled *settled; /* (capacity) at most one for each slot */
  uint32_t n_settled;
  struct lls_shift *shifts; /* (capacity) at most one for each slot */
  uint32_t n_shifts;
  struct lls_fetched *fetched; /* (capacity) */
  uint32_t n_fetched;
  struct lls_placed_there *placed; /* (capacity) at most one for each slot */
  uint32_t n_placed;
  bool end_all;   /* every request of the instance is to end with an error */
  uint64_t clear; /* number of a CLEAR: forget all requests, which continue elsewhere; 0:
                     none */
  /* (capacity) predictions that came after the arrival */
  struct lls_late_prediction *predictions;
  uint32_t n_predictions;
  struct lls_snapshot *asked; /* the snapshot that main requests; NULL: none */
  /* notes on sessions, in order, and those that main may free; linked by next */
  struct lls_session_note *notes, **last_note, *used_notes;
  bool stop;   /* main asks the step thread to end */
  bool hold;   /* main asks it to park between two steps, to use [step] members */
  bool parked; /* the step thread has parked */
};

struct lls_late_prediction {
  uint64_t request;
  struct lls_prediction prediction;
};

int lls_inbox_init(struct lls_inbox *, uint32_t max_requests);
void lls_inbox_free(struct lls_inbox *);
/* [main] Posts a new request; [step] of another instance: one that migrates.
 * live->move.mail is the kind. */
void lls_inbox_post(struct lls_inbox *, struct lls_live *);
/* [step] Called by another instance: the request in `slot`, which this instance
 * offered, was taken there or has ended. */
void lls_inbox_settle(struct lls_inbox *, uint32_t slot, int64_t now_ns);
void lls_inbox_shift(struct lls_inbox *, const struct lls_shift *);
/* [any] Called by a channel's thread: core/cluster/remote.c. */
void lls_inbox_fetched(struct lls_inbox *, const struct lls_fetched *);
void lls_inbox_end_all(struct lls_inbox *);
/* number, not 0: stored in lls_instance.cleared when the inbox has been cleared. */
void lls_inbox_clear(struct lls_inbox *, uint64_t number);
/* [step] Called by the target instance in another process. Takes ownership of the
 * data. */
void lls_inbox_placed(struct lls_inbox *, const struct lls_placed_there *);
void lls_inbox_cancel(struct lls_inbox *, uint64_t id);        /* [main] */
void lls_inbox_ask(struct lls_inbox *, struct lls_snapshot *); /* [main] */
/* [main] Posts a note on a session. The step thread wakes and takes it, so that main can
 * free closed sessions even if this instance gets no requests. */
void lls_inbox_note(struct lls_inbox *, struct lls_session_note *);
/* [step] Gives notes back, linked by next. */
void lls_inbox_return_notes(struct lls_inbox *, struct lls_session_note *);
/* [main] Returns the notes that were given back, linked by next. */
struct lls_session_note *lls_inbox_used_notes(struct lls_inbox *);
void lls_inbox_stop(struct lls_inbox *); /* [main] */
/* [main] Asks the step thread to park; it does so at the next step boundary. */
void lls_inbox_hold(struct lls_inbox *);
/* [main] if true, main sees all writes of the parked thread */
bool lls_inbox_is_parked(struct lls_inbox *);
void lls_inbox_release(struct lls_inbox *); /* [main] unparks it */
/* [step] Parks if main has asked for it, and wakes main. */
void lls_inbox_park(struct lls_inbox *, void (*wake)(void *context), void *context);
/* [any] Posts a late prediction. Returns -ENOSPC if the list is full. */
int lls_inbox_predicted(struct lls_inbox *, uint64_t request,
                        const struct lls_prediction *);

/* The result of lls_inbox_take, in arrays of (max_requests) that lls_inbox_content_init
 * allocates. */
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
  struct lls_session_note *notes; /* linked by next, in order */
  bool stop;
};

int lls_inbox_content_init(struct lls_inbox_content *, uint32_t max_requests);
void lls_inbox_content_free(struct lls_inbox_content *);
/* [step] Takes all messages, except those with a time after now_ns. */
void lls_inbox_take(struct lls_inbox *, int64_t now_ns, struct lls_inbox_content *);
/* Returns the earliest time of a message: 0: take it at once; LLS_NEVER: no message. */
int64_t lls_inbox_due_ns(struct lls_inbox *);
/* [step] Sleeps until a message is posted or timeout_ns have passed; LLS_NEVER: no
 * limit. */
void lls_inbox_wait(struct lls_inbox *, int64_t timeout_ns);

#endif
