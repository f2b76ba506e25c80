/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops accepting new connections without losing requests. Connections that the kernel
 * has accepted, and requests already under way, are answered; later connections are
 * refused. Closing a listener at once would instead reset the connections in its queue:
 * their clients have sent a request and get no answer. A proxy may send a refused request
 * to another replica. After a reset it may not, if the request stores something
 * (t/api/stop_connections.t counts the lost requests).
 */
#include <linux/filter.h>
#include <sys/socket.h>
#include <utlist.h>

#include "core/http/connection.h"

/* Milliseconds after accept or an answer during which a client may be about to send a
 * request. */
#define EXPECT_MS 100

#define TCP_FLAGS_AT 13 /* bytes from the header's beginning, RFC 9293 section 3.1 */
#define TCP_SYN      2

/* Makes the kernel drop the first segment (SYN) of each new connection. The client
 * repeats it within a second; the listener is closed then, so that the client is
 * refused. */
static void drop_new_connections(const uv_tcp_t *listener)
{
  struct sock_filter drop_syn[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS_AT),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, TCP_SYN, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
  };
  const struct sock_fprog program = {sizeof drop_syn / sizeof drop_syn[0], drop_syn};
  uv_os_fd_t fd;
  /* without the filter a connection that arrives while the listener closes is reset */
  if (uv_fileno((const uv_handle_t *)listener, &fd) == 0)
    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/* The service manager keeps an inherited socket, with the connections in its queue, for
 * the next process. A Unix socket takes no filter, but new clients find it by its file.
 */
static void end_listener(struct lls_http_listener *listener)
{
  if (listener->inherited)
    lls_http_listener_close(listener, lls_http_listener_closed);
  else if (listener->by_path)
    lls_http_socket_remove(listener);
  else
    drop_new_connections(&listener->tcp);
}

void lls_http_server_last_call(struct lls_http_server *server)
{
  LLS_HTTP_ON_MAIN(server);
  if (server->last_call)
    return;
  server->last_call = true;
  for (unsigned i = 0; i < server->n_listeners; i++)
    end_listener(&server->listeners[i]);
}

static bool expects(const struct lls_http_connection *connection, uint64_t now_ms)
{
  return connection->phase == LLS_HTTP_ANSWERING ||
         (connection->phase == LLS_HTTP_RECEIVING &&
          (connection->parser.started || lls_http_connection_begins(connection) ||
           now_ms - connection->since_ms < EXPECT_MS));
}

bool lls_http_server_expects(const struct lls_http_server *server)
{
  const struct lls_http_connection *connection;
  uint64_t now_ms = uv_now(server->uv);
  LLS_HTTP_ON_MAIN(server);
  DL_FOREACH (server->connections, connection) {
    if (expects(connection, now_ms))
      return true;
  }
  return false;
}
