/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the options of a new connection's socket, and finds out who the client is: its
 * address, and whether it is on this machine or the administrator. */
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/address.h"
#include "core/http/connection.h"

/* Unsent bytes that the kernel may hold; further bytes stay in the output buffers. */
#define KERNEL_UNSENT_BYTES 131072

/* Sends tokens at once (no Nagle), and limits what waits in the kernel. */
void lls_http_connection_set_options(struct lls_http_connection *connection)
{
  uv_os_fd_t fd;
  LLS_HTTP_ON_MAIN(connection->server);
  if (connection->by_path)
    return;
  uv_tcp_nodelay(&connection->tcp, 1);
#ifdef TCP_NOTSENT_LOWAT
  int unsent = KERNEL_UNSENT_BYTES;
  if (uv_fileno((uv_handle_t *)&connection->tcp, &fd) == 0)
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
#endif
}

/* Stores the peer's address. A sender address of this machine can be trusted: with a
 * forged one the TCP handshake would not complete. */
void lls_http_connection_note_peer(struct lls_http_connection *connection)
{
  struct sockaddr_storage peer = {0}, own = {0};
  struct sockaddr *p = (struct sockaddr *)&peer, *o = (struct sockaddr *)&own;
  int peer_size = sizeof peer, own_size = sizeof own;
  LLS_HTTP_ON_MAIN(connection->server);
  connection->local = connection->admin;
  if (connection->by_path && !connection->admin)
    strcpy(connection->peer, "unix");
  if (connection->by_path || uv_tcp_getpeername(&connection->tcp, p, &peer_size) != 0 ||
      uv_tcp_getsockname(&connection->tcp, o, &own_size) != 0)
    return;
  uv_ip_name(p, connection->peer, sizeof connection->peer);
  connection->local = lls_address_is_loopback(p) || lls_address_same_host(p, o);
}

const char *lls_http_peer(struct lls_http_exchange *exchange)
{
  return lls_http_connection_of(exchange)->peer;
}

bool lls_http_peer_is_admin(const struct lls_http_exchange *exchange)
{
  return lls_http_connection_of((struct lls_http_exchange *)exchange)->admin;
}

bool lls_http_peer_is_local(struct lls_http_exchange *exchange)
{
  return lls_http_connection_of(exchange)->local;
}
