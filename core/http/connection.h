/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structs of the server and its connections; for core/http only.
 *
 *   RECEIVING --request complete--> ANSWERING --answer complete--> RECEIVING
 *       |                               |                             or
 *       +--refused--> LINGERING <-------+--no keep-alive----------> LINGERING
 *
 * Every phase may change to CLOSED. While ANSWERING the socket is still read, because
 * this shows when a client leaves; bytes that the client sends ahead are kept, up to a
 * bound. A client that has ended only its sending side gets its answer, and answers to
 * the requests that it sent ahead. A LINGERING connection has sent its last byte and
 * discards input until the client closes too: closing at once would make the kernel reset
 * the connection and destroy the answer.
 *
 * A client's right to send a request is checked when the head is complete. A request that
 * is refused then is answered without its body, which LINGERING discards.
 */
#ifndef LLS_HTTP_CONNECTION_H
#define LLS_HTTP_CONNECTION_H

#include <netinet/in.h>

#include "core/base/check.h"
#include "core/base/listen_address.h"
#include "core/http/output.h"
#include "core/http/parser.h"
#include "core/http/server.h"

#define LLS_HTTP_LINGER_MS     2000
#define LLS_HTTP_MAX_PIPELINED 65536
#define LLS_HTTP_MAX_LISTENERS 32
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
    uv_pipe_t pipe; /* a client of a Unix socket */
  };
  uv_shutdown_t shutdown;
  struct lls_http_server *server;
  struct lls_http_connection *prev, *next;
  enum lls_http_phase phase;
  bool feeding; /* inside receive(): an answer given now must not start a second loop */
  bool reading, ended; /* ended: the client will send nothing more */
  bool greeted;        /* TLS has got its first byte */
  bool on_hold;        /* the owner of request.sink has paused reading (lls_http_hold) */
  struct lls_http_parser parser;
  struct lls_http_exchange exchange;
  struct lls_http_output output;
  struct lls_text ahead; /* bytes that the client sent before it had the current answer */
  size_t held;           /* bytes counted in server->held: head, body and ahead */
  char peer[INET6_ADDRSTRLEN];
  struct lls_tls_stream *tls; /* NULL: the client speaks HTTP as it is */
  bool by_path;               /* the client came through a Unix socket */
  bool admin;         /* the client came through the administrator's Unix socket */
  bool local;         /* the peer is on this machine */
  uint64_t since_ms;  /* when the phase or the request began */
  uint64_t linger_ms; /* when LINGERING began */
  uint64_t taken_ms;  /* when the client last took a byte, or no output was waiting */
  uint64_t taken;     /* bytes that the client had taken then */
};

/* A socket that clients connect to. */
struct lls_http_listener {
  union {
    uv_tcp_t tcp;
    uv_pipe_t pipe;
  };
  struct lls_http_server *server;
  bool by_path;           /* a Unix socket */
  bool tls;               /* clients speak TLS */
  bool admin;             /* the administrator's */
  bool inherited;         /* from the service manager, where it outlives this process */
  bool open;              /* the handle is to be closed */
  char url[LLS_HOST_MAX]; /* "http://host:port", "unix:/path" */
  /* The file of a Unix socket, removed at the end if it is still this one; "": none. */
  char path[LLS_SOCKET_PATH_MAX];
  dev_t device;
  ino_t inode;
};

struct lls_http_server {
  uv_loop_t *uv;
  const void *thread; /* the thread that runs the loop: [main] */
  struct lls_http_config config;
  struct lls_http_counters counters;
  size_t held;   /* bytes of requests: in connections, and in bodies taken by handlers */
  size_t unread; /* bytes of answers that clients have not taken */
  struct lls_http_connection *connections; /* utlist */
  /* connection for a client that comes when memory is short; NULL while in use */
  struct lls_http_connection *spare;
  struct lls_tls *tls; /* for new connections; NULL: there is no TLS */
  struct lls_http_listener listeners[LLS_HTTP_MAX_LISTENERS]; /* (n_listeners) */
  unsigned n_listeners;
  char address[80]; /* HOST:PORT where the first TCP listener listens */
  bool exposed;     /* listens on more than loopback */
  uv_timer_t sweep;
  bool sweeping;
  bool last_call; /* new connections are refused, and each answer ends its connection */
  bool closing;
  unsigned handles; /* listeners, sweep and connections not yet closed */
  void (*closed)(void *context);
  void *closed_context;
  char read_buffer[LLS_HTTP_READ_BYTES]; /* shared: parsed before the next read */
  char opened[LLS_TLS_ROOM(LLS_HTTP_READ_BYTES)]; /* likewise, what TLS opened of it */
};

/* Everything here is [main]. */
#define LLS_HTTP_ON_MAIN(SERVER) LLS_ON((SERVER)->thread)

/* Accepts a new connection of this listener; closes it if there are max_connections
 * already. */
void lls_http_connection_accept(struct lls_http_listener *listener);

/* True for a client that says http:// where its first byte must be of TLS. */
bool lls_http_speaks_http(const struct lls_http_connection *connection, char first);
/* True until the TLS handshake is complete. */
bool lls_http_connection_begins(const struct lls_http_connection *connection);
/* Opens the TLS records of a read. Returns the number of bytes in server->opened;
 * negative if the records that answer them can't be sent. */
ssize_t lls_http_open_records(struct lls_http_connection *connection, const char *data,
                              size_t length);

/* Sets the options of the socket. */
void lls_http_connection_set_options(struct lls_http_connection *connection);
/* Stores the address of the client. */
void lls_http_connection_note_peer(struct lls_http_connection *connection);

/* Closes the connection if one of its timeouts has passed. */
void lls_http_connection_check(struct lls_http_connection *connection, uint64_t now_ms);

/* True if it has taken longer than one of the timeouts allows: to send a request, to take
 * an answer, or between two requests. */
bool lls_http_connection_overdue(struct lls_http_connection *connection, uint64_t now_ms);

/* Closes the connection now. on_gone is called later if an answer was due. */
void lls_http_connection_close(struct lls_http_connection *connection);

/* Closes the connection after the client has read the answers sent so far. */
void lls_http_connection_linger(struct lls_http_connection *connection);

/* Called when the answer is complete: begins the next request, or ends the connection. */
void lls_http_connection_answered(struct lls_http_connection *connection);

/* Starts the sweep if it does not run yet. Returns 0 or libuv's error. */
int lls_http_server_start_sweep(struct lls_http_server *server);
/* Stops accepting, and removes the file of a Unix socket. `closed` is
 * lls_http_listener_closed. */
void lls_http_listener_close(struct lls_http_listener *listener, uv_close_cb closed);
void lls_http_listener_closed(uv_handle_t *handle);
/* Binds a Unix socket to the path, in place of an ended server's, and notes its file in
 * the listener. Returns the socket, or a negative errno. */
int lls_http_socket_make(struct lls_http_listener *listener, const char *path,
                         unsigned mode, struct lls_error *err);
/* Removes the listener's file, unless another server has put its own there. */
void lls_http_socket_remove(struct lls_http_listener *listener);
/* Runs the next sweep after the shortest allowed interval. */
void lls_http_server_sweep_soon(struct lls_http_server *server);
/* Called when one of the server's handles has been closed. */
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
