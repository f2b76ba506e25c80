/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's own view of itself and its connections; for core/http only.
 *
 *   RECEIVING --request complete--> ANSWERING --answer complete--> RECEIVING
 *       |                               |                             or
 *       +--refused--> LINGERING <-------+--no keep-alive----------> LINGERING
 *
 * and from every phase to CLOSED. While ANSWERING the socket is still read, for that is
 * how a client that goes away is noticed; what it sends ahead is kept, up to a bound. One
 * that has only ended its own side is answered, and what it sent ahead too.
 * LINGERING has sent its last byte and discards what comes until the client closes too:
 * closing at once would make the kernel reset the connection and destroy the answer.
 *
 * Who may ask is decided when a head is complete. A request that is refused then is
 * answered without its body, which LINGERING discards.
 */
#ifndef LLS_HTTP_CONNECTION_H
#define LLS_HTTP_CONNECTION_H

#include <netinet/in.h>

#include "core/base/check.h"
#include "core/http/output.h"
#include "core/http/parser.h"
#include "core/http/server.h"

#define LLS_HTTP_LINGER_MS     2000
#define LLS_HTTP_MAX_PIPELINED 65536
#define LLS_HTTP_MAX_LISTENERS 8
#define LLS_HTTP_READ_BYTES    65536
#define LLS_HTTP_SMALL_BODY    65536 /* a body up to this size is a small one */

enum lls_http_phase {
  LLS_HTTP_RECEIVING,
  LLS_HTTP_ANSWERING,
  LLS_HTTP_LINGERING,
  LLS_HTTP_CLOSED,
};

struct lls_http_connection {
  union {
    uv_tcp_t tcp;
    uv_pipe_t pipe; /* of the admin's socket */
  };
  uv_shutdown_t shutdown;
  struct lls_http_server *server;
  struct lls_http_connection *prev, *next;
  enum lls_http_phase phase;
  bool
      feeding; /* inside the parser's loop: an answer given now must not start it again */
  bool reading, ended; /* ended: the client will send nothing more */
  bool on_hold;        /* whoever takes the body has no room for more of it now */
  struct lls_http_parser parser;
  struct lls_http_exchange exchange;
  struct lls_http_output output;
  struct lls_text ahead; /* sent before the answer to the request in hand */
  size_t held;           /* its bytes in server->held: head, body and ahead */
  char peer[INET6_ADDRSTRLEN];
  bool admin;         /* it came through the admin's socket */
  bool local;         /* the peer is on this machine */
  uint64_t since_ms;  /* the phase, or the request, began */
  uint64_t linger_ms; /* LINGERING began */
  uint64_t taken_ms;  /* the client took a byte of output, or there was none */
  uint64_t taken;     /* bytes it has taken by then */
};

struct lls_http_server {
  uv_loop_t *uv;
  const void *thread; /* which runs it: [main] */
  struct lls_http_config config;
  struct lls_http_counters counters;
  size_t held;   /* bytes of requests: connections', and bodies that were taken */
  size_t unread; /* bytes of answers that clients have not taken */
  struct lls_http_connection *connections; /* utlist */
  struct lls_http_connection *spare;       /* for a client without memory; may be out */
  uv_tcp_t listeners[LLS_HTTP_MAX_LISTENERS];
  unsigned n_listeners;
  uv_pipe_t socket; /* the admin's, if has_socket */
  bool has_socket;
  char address[80];
  bool exposed; /* listens on more than loopback */
  uv_timer_t sweep;
  bool sweeping;
  bool last_call; /* new connections are refused, and each answer ends its connection */
  bool closing;
  unsigned handles; /* listeners, sweep and connections not yet closed */
  void (*closed)(void *context);
  void *closed_context;
  char read_buffer[LLS_HTTP_READ_BYTES]; /* one for all: parsed before the next read */
};

/* Everything here is [main]. */
#define LLS_HTTP_ON_MAIN(SERVER) LLS_ON((SERVER)->thread)

/* A new connection of this listener; refused over the limit. */
void lls_http_connection_accept(struct lls_http_server *server, uv_stream_t *listener);

/* Closes it for one of the timeouts if its time has come. */
void lls_http_connection_check(struct lls_http_connection *connection, uint64_t now_ms);

/* Closes it now; on_gone is called later if an answer was due. */
void lls_http_connection_close(struct lls_http_connection *connection);

/* Closes it, after what was answered has been read. */
void lls_http_connection_linger(struct lls_http_connection *connection);

/* The answer is complete: on to the next request, or to the end. */
void lls_http_connection_answered(struct lls_http_connection *connection);

/* Refuses what came with an error and ends the connection. */
void lls_http_connection_refuse(struct lls_http_connection *connection, unsigned status,
                                const char *reason);

/* The next sweep comes as soon as any may. */
void lls_http_server_sweep_soon(struct lls_http_server *server);
/* One of the server's handles has been closed. */
void lls_http_server_handle_closed(struct lls_http_server *server);

static inline bool lls_http_server_ends(const struct lls_http_server *server)
{
  return server->last_call || server->closing;
}

static inline struct lls_http_connection *
lls_http_connection_of(struct lls_http_exchange *exchange)
{
  return (struct lls_http_connection *)((char *)exchange -
                                        offsetof(struct lls_http_connection, exchange));
}

#endif
