/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions on an instance: requests that belong together, such as the turns of an agent.
 *
 * Main knows which session a request is of (core/loop/sessions.h). A session has a part
 * on each instance, which policies see as a struct lls_session. A part belongs to its
 * instance's step thread: requests count themselves in and out, and what main learns at
 * the end of an answer comes as a note through the inbox, so that a part changes between
 * two callbacks only. Main makes parts and notes and frees them: the step thread
 * allocates nothing. In a process other than 0, which has a part of its own instance
 * alone, the channel's thread does so (core/cluster/remote_session.h).
 */
#ifndef LLS_INSTANCE_SESSION_H
#define LLS_INSTANCE_SESSION_H

#include <llmserve/types.h>

struct lls_instance;
struct lls_live;
struct lls_session_record;

#define LLS_IDLE_SESSIONS   4096 /* most sessions without a request, of a server */
#define LLS_SESSION_BUCKETS 4096 /* power of two */
#define LLS_SESSION_TENANTS                                                              \
  256 /* numbers of tenants; larger ones are counted together                            \
       */
/* most items of a plan about sessions: a lease and a fetch of each */
#define LLS_SESSION_ITEMS (2 * (LLS_IDLE_SESSIONS + 1))

enum lls_session_note_kind {
  LLS_SESSION_LEFT = 1, /* a request of it has ended here */
  LLS_SESSION_MOVED,    /* its next request went to another instance */
  LLS_SESSION_CLOSED,   /* main forgets the session */
};

/* A message from main to an instance about a session. */
struct lls_session_note {
  struct lls_session_note *next; /* link of the inbox */
  struct lls_live_session *session;
  uint32_t kind;     /* enum lls_session_note_kind */
  uint32_t ended_by; /* LEFT: enum lls_session_end */
  int64_t ended_ns, returns_ns;
  /* (n_keys) of the blocks that the answer left, behind the note; n_keys 0: it left none,
   * and the earlier ones stay */
  struct lls_key *keys;
  uint32_t n_keys;
  uint32_t tokens;                   /* in these blocks */
  uint64_t request;                  /* LEFT: its id */
  struct lls_session_record *record; /* CLOSED: main's, which frees the note with it */
};

/* The part of a session on one instance [step]. */
struct lls_live_session {
  struct lls_session view;              /* first, since policies' handles point to it */
  struct lls_live_session *prev, *next; /* links of lls_instance_sessions.known */
  bool known;                           /* a request of it has arrived here */
  uint32_t place;                       /* 1 + index among the idle ones; 0: not there */
  struct lls_session_note *note;        /* has the view's keys; NULL: no keys */
  struct lls_live_session *next_in_bucket;
  /* 1 + the last step whose plan named it: in a lease, and in a fetch */
  uint64_t named_in_step[2];
  /* leases.c: links of the sessions with a lease; its tiers, 1u << enum lls_tier; and the
   * tokens that its tenant is charged */
  struct lls_live_session *lease_prev, *lease_next;
  uint32_t leases, leased_tokens; /* in memory: the disk's are core/step/disk_leases.h */
  bool kept_on_disk;              /* it may have a lease there */
  /* links of the sessions with an answer whose lease is not decided yet */
  bool is_fresh;
  /* copies of view.on_device and the like by enum lls_tier, which main may read */
  _Atomic uint32_t there[LLS_TIER_DISK + 1];
  struct lls_live_session *fresh_prev, *fresh_next;
};

/* A closed session whose leases are to end in the next transaction. */
struct lls_dropped_session {
  uint64_t id;
  uint32_t leases;
};

struct lls_instance_sessions {
  /* requests point to the part here alone, not to those on all instances: in a process
   * other than 0 */
  bool alone;
  struct lls_live_session *known;
  /* (n_idle) without a request, in no order; room for one more than main keeps, since
   * main forgets one only after it has posted the note of another */
  const struct lls_session **idle;
  uint32_t n_idle;
  uint32_t recounted, recounts; /* leases.c: index of the last one; keys saved for it */
  struct lls_live_session *by_id[LLS_SESSION_BUCKETS]; /* the known ones */
  /* (n_leases in all) those with a lease, by their tenant's number, the oldest one first
   */
  struct lls_live_session *leases[LLS_SESSION_TENANTS];
  uint32_t n_leases;
  int64_t lease_ends_ns; /* none ends earlier */
  struct lls_live_session *fresh;
  uint64_t leased[LLS_SESSION_TENANTS]; /* tokens, by the tenant's number */
  struct lls_dropped_session *dropped;  /* (n_dropped) room as for `idle` */
  uint32_t n_dropped;
  struct lls_plan_item *items; /* (n_items) of this step's plan, room for all */
  uint32_t n_items;
  bool scheduled; /* the scheduler has planned for sessions: it decides leases */
};

/* [main] Returns -ENOMEM. */
int lls_instance_sessions_init(struct lls_instance_sessions *);
void lls_instance_sessions_free(struct lls_instance_sessions *);

/* Makes a part that no request has entered yet. The name stays the caller's. */
void lls_session_part_init(struct lls_live_session *, uint64_t id, uint32_t tenant,
                           const char *name);
/* Returns a note, LEFT, of an ended request, with the keys of the blocks that it
 * left; NULL without memory. The caller sets what only main knows, and the part. */
struct lls_session_note *lls_session_note_left(const struct lls_live *);

/* [step] A request of this instance is from now on one of its session's, if it has one;
 * or is none any more, since it leaves for another instance. */
void lls_session_enter(struct lls_instance *, struct lls_live *);
void lls_session_leave(struct lls_instance *, struct lls_live *);
/* Returns the part on this instance of the request's session, also if the request has not
 * arrived; NULL if the request has no session. */
struct lls_live_session *lls_session_part(const struct lls_instance *,
                                          const struct lls_live *);
/* Returns the session with this id, NULL: the instance has none. */
struct lls_live_session *lls_session_find(const struct lls_instance_sessions *,
                                          uint64_t id);
/* The manager has a lease of the session; one in this tier is over; all of them are. */
void lls_session_note_lease(struct lls_instance_sessions *, struct lls_live_session *,
                            uint32_t tier, int64_t until_ns);
void lls_session_end_lease(struct lls_instance_sessions *, struct lls_live_session *,
                           uint32_t tier);
void lls_session_forget_lease(struct lls_instance_sessions *, struct lls_live_session *);
/* Sets how many tokens of the session are in the tier. */
void lls_session_set_there(struct lls_live_session *, uint32_t tier, uint32_t tokens);
/* Takes the session off the list of those whose lease is not decided yet. */
void lls_session_forget_fresh(struct lls_instance_sessions *, struct lls_live_session *);
/* [step] After a reload: a new cache manager holds no leases, a new scheduler has planned
 * none. */
void lls_session_adopt(struct lls_instance *);
/* [step] Carries out the inbox's notes. */
void lls_session_take_notes(struct lls_instance *);
/* [step] Tells the scheduler that all sessions end, before it is destroyed. */
void lls_session_end_all(struct lls_instance *);

#endif
