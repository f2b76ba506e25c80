/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request and its answer, as a handler sees them.
 *
 * A handler gets an exchange and answers it once, at once or later: whole with
 * lls_http_reply, or piece by piece with lls_http_stream_begin, _write and _end. After
 * lls_http_reply or lls_http_stream_end the exchange is over and its pointer must be
 * forgotten.
 *
 * Should the client go away first (it closed, stopped reading, or the server is being
 * closed), on_gone is called once and the exchange is over too. It is called from the
 * loop, never from inside one of these functions, which do nothing once the client is
 * gone: a handler need not check.
 */
#ifndef LLS_HTTP_EXCHANGE_H
#define LLS_HTTP_EXCHANGE_H

#include <uv.h>

#include "core/http/http_request.h"

#define LLS_HTTP_ID_BYTES  101
#define LLS_HTTP_WHY_BYTES 200

struct lls_http_exchange {
  struct lls_http_request request;
  char id[LLS_HTTP_ID_BYTES];   /* what the handlers call it in answers and logs */
  void (*on_gone)(void *owner); /* set by a handler that answers later */
  void *owner;
  /* All that was written to a stream has been taken; for one that goes at its reader's
   * pace. May be NULL. */
  void (*on_drained)(void *owner);
  /* The client sends nothing more while an answer that has begun goes on. Whether it has
   * left shows when something is written to it: a handler whose next piece may take long
   * writes one that means nothing. May be NULL. */
  void (*on_ended)(void *owner);
  struct lls_text headers; /* added to the answer's own */
  const void *route;       /* set by on_request, for on_answered */
  void *account;           /* likewise, for on_over */
  int64_t arrival_ns;      /* the request was complete */
  uint64_t body_bytes;     /* of the request; a handler may have taken the body itself */
  unsigned status;         /* of the answer, 0 before it has begun */
  uint64_t answer_bytes;   /* of its body, so far */
  char why[LLS_HTTP_WHY_BYTES]; /* of an answer that is an error: its sentence */
  bool logged;                  /* the request has a line in the log, or will have */
};

/* The client's address without its port, and whether it is on this machine itself; both
 * are of the other end of the connection, be that a proxy. */
const char *lls_http_peer(struct lls_http_exchange *exchange);
bool lls_http_peer_is_local(struct lls_http_exchange *exchange);
/* It came through the admin's socket, which the system lets nobody else open. */
bool lls_http_peer_is_admin(const struct lls_http_exchange *exchange);

/* Adds a header to the answer; a value with control characters is left out. */
void lls_http_add_header(struct lls_http_exchange *exchange, const char *name,
                         const char *value);

/* The whole answer; type may be NULL where there is no body. */
void lls_http_reply(struct lls_http_exchange *exchange, unsigned status, const char *type,
                    const void *body, size_t length);

/* A HEAD request: its answer is a head, lls_http_reply leaves the body out. */
bool lls_http_is_head(const struct lls_http_exchange *exchange);

/* Not for a HEAD request. */
void lls_http_stream_begin(struct lls_http_exchange *exchange, unsigned status,
                           const char *type);
#define LLS_HTTP_MAX_PIECES 5
/* (count) pieces that follow each other, sent together. */
void lls_http_stream_write(struct lls_http_exchange *exchange, const uv_buf_t *pieces,
                           unsigned count);
void lls_http_stream_end(struct lls_http_exchange *exchange);
/* Bytes of the answer that the client has not taken; on_drained tells when it has. */
size_t lls_http_stream_unsent(struct lls_http_exchange *exchange);
/* Ends a stream that cannot go on, so that its client sees that it is incomplete. */
void lls_http_stream_abort(struct lls_http_exchange *exchange);

/* Takes the body out of the request. It stays counted in what the server holds until its
 * owner frees it and calls lls_http_release with the length that is returned. */
size_t lls_http_take_body(struct lls_http_exchange *exchange, struct lls_text *body);

/* For the owner of request.sink: nothing more is read until lls_http_go_on, which is
 * called before the exchange is over. */
void lls_http_hold(struct lls_http_exchange *exchange);
void lls_http_go_on(struct lls_http_exchange *exchange);

#endif
