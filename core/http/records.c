/* SPDX-License-Identifier: Apache-2.0 */
/* Input of connections with TLS: opens its records, sends the answers that TLS gives by
 * itself, and reports what TLS refuses. */
#include "core/http/connection.h"

bool lls_http_speaks_http(const struct lls_http_connection *connection, char first)
{
  LLS_HTTP_ON_MAIN(connection->server);
  return !connection->greeted && first >= 'A' && first <= 'Z'; /* TLS begins with 0x16 */
}

bool lls_http_connection_begins(const struct lls_http_connection *connection)
{
  LLS_HTTP_ON_MAIN(connection->server);
  return connection->tls != NULL && lls_tls_state(connection->tls) == LLS_TLS_HANDSHAKE;
}

static void report(struct lls_http_connection *connection)
{
  struct lls_http_server *server = connection->server;
  server->counters.tls_failed++;
  if (server->config.on_tls_failed != NULL)
    server->config.on_tls_failed(server->config.context, connection->peer,
                                 lls_tls_why(connection->tls));
}

ssize_t lls_http_open_records(struct lls_http_connection *connection, const char *data,
                              size_t length)
{
  struct lls_http_server *server = connection->server;
  const struct lls_http_limits *limits = &server->config.limits;
  const struct lls_http_room room = {.own = (size_t)limits->max_unsent,
                                     .all = (size_t)limits->max_bodies};
  LLS_HTTP_ON_MAIN(server);
  connection->greeted = true;
  size_t opened =
      lls_tls_take(connection->tls, data, length, server->opened, sizeof server->opened);
  if (lls_tls_state(connection->tls) == LLS_TLS_FAILED)
    report(connection);
  int error = lls_http_output_flush(&connection->output, room);
  return error < 0 ? error : (ssize_t)opened;
}
