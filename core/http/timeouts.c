/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a connection has taken too long: to send a request or a TLS handshake
 * (read_timeout), to take an answer (write_timeout), or between two requests
 * (idle_timeout). The sweep of server.c has each connection checked, a quarter of the
 * shortest timeout apart.
 */
#include "core/http/connection.h"

static bool is_over(uint64_t age_ms, int64_t timeout_ns)
{
  return age_ms >= (uint64_t)(timeout_ns / LLS_NS_PER_MS);
}

/* True if output is waiting and the client has taken no byte of it for write_timeout. */
static bool write_stalled(struct lls_http_connection *connection, uint64_t now_ms)
{
  size_t unsent = lls_http_output_unsent(&connection->output);
  uint64_t taken = connection->output.total - unsent;
  if (unsent == 0 || taken != connection->taken) {
    connection->taken = taken;
    connection->taken_ms = now_ms;
  }
  int64_t limit = connection->server->config.limits.write_timeout;
  return is_over(now_ms - connection->taken_ms, limit);
}

bool lls_http_connection_overdue(struct lls_http_connection *connection, uint64_t now_ms)
{
  LLS_HTTP_ON_MAIN(connection->server);
  const struct lls_http_limits *limits = &connection->server->config.limits;
  bool unsent = lls_http_output_unsent(&connection->output) > 0;
  uint64_t age = now_ms - connection->since_ms;
  if (write_stalled(connection, now_ms))
    return true;
  if (connection->phase == LLS_HTTP_LINGERING)
    return !unsent && age >= LLS_HTTP_LINGER_MS;
  if (connection->phase != LLS_HTTP_RECEIVING || unsent || connection->on_hold)
    return false;
  bool under_way = connection->parser.started || lls_http_connection_begins(connection);
  return is_over(age, under_way ? limits->read_timeout : limits->idle_timeout);
}
