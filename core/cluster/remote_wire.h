/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and events as bytes, on their way between processes: each packs what it has
 * and the other makes the same of it. Times go by the clock of process 0, whatever the
 * clocks of the others say (struct lls_wire.ahead_ns).
 */
#ifndef LLS_CLUSTER_REMOTE_WIRE_H
#define LLS_CLUSTER_REMOTE_WIRE_H

#include "core/base/pack.h"
#include "core/instance/loop_options.h"
#include "core/instance/request.h"

struct lls_wire {
  int64_t ahead_ns; /* of process 0's clock before this one's */
  struct lls_live_context live;
  lls_loop_grammar grammar; /* NULL: none can be compiled */
  void *grammar_context;
};

static inline int64_t lls_wire_time(int64_t at_ns, int64_t ahead_ns)
{
  return at_ns == LLS_NEVER ? LLS_NEVER : at_ns + ahead_ns;
}

/* ---- remote_request.c */
void lls_wire_pack_request(const struct lls_wire *, const struct lls_live *,
                           struct lls_pack *);
/* A new one, without an owner; NULL with why. */
struct lls_live *lls_wire_new_request(const struct lls_wire *, struct lls_unpack *,
                                      struct lls_error *err);
/* The same into the one that it was packed of first: false if it is not that. */
bool lls_wire_update_request(const struct lls_wire *, struct lls_unpack *,
                             struct lls_live *);

/* Into a packed one: what it comes as. */
void lls_wire_set_mail(char *packed, uint32_t mail);

/* ---- remote_event.c */
void lls_wire_pack_event(const struct lls_wire *, const struct lls_event *,
                         struct lls_pack *);
/* The request that the next one is of, and whether it is the end of one that the process
 * cannot go on with; false: there is none. */
bool lls_wire_next_event(struct lls_unpack *, uint64_t *request, bool *lost);
/* That one, of a request that lies here while it is elsewhere: its tokens, scores and
 * vector are written there. */
void lls_wire_unpack_event(const struct lls_wire *, struct lls_unpack *,
                           struct lls_live *home, struct lls_event *out);
/* That one is of nobody. */
void lls_wire_skip_event(struct lls_unpack *);

#endif
