/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sessions of a server, as main knows them: which request is of which session, when
 * the last answer ended and how, when the next request is expected. What instances and
 * their policies see of a session is its part there (core/instance/session.h), which this
 * table makes, informs by notes and frees.
 *
 * A session belongs to a tenant: two tenants that use one name have two sessions. It is
 * found by the name that the client chose, or by the id of its last answer. At most
 * LLS_IDLE_SESSIONS without a request are kept, with [cache] session_memory for the keys
 * of their blocks; if there are more, the tenant that has most of them loses its oldest
 * one, so that no tenant can drive out another's.
 */
#ifndef LLS_LOOP_SESSIONS_H
#define LLS_LOOP_SESSIONS_H

#include "core/instance/session.h"
#include "core/instance/submission.h"
#include "core/loop/tool_times.h"

struct lls_inbox;
struct lls_session_record;
struct lls_session_tenant;

#define LLS_SESSION_TOOL_BYTES 128 /* of a tool's name; longer ones are cut */

/* How a request left its session. */
struct lls_session_leaving {
  uint32_t ended_by;                 /* enum lls_session_end */
  char tool[LLS_SESSION_TOOL_BYTES]; /* "": none */
};

struct lls_sessions {
  struct lls_session_record *by_name, *by_answer; /* uthash */
  struct lls_session_record *all;                 /* in order of their first requests */
  struct lls_session_record *closing; /* until all instances have forgotten them */
  struct lls_session_tenant *tenants; /* uthash: those with a session */
  struct lls_tool_times times;
  struct lls_inbox **inboxes; /* (n_instances) */
  /* (n_instances) those in other processes: what is posted to them is sent to where they
   * are (core/cluster/remote_session.h) */
  bool *remote;
  uint32_t n_instances;
  uint32_t n, n_idle, max_idle;
  uint64_t key_bytes;     /* of the blocks that the last answers left */
  uint64_t max_key_bytes; /* beyond it idle sessions are forgotten; 0: no limit */
  uint64_t last_id;
  struct lls_session_leaving leaving; /* of the request whose end is being handed out */
};

/* inboxes, remote: see above; remote NULL: none is. Returns -ENOMEM. */
int lls_sessions_init(struct lls_sessions *, struct lls_inbox *const *inboxes,
                      const bool *remote, uint32_t n_instances, uint32_t max_idle);
/* After the inboxes were freed. */
void lls_sessions_free(struct lls_sessions *);

/* Makes a request one of the session that `use` names, if it names one: sets
 * live->record and live->sessions. Without memory the request has no session. */
void lls_sessions_enter(struct lls_sessions *, const struct lls_session_use *use,
                        struct lls_live *live);
/* The request goes to this instance. */
void lls_sessions_place(struct lls_sessions *, struct lls_live *live, uint32_t instance);
/* The request has ended as `leaving` says. */
void lls_sessions_leave(struct lls_sessions *, struct lls_live *live, int64_t ended_ns);
/* Says that the answer whose end is being handed out calls this tool. */
void lls_sessions_call(struct lls_sessions *, const struct lls_live *live,
                       const char *tool);

/* A session, for operators. */
struct lls_session_row {
  const char *name, *tenant; /* valid until the next call */
  uint64_t id;
  uint32_t alive, ended_by, tokens, instance;
  uint32_t there[LLS_TIER_DISK + 1]; /* tokens by tier, of an idle session */
  int64_t ended_ns, returns_ns;
};

/* Calls `each` for every session, in order of their first requests. */
void lls_sessions_list(const struct lls_sessions *,
                       void (*each)(void *context, const struct lls_session_row *),
                       void *context);

#endif
