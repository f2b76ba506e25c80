/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions in a process other than process 0. Process 0 has the table of all sessions
 * (core/loop/sessions.h). A request that comes here names its session: by the session's
 * id, its tenant and its name. This process makes a part of the session (session.h) for
 * its own instance, and keeps it until process 0 forgets the session. So policies here
 * see sessions as those of process 0 do, and leases work as they do there.
 *
 * What main of process 0 posts to the instance, a note, is a message of fixed size here,
 * struct lls_session_word. The keys of the blocks that an answer left do not travel: this
 * process has them. It keeps the note of an ended request until process 0 sends how the
 * answer has ended (it may have called a tool) and when the session returns; only then
 * the step thread takes the note, so that it decides on a lease by both.
 *
 * All of it is the channel thread's.
 */
#ifndef LLS_CLUSTER_REMOTE_SESSION_H
#define LLS_CLUSTER_REMOTE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lls_guests;
struct lls_inbox;
struct lls_live;
struct lls_live_session;
struct lls_session_note;

#define LLS_GUEST_NAME_BYTES 256 /* of a session's name; longer ones are cut */

/* A note from process 0. */
struct lls_session_word {
  uint64_t session, request;
  int64_t ended_ns, returns_ns;
  uint32_t kind;     /* enum lls_session_note_kind */
  uint32_t ended_by; /* LEFT: enum lls_session_end */
};

struct lls_session_word lls_session_word_of(const struct lls_session_note *);

/* inbox: of this process's instance, of which the other end is the step thread. */
int lls_guests_create(struct lls_inbox *inbox, struct lls_guests **out);
/* After the inbox was freed, since its notes may be parts of sessions. Guests may be
 * NULL. */
void lls_guests_free(struct lls_guests *);

/* Returns the part of this session, which is made if there is none; NULL without memory,
 * or if there are too many. name: (bytes), without a NUL. */
struct lls_live_session *lls_guests_find(struct lls_guests *, uint64_t id,
                                         uint32_t tenant, const void *name, size_t bytes);
/* A request has ended here; call it before the request is freed. guests, live may be
 * NULL. */
void lls_guests_ended(struct lls_guests *, const struct lls_live *live);
void lls_guests_take(struct lls_guests *, const struct lls_session_word *);
/* Ends all sessions, after the requests that were here are gone. Returns true when the
 * step thread has ended them; call it again until then. NULL: true. */
bool lls_guests_clear(struct lls_guests *);

#endif
