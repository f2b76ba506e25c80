/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Far instances, for the files behind remote.h, from above downwards: remote.c (rounds,
 * life), remote_mail.c (what goes), remote_receive.c (what comes to process 0),
 * remote_lives.c (who is heard, and who is given up), remote_hub.c (where the others'
 * requests are), remote_take.c (what comes for the instance here), remote_show.c (boards,
 * status, snapshots), remote_group.c (the other ranks of an instance), remote_change.c
 * (changes of policies), remote_message.c (what a message is). What those ranks
 * themselves do is in remote_rank.c. All of it is of the channel's thread, but for what
 * is said to be under the lock.
 */
#ifndef LLS_CLUSTER_REMOTE_INTERNAL_H
#define LLS_CLUSTER_REMOTE_INTERNAL_H

#include "core/channel/channel.h"
#include "core/config/instance_list.h"
#include "core/cluster/remote.h"
#include "core/cluster/peer_load.h"
#include "core/record/snapshot.h"
#include "core/instance/step_thread.h"

enum lls_remote_kind {
  LLS_REMOTE_REQUEST, /* to an instance, as head.mail says: a packed request */
  LLS_REMOTE_CANCEL,  /* ids */
  LLS_REMOTE_SETTLED, /* to an instance */
  LLS_REMOTE_SHIFT,   /* to an instance: struct lls_shift */
  LLS_REMOTE_PLACED,  /* to an instance: what offered.c has packed */
  LLS_REMOTE_FETCH,   /* to an instance: what fetch.c has packed; head.request: the ticket
                       */
  LLS_REMOTE_DROP,    /* to an instance */
  LLS_REMOTE_NO,      /* to an instance: a fetch cannot be served */
  LLS_REMOTE_EVENTS,  /* to process 0, as all that follow up to READY */
  LLS_REMOTE_LOAD,
  LLS_REMOTE_STATUS,
  LLS_REMOTE_STATS,
  LLS_REMOTE_SNAPSHOT,
  LLS_REMOTE_FAILED, /* the sentence */
  LLS_REMOTE_BYE,
  LLS_REMOTE_READY, /* struct lls_remote_shape */
  LLS_REMOTE_LOADS, /* from process 0, as all that follow */
  LLS_REMOTE_ASK,
  LLS_REMOTE_GONE,    /* head.source; head.mail: 1 = it may come BACK */
  LLS_REMOTE_STOP,    /* end what you do, and say BYE */
  LLS_REMOTE_END,     /* the last word; head.mail: 1 = in order, all have said BYE */
  LLS_REMOTE_BEAT,    /* there is nothing else to say */
  LLS_REMOTE_CHANGE,  /* from process 0: head.mail, the phase; head.request, its number */
  LLS_REMOTE_CHANGED, /* the same back, and a sentence if it is refused */
  LLS_REMOTE_CLEAR,   /* from process 0: head.request, a number; you were given up */
  LLS_REMOTE_CLEARED, /* the same back: nothing is left; how many arrived so far */
  LLS_REMOTE_BACK,    /* from process 0: head.source gets work again */
  LLS_REMOTE_PART, /* to rank 0: head.request, a ticket; bytes, or nothing: it has failed
                    */
};

/* Messages that are out of date when there is another of the kind. */
enum lls_remote_latest {
  LLS_REMOTE_LATEST_BEAT,
  LLS_REMOTE_LATEST_LOAD, /* LOADS too */
  LLS_REMOTE_LATEST_STATUS,
  LLS_REMOTE_LATEST_STATS,
  LLS_REMOTE_LATEST
};

/* Before every message. Of a request some of what is in it, for process 0. */
struct lls_remote_head {
  uint32_t kind, target, from;
  uint32_t slot, mail, source;
  uint64_t request;
};

/* It has to be alike for blocks and requests to mean the same. */
struct lls_remote_shape {
  char version[32], device[16];
  struct lls_pool_shape pool;
  uint32_t max_requests, vocabulary, max_context, role, n;
};

/* A request that lives in another process; process 0. */
struct lls_away {
  struct lls_live *home; /* what main made; NULL: it is not away */
  uint32_t at;           /* instance that has it */
  uint32_t source;       /* that has its blocks, while it is offered; else NOBODY */
  char *offer;           /* (offer_bytes) then: as it was offered */
  size_t offer_bytes;
  uint64_t again; /* the last request here that went on elsewhere, its process lost, */
  uint32_t again_tokens; /* having so many */
};

struct lls_remote_other {
  bool gone, ready, bye;
  bool hung; /* gone, and its end was not seen */
  /* Nothing was heard of it for SILENT_NS. It is given up then, unless it is the last of
   * its kind: others have what it had. It is taken in again once it is heard and has
   * cleared away what it still has of that, which is told by number. */
  bool silent, given_up;
  uint64_t clearing, n_clears; /* 0: it has not been asked to; so often in all */
  int64_t heard_ns;            /* LLS_NEVER: nothing yet */
  struct lls_snapshot *asked;
  /* messages sent to it by the last of a kind that is not sent anew before it was taken
   */
  uint64_t latest[LLS_REMOTE_LATEST];
};

/* A change of policies, in process 0 under the lock. */
struct lls_remote_change {
  uint64_t number; /* of the phase; answers to others are late */
  uint32_t phase;
  int64_t timeout_ns, until_ns;
  bool unsent; /* the channel's thread has not taken it */
  char *data;  /* (n) then */
  size_t n;
  bool waits[LLS_MAX_INSTANCES];
  bool refused; /* why */
  struct lls_error why;
};

struct lls_remote {
  struct lls_channel *channel;
  struct lls_channel
      *within; /* to the other ranks of this instance; NULL: there are none */
  uint32_t self, n, n_slots;
  struct lls_wire wire;
  struct lls_step_thread *threads; /* (n) */
  struct lls_step_thread *mine;
  struct lls_fetches *fetches;
  struct lls_delivery *delivery;
  _Atomic uint64_t *cancelled; /* (slots) */
  struct lls_remote_shape shape;
  int64_t timeout_ns;
  const struct lls_log *log;
  uint32_t (*place)(void *context);
  int (*take_phase)(void *context, uint32_t phase, const char *data, size_t n,
                    struct lls_error *err);
  void *context; /* of both */
  void (*wake)(void *context);
  void *wake_context;

  struct lls_remote_other *others;         /* (n) */
  struct lls_inbox_content content;        /* scratch */
  struct lls_live *held[2], **held_end[2]; /* requests of this round, and of the next */
  struct lls_snapshot *snapshot;           /* of the instance here, for process 0 */
  bool snapshot_asked;
  struct lls_load_entry load;            /* as it was shown last */
  bool loads_changed[LLS_MAX_INSTANCES]; /* since they were shown to it; process 0 */
  uint64_t clearing;   /* of process 0, that is under way here; 0: none */
  uint32_t cleared_in; /* rounds ago, once it is done */
  int64_t beat_ns, look_ns, shown_ns, loads_ns, status_ns, stats_ns, active_ns;

  /* the others: the phase of a change that is not answered, NONE */
  uint32_t phase;
  uint64_t phase_number;
  struct lls_remote_head
      changed; /* the answer, if there is one to be sent: kind CHANGED */
  struct lls_error refusal;

  /* process 0 */
  struct lls_away *away; /* (slots) */
  struct lls_outbox outbox;
  size_t events_per_step;
  uint32_t n_gone;
  pthread_t thread;
  bool running; /* the thread */
  atomic_bool stopping;
  bool stop_sent, stopped, ended;

  /* under the lock */
  pthread_mutex_t lock;
  uint32_t n_ready;
  bool lost, failed;
  struct lls_error why_lost, why_failed;
  struct lls_instance_life lives[LLS_MAX_INSTANCES];
  struct lls_remote_change change;
};

/* Where an instance's queue of requests that wait to be sent is. */
static inline struct lls_instance *lls_remote_instance(struct lls_remote *remote,
                                                       uint32_t i)
{
  return &remote->threads[i].instance;
}

static inline bool lls_remote_is_hub(const struct lls_remote *remote)
{
  return remote->self == 0;
}

/* It gets no requests, and what is still meant for it is for others. */
static inline bool lls_remote_is_out(const struct lls_remote *remote, uint32_t i)
{
  return remote->others[i].gone || remote->others[i].given_up;
}

/* ---- remote_message.c */
int64_t lls_remote_now(struct lls_remote *);
struct lls_remote_head lls_remote_head(const struct lls_remote *, uint32_t kind,
                                       uint32_t target, uint32_t slot);
/* Begins a message: a head, behind which more may be put. */
struct lls_pack lls_remote_message(const struct lls_remote *, uint32_t kind,
                                   uint32_t target);
/* Sends it, through process 0; takes the data over. */
void lls_remote_send(struct lls_remote *, struct lls_pack *);
/* One of enum lls_remote_latest, to where lls_remote_send goes for that target: the one
 * before was taken, and it is not silent. If so the next message is taken for the one
 * that is sent now. */
bool lls_remote_may_send(struct lls_remote *, uint32_t target, uint32_t latest);
/* Both, with so many bytes more. */
void lls_remote_send_head(struct lls_remote *, const struct lls_remote_head *,
                          const void *more, size_t bytes);

/* ---- remote_mail.c */
/* Sends what is in stand-ins' inboxes and the delivery. True: something. */
bool lls_remote_drain(struct lls_remote *);

/* ---- remote_take.c */
/* A message that is for the instance here. */
void lls_remote_receive(struct lls_remote *, const struct lls_remote_head *,
                        struct lls_unpack *);
/* A request for the instance here, as the head says. */
void lls_remote_deliver(struct lls_remote *, const struct lls_remote_head *,
                        struct lls_live *);

/* ---- remote_group.c: the other ranks of this instance, if any */
/* GONE with the instance, END with mail, BEAT. */
void lls_remote_tell_ranks(struct lls_remote *, uint32_t kind, uint32_t source,
                           uint32_t mail);
/* True: something was heard. */
bool lls_remote_hear_ranks(struct lls_remote *);
/* They are there, or why not: -ECONNABORTED. */
int lls_remote_check_ranks(const struct lls_remote *, struct lls_error *why);

/* ---- remote_hub.c: process 0 */
void lls_hub_receive_events(struct lls_remote *, uint32_t from, struct lls_unpack *);
/* To its target or, where that is gone, elsewhere. data: (bytes) a head, which is written
 * anew, and the packed request; taken over. */
void lls_hub_route(struct lls_remote *, struct lls_remote_head *, char *data,
                   size_t bytes);
/* From the instance here, or from main: a request that is to be sent. */
void lls_hub_send_request(struct lls_remote *, struct lls_remote_head *,
                          struct lls_live *);
void lls_hub_settled(struct lls_remote *, uint32_t slot, uint32_t source);
void lls_hub_publish(struct lls_remote *);
/* All that it has goes on elsewhere, or ends with an error: it is out. */
void lls_hub_move_requests(struct lls_remote *, uint32_t index);
void lls_hub_end_requests(struct lls_remote *);

/* ---- remote_receive.c: process 0 */
void lls_hub_receive(struct lls_remote *, uint32_t from, struct lls_channel_message *);

/* ---- remote_lives.c */
void lls_remote_beat(struct lls_remote *, int64_t now_ns);
/* Process 0: at the others, who are lost, or given up. */
void lls_remote_look_at_others(struct lls_remote *, int64_t now_ns);
/* The others: process 0, which tells of the rest. -ECONNABORTED. */
int lls_remote_look_at_hub(struct lls_remote *, int64_t now_ns, struct lls_error *err);
/* How long this process did not look was nobody's silence. */
void lls_remote_forgive(struct lls_remote *, int64_t now_ns, int64_t gap_ns);
void lls_hub_lose(struct lls_remote *, uint32_t index, const char *why);
/* A message of it has come. False: it is given up, and this is of what it had. */
bool lls_hub_hear(struct lls_remote *, uint32_t from, uint32_t kind);
void lls_hub_cleared(struct lls_remote *, uint32_t from, const struct lls_remote_head *,
                     struct lls_unpack *);
/* The others: GONE, BACK, CLEAR of process 0; and what is to be answered to that. */
void lls_remote_see_gone(struct lls_remote *, uint32_t index, bool for_good);
void lls_remote_see_back(struct lls_remote *, uint32_t index);
void lls_remote_clear(struct lls_remote *, const struct lls_remote_head *);
void lls_remote_go_on_clearing(struct lls_remote *);

/* ---- remote_change.c */
/* Process 0: is there a phase to be begun, before what is posted now is sent? Then, after
 * it is, it is sent. */
bool lls_hub_has_change(struct lls_remote *);
void lls_hub_send_change(struct lls_remote *);
void lls_hub_changed(struct lls_remote *, uint32_t from, const struct lls_remote_head *,
                     struct lls_unpack *);
/* One that is gone answers no more; those that take too long refuse. */
void lls_hub_look_at_change(struct lls_remote *, int64_t now_ns);
/* The others: a phase begins; it goes on, before what it posts is sent; its answer, after
 * that. */
void lls_remote_begin_phase(struct lls_remote *, const struct lls_remote_head *,
                            struct lls_unpack *);
void lls_remote_go_on(struct lls_remote *);
void lls_remote_send_changed(struct lls_remote *);

/* ---- remote_show.c */
void lls_remote_show(struct lls_remote *); /* what has changed, as often as is good */
void lls_remote_show_status(struct lls_remote *);
void lls_remote_show_load(struct lls_remote *);
/* To one; process 0. */
void lls_remote_show_loads(struct lls_remote *, uint32_t to);
/* One of LOAD, STATUS, STATS, SNAPSHOT (process 0), LOADS. */
void lls_remote_see(struct lls_remote *, const struct lls_remote_head *,
                    struct lls_unpack *);

#endif
