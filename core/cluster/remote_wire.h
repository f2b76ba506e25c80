/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and events as bytes, for transfer between processes. Times are converted to
 * process 0's clock, whatever the clocks of other processes show (struct
 * lls_wire.ahead_ns).
 */
#ifndef LLS_CLUSTER_REMOTE_WIRE_H
#define LLS_CLUSTER_REMOTE_WIRE_H

#include "core/base/pack.h"
#include "core/instance/loop_options.h"
#include "core/instance/request.h"

struct lls_guests;

struct lls_wire {
  int64_t ahead_ns; /* process 0's clock minus this one's */
  struct lls_live_context live;
  lls_loop_grammar grammar; /* NULL: grammars cannot be compiled */
  void *grammar_context;
  lls_loop_adapter adapter; /* NULL if [lora] is empty */
  void *adapter_context;
  struct lls_guests *guests; /* NULL in process 0, which has all sessions */
};

static inline int64_t lls_wire_time(int64_t at_ns, int64_t ahead_ns)
{
  return at_ns == LLS_NEVER ? LLS_NEVER : at_ns + ahead_ns;
}

/* ---- remote_request.c */
void lls_wire_pack_request(const struct lls_wire *, const struct lls_live *,
                           struct lls_pack *);
/* Makes a new request, without an owner; NULL with the reason in why. */
struct lls_live *lls_wire_new_request(const struct lls_wire *, struct lls_unpack *,
                                      struct lls_error *err);
/* Unpacks into the request that was first packed here. Returns false if it is another
 * request. */
bool lls_wire_update_request(const struct lls_wire *, struct lls_unpack *,
                             struct lls_live *);

/* Sets the mail kind of a packed request. */
void lls_wire_set_mail(char *packed, uint32_t mail);

/* ---- remote_event.c */
void lls_wire_pack_event(const struct lls_wire *, const struct lls_event *,
                         struct lls_pack *);
/* Gets the request of the next event, and whether the event is an end because its
 * process cannot continue the request. Returns false if there is no event. */
bool lls_wire_next_event(struct lls_unpack *, uint64_t *request, bool *lost);
/* Unpacks that event, of a request that is remote: its tokens, scores and vector are
 * written to home. */
void lls_wire_unpack_event(const struct lls_wire *, struct lls_unpack *,
                           struct lls_live *home, struct lls_event *out);
/* Skips that event, of a request that does not exist any more. */
void lls_wire_skip_event(struct lls_unpack *);

#endif
