/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP/1.1 server on a libuv loop: listeners, connections and their limits. What the
 * requests mean is the business of config.on_request.
 *
 * Everything runs on the loop's thread, in a process that ignores SIGPIPE. A connection
 * answers one request at a time.
 */
#ifndef LLS_HTTP_SERVER_H
#define LLS_HTTP_SERVER_H

#include "core/base/error.h"
#include "core/config/limits.h"
#include "core/http/exchange.h"

struct lls_http_config {
  struct lls_http_limits limits; /* on what a client may do */
  void *context;
  void (*on_request)(void *context, struct lls_http_exchange *exchange);
  /* The head of a request has come, and no body: may set request.sink. False: the body is
   * not wanted, so that on_request is called without it, and refuses. May be NULL. */
  bool (*on_head)(void *context, struct lls_http_exchange *exchange);
  /* The answer is complete, or its client left in the middle of it; may be NULL. */
  void (*on_answered)(void *context, struct lls_http_exchange *exchange);
  /* The exchange is over, whatever became of it; may be NULL. */
  void (*on_over)(void *context, struct lls_http_exchange *exchange);
  /* Writes the body of an answer to what is no request (reason: a static clause). */
  void (*error_body)(void *context, unsigned status, const char *reason,
                     struct lls_text *out);
  const char *error_type; /* its content-type */
};

struct lls_http_counters {
  uint64_t accepted, refused; /* connections; refused: more than max_connections */
  uint64_t requests;          /* complete ones */
  uint64_t malformed;         /* answered with an error before they were complete */
  uint64_t timeouts;          /* closed for one of the three timeouts */
  uint64_t slow_readers;      /* cut off at [server] max_unsent */
  uint64_t crowded;           /* requests refused at [server] max_bodies */
  uint64_t gone;              /* clients that left before their answer was complete */
  uint32_t open, busy;        /* connections now; of those, with a request in hand */
};

struct lls_http_server;

int lls_http_server_create(uv_loop_t *uv, const struct lls_http_config *config,
                           struct lls_http_server **out, struct lls_error *err);

/* "host:port", "[v6]:port" or ":port"; port 0 takes a free one. */
int lls_http_server_listen(struct lls_http_server *server, const char *address,
                           struct lls_error *err);

/* A Unix socket that its owner and root can open, and nobody else. What an ended server
 * has left there is taken away. */
int lls_http_server_listen_admin(struct lls_http_server *server, const char *path,
                                 struct lls_error *err);

/* "host:port" of the first listener, with the real port; "" before there is one. */
const char *lls_http_server_address(const struct lls_http_server *server);

/* True if one of its listeners can be reached from other machines. */
bool lls_http_server_is_exposed(const struct lls_http_server *server);

/* Requests that come from now on go to another owner; none may be in hand. */
void lls_http_server_hand_over(struct lls_http_server *, const struct lls_http_config *);

/* For what comes from now on. */
void lls_http_server_set_limits(struct lls_http_server *, const struct lls_http_limits *);

/* Bytes of requests that are held, and of answers that clients have not read. */
size_t lls_http_server_held(const struct lls_http_server *server);
size_t lls_http_server_unread(const struct lls_http_server *server);

/* Bytes that lls_http_take_body has left in the count are freed. */
void lls_http_release(struct lls_http_server *server, size_t held);

const struct lls_http_counters *
lls_http_server_counters(const struct lls_http_server *server);

/* Before close: from now on new connections are refused. Those that the kernel has taken
 * are accepted and answered as before, and end with their answer. */
void lls_http_server_last_call(struct lls_http_server *server);

/* True if a request is in hand, has come in part, or may be on its way: its connection
 * was accepted, or had an answer, a moment ago. */
bool lls_http_server_expects(const struct lls_http_server *server);

/*
 * Closes listeners and connections (answers in hand are cut off, complete ones are given
 * a moment to be read), then calls back, once; at once if there is nothing to close.
 */
void lls_http_server_close(struct lls_http_server *server, void (*closed)(void *context),
                           void *context);

/* After the callback of close, or when it never listened. */
void lls_http_server_destroy(struct lls_http_server *server);

#endif
