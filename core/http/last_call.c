/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of listening. A connection that the kernel has taken, and a request that is on
 * its way, are answered; all later ones are refused. Closing a listener at once resets
 * the connections in its queue instead: their clients have sent a request and hear
 * nothing of it. A proxy may ask another replica after a refusal; after a reset it may
 * not, where the request stores something (t/api/stop_connections.t counts the requests
 * that are lost).
 */
#include <linux/filter.h>
#include <sys/socket.h>
#include <utlist.h>

#include "core/http/connection.h"

/* Since when a connection has nothing in hand and may still be about to send a request.
 */
#define EXPECT_MS 100

#define TCP_FLAGS_AT 13 /* bytes from the header's beginning, RFC 9293 section 3.1 */
#define TCP_SYN      2

/* The kernel drops the first segment of a connection and takes all others. The client
 * sends it again after a second at most, and is refused, for the listener is closed by
 * then. */
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
  /* without it a connection may come in the moment of closing, as in any other server */
  if (uv_fileno((const uv_handle_t *)listener, &fd) == 0)
    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

void lls_http_server_last_call(struct lls_http_server *server)
{
  LLS_HTTP_ON_MAIN(server);
  if (server->last_call)
    return;
  server->last_call = true;
  for (unsigned i = 0; i < server->n_listeners; i++)
    drop_new_connections(&server->listeners[i]);
}

static bool expects(const struct lls_http_connection *connection, uint64_t now_ms)
{
  return connection->phase == LLS_HTTP_ANSWERING ||
         (connection->phase == LLS_HTTP_RECEIVING &&
          (connection->parser.started || now_ms - connection->since_ms < EXPECT_MS));
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
