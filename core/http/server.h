/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP/1.1 server on a libuv loop: listeners, connections and their limits.
 * config.on_request gives the requests their meaning.
 *
 * Everything runs on the loop's thread, in a process that ignores SIGPIPE. A connection
 * answers one request at a time.
 */
#ifndef LLS_HTTP_SERVER_H
#define LLS_HTTP_SERVER_H

#include "core/base/error.h"
#include "core/config/limits.h"
#include "core/http/exchange.h"
#include "core/http/tls.h"

struct lls_http_config {
  struct lls_http_limits limits; /* limits of what a client may do */
  void *context;
  void (*on_request)(void *context, struct lls_http_exchange *exchange);
  /* Called when the head of a request is complete and no byte of the body was read; may
   * set request.sink. Returns false if the body is not wanted: on_request is then called
   * without it, and refuses the request. May be NULL. */
  bool (*on_head)(void *context, struct lls_http_exchange *exchange);
  /* Called when the answer is complete, or when its client left in the middle of it; may
   * be NULL. */
  void (*on_answered)(void *context, struct lls_http_exchange *exchange);
  /* Called at the end of every exchange, answered or not; may be NULL. */
  void (*on_over)(void *context, struct lls_http_exchange *exchange);
  /* Writes the body of the answer to malformed input (reason: a static clause). */
  void (*error_body)(void *context, unsigned status, const char *reason,
                     struct lls_text *out);
  const char *error_type; /* content-type of that body */
  /* Called when a connection is closed for what its client sent in TLS; may be NULL. */
  void (*on_tls_failed)(void *context, const char *peer, const char *why);
};

struct lls_http_counters {
  uint64_t accepted, refused; /* connections; refused: more than max_connections */
  uint64_t requests;          /* complete requests */
  uint64_t malformed;         /* answered with an error before they were complete */
  uint64_t timeouts;          /* closed for one of the three timeouts */
  uint64_t slow_readers;      /* cut off at [server] max_unsent */
  uint64_t crowded;           /* requests refused at [server] max_bodies */
  uint64_t tls_failed;        /* connections closed for what they sent in TLS */
  uint64_t gone;              /* clients that left before their answer was complete */
  uint32_t open, busy; /* open connections; busy: those with a request in progress */
};

struct lls_http_server;

int lls_http_server_create(uv_loop_t *uv, const struct lls_http_config *config,
                           struct lls_http_server **out, struct lls_error *err);

/* Takes ownership of a certificate for new connections. Whether there is one must be
 * known before the server listens, and stay so. */
void lls_http_server_set_tls(struct lls_http_server *server, struct lls_tls *tls);

/*
 * Listens on each address of a list as of core/base/listen_address.h; port 0 takes a free
 * one. A socket file that an ended server left there is removed, and the server removes
 * its own at its end.
 */
int lls_http_server_listen(struct lls_http_server *server, const char *list,
                           struct lls_error *err);

/* Listens on a Unix socket that only its owner and root can open. */
int lls_http_server_listen_admin(struct lls_http_server *server, const char *path,
                                 struct lls_error *err);

/*
 * Listens on a socket that the service manager has opened, and takes ownership of fd.
 * `name` is its name there: "admin" is the administrator's, "http" is without TLS.
 */
int lls_http_server_listen_inherited(struct lls_http_server *server, int fd,
                                     const char *name, struct lls_error *err);

/* Writes all addresses that clients may use, as in "http://127.0.0.1:8080,
 * unix:/run/api.sock". */
void lls_http_server_urls(const struct lls_http_server *server, char *text, size_t size);

/* Returns "host:port" of the first TCP listener, with the real port; "" if there is
 * none. */
const char *lls_http_server_address(const struct lls_http_server *server);

/* True if one of its listeners can be reached from other machines. */
bool lls_http_server_is_exposed(const struct lls_http_server *server);

/* Uses another config for all later requests. No request may be in progress. */
void lls_http_server_hand_over(struct lls_http_server *, const struct lls_http_config *);

/* Sets the limits of all later requests. */
void lls_http_server_set_limits(struct lls_http_server *, const struct lls_http_limits *);

/* Return the bytes of requests in memory, and the bytes of answers that clients have not
 * read. */
size_t lls_http_server_held(const struct lls_http_server *server);
size_t lls_http_server_unread(const struct lls_http_server *server);

/* Removes `held` bytes from the count, after a body from lls_http_take_body was freed. */
void lls_http_release(struct lls_http_server *server, size_t held);

const struct lls_http_counters *
lls_http_server_counters(const struct lls_http_server *server);

/* Refuses new connections from now on; called before close. Connections that the kernel
 * has already accepted are answered as before, and end with their answer. */
void lls_http_server_last_call(struct lls_http_server *server);

/* True if a request is being answered, has arrived in part, or may be under way because
 * its connection was accepted or answered a moment ago. */
bool lls_http_server_expects(const struct lls_http_server *server);

/*
 * Closes listeners and connections, then calls `closed` once, immediately if there is
 * nothing to close. Answers in progress are cut off; clients have a moment to read
 * complete answers.
 */
void lls_http_server_close(struct lls_http_server *server, void (*closed)(void *context),
                           void *context);

/* Frees the server, after the callback of close or if it never listened. */
void lls_http_server_destroy(struct lls_http_server *server);

#endif
