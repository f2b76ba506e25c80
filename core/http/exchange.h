/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request and its answer, as a handler sees them.
 *
 * A handler gets an exchange and answers it once, immediately or later: whole with
 * lls_http_reply, or piece by piece with lls_http_stream_begin, _write and _end. After
 * lls_http_reply or lls_http_stream_end the exchange is over and its pointer is invalid.
 *
 * If the client leaves first (it closed, it stopped reading, or the server is closing),
 * on_gone is called once and the exchange is over too. on_gone is called from the loop,
 * never from inside one of these functions. After the client has left these functions do
 * nothing, so a handler need not check.
 */
#ifndef LLS_HTTP_EXCHANGE_H
#define LLS_HTTP_EXCHANGE_H

#include <uv.h>

#include "core/http/http_request.h"

#define LLS_HTTP_ID_BYTES  101
#define LLS_HTTP_WHY_BYTES 200

struct lls_http_exchange {
  struct lls_http_request request;
  char id[LLS_HTTP_ID_BYTES];   /* request id, used in answers and logs */
  void (*on_gone)(void *owner); /* set by a handler that answers later */
  void *owner;
  /* Called when the client has taken all that was written to the stream, so that a
   * handler can write at its reader's pace. May be NULL. */
  void (*on_drained)(void *owner);
  /* Called when the client ends its sending side during an answer. Only a write shows
   * whether the client still reads: a handler whose next piece may take long writes one
   * that clients ignore. May be NULL. */
  void (*on_ended)(void *owner);
  struct lls_text headers; /* headers from handlers, sent with the answer's own */
  const void *route;       /* set by on_request, for on_answered */
  void *account;           /* set by on_request, for on_over */
  int64_t arrival_ns;      /* when the request was complete */
  uint64_t body_bytes;     /* length of the request's body, even if a handler took it */
  unsigned status;         /* status of the answer, 0 before it begins */
  uint64_t answer_bytes;   /* bytes of the answer's body sent so far */
  char why[LLS_HTTP_WHY_BYTES]; /* message of an answer that is an error */
  bool logged;                  /* the request has a line in the log, or will get one */
};

/* Returns the client's address without its port ("unix" if it came through a Unix socket
 * of [server] listen, "" through the administrator's), and whether it is on this machine.
 * Both describe the other end of the connection, which may be a proxy. */
const char *lls_http_peer(struct lls_http_exchange *exchange);
bool lls_http_peer_is_local(struct lls_http_exchange *exchange);
/* True if the request came through the administrator's Unix socket, which only its owner
 * and root can open. */
bool lls_http_peer_is_admin(const struct lls_http_exchange *exchange);

/* Adds a header to the answer, unless its value has control characters. */
void lls_http_add_header(struct lls_http_exchange *exchange, const char *name,
                         const char *value);

/* Sends the whole answer. type may be NULL if there is no body. */
void lls_http_reply(struct lls_http_exchange *exchange, unsigned status, const char *type,
                    const void *body, size_t length);

/* True for a HEAD request. Its answer is only a head: lls_http_reply omits the body. */
bool lls_http_is_head(const struct lls_http_exchange *exchange);

/* Begins an answer that is written piece by piece. Not for a HEAD request. */
void lls_http_stream_begin(struct lls_http_exchange *exchange, unsigned status,
                           const char *type);
#define LLS_HTTP_MAX_PIECES 5
/* Sends (count) consecutive pieces together. */
void lls_http_stream_write(struct lls_http_exchange *exchange, const uv_buf_t *pieces,
                           unsigned count);
void lls_http_stream_end(struct lls_http_exchange *exchange);
/* Returns the bytes of the answer that the client has not taken. on_drained is called
 * when it is 0. */
size_t lls_http_stream_unsent(struct lls_http_exchange *exchange);
/* Cuts off a stream that cannot continue: the client sees that the answer is
 * incomplete. */
void lls_http_stream_abort(struct lls_http_exchange *exchange);

/* Moves the body out of the request. Its bytes stay counted in server->held until the new
 * owner frees them and calls lls_http_release with the returned length. */
size_t lls_http_take_body(struct lls_http_exchange *exchange, struct lls_text *body);

/* For the owner of request.sink: lls_http_hold stops reading from the connection until
 * lls_http_go_on, which must be called before the exchange is over. */
void lls_http_hold(struct lls_http_exchange *exchange);
void lls_http_go_on(struct lls_http_exchange *exchange);

#endif
