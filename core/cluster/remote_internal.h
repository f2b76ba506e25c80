/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote instances, for the files behind remote.h, in order from the top: remote.c
 * (rounds, start and end), remote_mail.c (sending), remote_receive.c (receiving in
 * process 0), remote_lives.c (which processes are alive, and giving them up),
 * remote_hub.c (process 0's record of remote requests), remote_take.c (messages for the
 * local instance), remote_join.c (processes that come to a service that runs),
 * remote_show.c (boards, status, snapshots), remote_group.c (the other
 * ranks of an instance), remote_change.c (changes of policies), remote_message.c
 * (formatting messages). remote_rank.c is the code of those other ranks. All data is
 * the channel thread's, except members marked as under the lock.
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
  LLS_REMOTE_REQUEST, /* to an instance: a packed request, of the kind head.mail */
  LLS_REMOTE_CANCEL,  /* to an instance: ids of requests to cancel */
  LLS_REMOTE_SETTLED, /* to an instance: struct lls_settled, an offer that has ended */
  LLS_REMOTE_SHIFT,   /* to an instance: struct lls_shift, an order to move blocks to the
                         other tier */
  LLS_REMOTE_PLACED,  /* to an instance: the new place of shifted blocks, packed by
                         offered.c */
  LLS_REMOTE_FETCH,   /* to an instance: an order to send blocks, packed by fetch.c;
                         head.request: the ticket */
  LLS_REMOTE_DROP,    /* to an instance: drops the order of a fetch */
  LLS_REMOTE_SESSION, /* to an instance: struct lls_session_word */
  LLS_REMOTE_NO,      /* to an instance: its fetch cannot be served; head.request 0: none
                       * of those that are under way */
  LLS_REMOTE_EVENTS,  /* to process 0, like all kinds below up to READY */
  LLS_REMOTE_LOAD,
  LLS_REMOTE_STATUS,
  LLS_REMOTE_STATS,
  LLS_REMOTE_SNAPSHOT,
  LLS_REMOTE_FAILED, /* the instance has failed; a sentence with the reason */
  LLS_REMOTE_BYE,
  LLS_REMOTE_READY, /* struct lls_remote_shape */
  LLS_REMOTE_LOADS, /* from process 0, like all kinds below up to END */
  LLS_REMOTE_ASK,
  LLS_REMOTE_GONE,    /* head.source; head.mail: 1 = it may come BACK */
  LLS_REMOTE_STOP,    /* finish all work, and answer BYE */
  LLS_REMOTE_END,     /* the last message; head.mail: 1 = orderly, all have sent BYE */
  LLS_REMOTE_BEAT,    /* sent if there is no other message */
  LLS_REMOTE_CHANGE,  /* from process 0: head.mail, the phase; head.request, its number */
  LLS_REMOTE_CHANGED, /* the answer to CHANGE, with a sentence if it is refused */
  LLS_REMOTE_CLEAR,   /* from process 0: head.request, a number; the process was given
                       * up */
  LLS_REMOTE_CLEARED, /* the answer: nothing is left; number of arrivals so far */
  LLS_REMOTE_BACK,    /* from process 0: head.source gets requests again */
  LLS_REMOTE_LEAVES,  /* to process 0, and from it (head.source): finishes what it has,
                       * and gets no more */
  LLS_REMOTE_PART,    /* to rank 0: head.request, a ticket; bytes, or none if it has
                       * failed */
};

/* Messages that are outdated once a newer one of the kind exists. */
enum lls_remote_latest {
  LLS_REMOTE_LATEST_BEAT,
  LLS_REMOTE_LATEST_LOAD, /* LOADS too */
  LLS_REMOTE_LATEST_STATUS,
  LLS_REMOTE_LATEST_STATS,
  LLS_REMOTE_LATEST
};

/* Precedes every message. For a request it repeats some members, for process 0. */
struct lls_remote_head {
  uint32_t kind, target, from;
  uint32_t slot, mail, source;
  uint64_t request;
};

/* These properties must be equal in all processes for blocks and requests to be
 * compatible. */
struct lls_remote_shape {
  char version[32], device[16];
  struct lls_pool_shape pool;
  uint32_t max_requests, vocabulary, max_context, role, n;
};

/* In process 0: a request that lives in another process. */
struct lls_away {
  struct lls_live *home; /* created by main; NULL: the request is not away */
  uint32_t at;           /* index of the instance that has it */
  uint32_t source;       /* index of the instance with its blocks, while it is offered;
                          * else NOBODY */
  char *offer;           /* (offer_bytes) the packed request at its offer */
  size_t offer_bytes;
  uint64_t again; /* id of the last request of this slot that continued elsewhere after
                     its process had died */
  uint32_t again_tokens; /* tokens of that request when it was continued */
};

struct lls_remote_other {
  bool gone, ready, bye;
  bool hung; /* ended, but its end was not observed */
  /* No message arrived for SILENT_NS. Then the process is given up, unless it is the
   * last of its kind: other instances take over its requests. It is readmitted when it
   * sends messages again and has dropped its old requests, which CLEAR asks for by
   * number. */
  bool silent, given_up;
  bool leaving;        /* it finishes what it has: remote_join.c */
  bool joining;        /* it has come, and gets no requests yet: remote_join.c */
  uint32_t phase;      /* while it joins: the phase of the last change that it is in */
  uint64_t installed;  /* number of the change whose policies it has; 0: the first ones */
  uint64_t installing; /* number of the change that it is led through */
  struct lls_loop_status *before; /* sums of the place's earlier processes; may be NULL */
  uint64_t clearing, n_clears; /* the number of CLEAR under way, 0: none; CLEARs so far */
  int64_t heard_ns;            /* LLS_NEVER: no message yet */
  int64_t joined_ns;           /* when it came, if it is joining */
  struct lls_snapshot *asked;
  /* the number of messages sent to it up to the last one of each kind that must be
   * received before the next one of the kind */
  uint64_t latest[LLS_REMOTE_LATEST];
};

/* In process 0, under the lock: a change of policies. */
struct lls_remote_change {
  uint64_t number; /* number of the phase; answers to other phases are late */
  uint32_t phase;
  int64_t timeout_ns, until_ns;
  bool unsent; /* the channel's thread has not sent it */
  char *data;  /* (n) while unsent */
  size_t n;
  bool waits[LLS_MAX_INSTANCES];
  bool refused; /* a process refused the phase: `why` has the reason */
  struct lls_error why;
};

/* The data of PREPARE of a change. */
struct lls_remote_installed {
  uint64_t number; /* 0: there was no change */
  char *data;      /* (n) */
  size_t n;
};

struct lls_remote {
  struct lls_channel *channel;
  struct lls_channel
      *within; /* channel to the other ranks of this instance; NULL: no other ranks */
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
  uint32_t (*place)(void *context, uint32_t prompt_tokens);
  int (*take_phase)(void *context, uint32_t phase, const char *data, size_t n,
                    struct lls_error *err);
  void *context; /* argument of both functions */
  void (*wake)(void *context);
  void *wake_context;
  lls_loop_adapter adapter; /* NULL if [lora] is empty */
  void *adapter_context;

  struct lls_remote_other *others;         /* (n) */
  struct lls_inbox_content content;        /* scratch */
  struct lls_live *held[2], **held_end[2]; /* requests of this round, and of the next
                                            * one */
  /* snapshot of the local instance that process 0 asked for */
  struct lls_snapshot *snapshot;
  bool snapshot_asked;
  struct lls_load_entry load; /* the load as it was last sent */
  /* process 0: the loads changed since the last message to that instance */
  bool loads_changed[LLS_MAX_INSTANCES];
  uint64_t clearing;   /* number of process 0's CLEAR being carried out here; 0: none */
  uint32_t cleared_in; /* rounds since it was carried out */
  int64_t beat_ns, look_ns, shown_ns, loads_ns, status_ns, stats_ns, active_ns;

  /* all others: the phase of a change that is not answered, or NONE */
  uint32_t phase;
  uint64_t phase_number;
  struct lls_remote_head changed; /* the answer to send, if its kind is CHANGED */
  struct lls_error refusal;
  struct lls_error why_ended;     /* from END; "": none */
  const _Atomic(bool) *leaves;    /* NULL: it never leaves */
  int64_t drain_ns, leaves_at_ns; /* leaves_at_ns 0: it does not leave */

  /* process 0 */
  struct lls_away *away; /* (slots) */
  struct lls_outbox outbox;
  size_t events_per_step;
  uint32_t n_gone;
  int64_t join_ns; /* longest time that a process is joining; 0: no limit */
  pthread_t thread;
  bool running; /* the thread runs */
  atomic_bool stopping;
  bool stop_sent, stopped, ended;

  /* under the lock */
  pthread_mutex_t lock;
  uint32_t n_ready;
  bool serves; /* if processes may come and go: there were enough of them */
  bool lost, failed;
  struct lls_error why_lost, why_failed;
  struct lls_instance_life lives[LLS_MAX_INSTANCES];
  struct lls_remote_change change;
  /* if processes may come and go: the data of the last change that was installed, and
   * of the one under way */
  struct lls_remote_installed installed, preparing;
};

/* Returns the instance, or stand-in, whose queue has the requests that wait to be
 * sent. */
static inline struct lls_instance *lls_remote_instance(struct lls_remote *remote,
                                                       uint32_t i)
{
  return &remote->threads[i].instance;
}

static inline bool lls_remote_is_hub(const struct lls_remote *remote)
{
  return remote->self == 0;
}

/* Returns true if the instance gets no requests: those meant for it go to other
 * instances. */
static inline bool lls_remote_is_out(const struct lls_remote *remote, uint32_t i)
{
  return remote->others[i].gone || remote->others[i].given_up;
}

/* ---- remote_message.c */
int64_t lls_remote_now(struct lls_remote *);
struct lls_remote_head lls_remote_head(const struct lls_remote *, uint32_t kind,
                                       uint32_t target, uint32_t slot);
/* Begins a message: a head, to which more data may be appended. */
struct lls_pack lls_remote_message(const struct lls_remote *, uint32_t kind,
                                   uint32_t target);
/* Sends a message through process 0; takes over the data. */
void lls_remote_send(struct lls_remote *, struct lls_pack *);
/* Returns true if a message of enum lls_remote_latest may be sent to the process that
 * lls_remote_send uses for that target: the previous one was received, and the process
 * is not silent. The next message sent is then recorded as this one. */
bool lls_remote_may_send(struct lls_remote *, uint32_t target, uint32_t latest);
/* Begins and sends a message with `bytes` more data. */
void lls_remote_send_head(struct lls_remote *, const struct lls_remote_head *,
                          const void *more, size_t bytes);

/* ---- remote_mail.c */
/* Sends the contents of the stand-ins' inboxes and of the delivery. Returns true if
 * there was any. */
bool lls_remote_drain(struct lls_remote *);

/* ---- remote_take.c */
/* Handles a message for the local instance. */
void lls_remote_receive(struct lls_remote *, const struct lls_remote_head *,
                        struct lls_unpack *);
/* Delivers a request to the local instance, as the head says. */
void lls_remote_deliver(struct lls_remote *, const struct lls_remote_head *,
                        struct lls_live *);

/* ---- remote_adapter.c */
/* An lls_loop_adapter; context: the struct lls_remote, whose `adapter` is called on
 * another thread. */
int lls_remote_read_adapter(void *context, const char *path,
                            const unsigned char digest[32], struct lls_lora **out,
                            struct lls_error *err);

/* ---- remote_group.c: the other ranks of this instance, if any */
/* Sends GONE with the instance, END with mail, or BEAT to the other ranks. */
void lls_remote_tell_ranks(struct lls_remote *, uint32_t kind, uint32_t source,
                           uint32_t mail);
/* Receives messages of the other ranks. Returns true if there was any. */
bool lls_remote_hear_ranks(struct lls_remote *);
/* Returns 0 if the other ranks are alive, or -ECONNABORTED and the reason. */
int lls_remote_check_ranks(const struct lls_remote *, struct lls_error *why);

/* ---- remote_hub.c: process 0 */
void lls_hub_receive_events(struct lls_remote *, uint32_t from, struct lls_unpack *);
/* Sends a request to its target, or elsewhere if the target has ended. data: (bytes) a
 * head, which is overwritten, and the packed request; taken over. */
void lls_hub_route(struct lls_remote *, struct lls_remote_head *, char *data,
                   size_t bytes);
/* Sends a request from the local instance, or from main. */
void lls_hub_send_request(struct lls_remote *, struct lls_remote_head *,
                          struct lls_live *);
void lls_hub_settled(struct lls_remote *, uint32_t slot, uint32_t source);
void lls_hub_publish(struct lls_remote *);
/* Continues all requests of an instance elsewhere, or ends them with an error; the
 * instance is out. died: its process has died, perhaps of one of them. */
void lls_hub_move_requests(struct lls_remote *, uint32_t index, bool died);
void lls_hub_end_requests(struct lls_remote *);
/* Returns true if the instance has requests, or blocks of some. */
bool lls_hub_has_requests(const struct lls_remote *, uint32_t index);
/* Shows the state of a process. why = NULL: no fault. */
void lls_hub_show_life(struct lls_remote *, uint32_t index, uint32_t state,
                       const char *why);

/* ---- remote_receive.c: process 0 */
void lls_hub_receive(struct lls_remote *, uint32_t from, struct lls_channel_message *);

/* Ends a process, with a sentence that it logs unless that is "", and loses it. */
void lls_hub_refuse(struct lls_remote *, uint32_t from, const char *said,
                    const char *why);
/* Empties the place of a process that has ended, or that gets no more time. */
void lls_hub_lose(struct lls_remote *, uint32_t index, const char *why);

/* ---- remote_join.c: if processes may come and go */
/* Marks all places but this process's and process 0's as empty. */
void lls_remote_begin_empty(struct lls_remote *);
/* Keeps process 0's configuration for processes that join. Returns 0 or -ENOMEM. */
int lls_remote_keep_config(struct lls_remote *, const char *data, size_t n);
/* Takes processes that have come; call it before messages are received. */
void lls_hub_take_joined(struct lls_remote *);
/* Admits processes that are ready, and ends those that have left. */
void lls_hub_look_at_places(struct lls_remote *);
/* Handles the answer of a joining process to a phase. */
void lls_hub_led(struct lls_remote *, uint32_t from, const struct lls_remote_head *,
                 struct lls_unpack *);
/* Handles LEAVES of a process. */
void lls_hub_see_leaving(struct lls_remote *, uint32_t from);
/* All others: handle LEAVES of process 0; begin to leave if that is due. Returns true if
 * the time to finish is over. */
void lls_remote_see_leaving(struct lls_remote *, uint32_t index);
bool lls_remote_go_on_leaving(struct lls_remote *);

/* ---- remote_lives.c */
void lls_remote_beat(struct lls_remote *, int64_t now_ns);
/* Process 0: checks which other processes are lost, or must be given up. */
void lls_remote_look_at_others(struct lls_remote *, int64_t now_ns);
/* All others: check process 0, which reports on the rest. Returns 0 or -ECONNABORTED. */
int lls_remote_look_at_hub(struct lls_remote *, int64_t now_ns, struct lls_error *err);
/* Excuses silence while this process itself was not running. */
void lls_remote_forgive(struct lls_remote *, int64_t now_ns, int64_t gap_ns);
/* Records a message. Returns false if the sender is given up and the message is about
 * its old requests. */
bool lls_hub_hear(struct lls_remote *, uint32_t from, uint32_t kind);
void lls_hub_cleared(struct lls_remote *, uint32_t from, const struct lls_remote_head *,
                     struct lls_unpack *);
/* Gives a process requests again; arrived, prompt_tokens: the requests that its place
 * has had, and their tokens. */
void lls_hub_readmit(struct lls_remote *, uint32_t from, uint64_t arrived,
                     uint64_t prompt_tokens);
/* All others: handle GONE, BACK and CLEAR of process 0, and send the answer. */
void lls_remote_see_gone(struct lls_remote *, uint32_t index, bool for_good);
void lls_remote_see_back(struct lls_remote *, uint32_t index);
void lls_remote_clear(struct lls_remote *, const struct lls_remote_head *);
void lls_remote_go_on_clearing(struct lls_remote *);

/* ---- remote_change.c */
/* Process 0: has_change returns true if a phase must begin; messages already posted
 * are sent first, then send_change sends it. */
bool lls_hub_has_change(struct lls_remote *);
void lls_hub_send_change(struct lls_remote *);
/* [lock held] Returns true while a change goes through its phases. */
bool lls_hub_is_changing(const struct lls_remote *);
/* Lets a change wait no longer for a process that has ended. */
void lls_hub_count_answered(struct lls_remote *, uint32_t index);
void lls_hub_changed(struct lls_remote *, uint32_t from, const struct lls_remote_head *,
                     struct lls_unpack *);
/* Counts processes that have ended as answered, and those that take too long as
 * refusing. */
void lls_hub_look_at_change(struct lls_remote *, int64_t now_ns);
/* All others: begin a phase; continue it, before its posted messages are sent; send its
 * answer, after them. */
void lls_remote_begin_phase(struct lls_remote *, const struct lls_remote_head *,
                            struct lls_unpack *);
void lls_remote_go_on(struct lls_remote *);
void lls_remote_send_changed(struct lls_remote *);

/* ---- remote_show.c */
void lls_remote_show(struct lls_remote *); /* sends what has changed, at limited rates */
void lls_remote_show_status(struct lls_remote *);
void lls_remote_show_load(struct lls_remote *);
/* Process 0: sends the loads to one process. */
void lls_remote_show_loads(struct lls_remote *, uint32_t to);
/* Handles LOAD, STATUS, STATS, SNAPSHOT (process 0) or LOADS. */
void lls_remote_see(struct lls_remote *, const struct lls_remote_head *,
                    struct lls_unpack *);

#endif
