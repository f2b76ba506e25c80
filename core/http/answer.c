/* SPDX-License-Identifier: Apache-2.0 */
/* Writes answers: the head, a fixed or chunked body, and the end. */
#include "core/http/connection.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *reason_phrase(unsigned status)
{
  switch (status) {
  case 200:
    return "OK";
  case 400:
    return "Bad Request";
  case 401:
    return "Unauthorized";
  case 403:
    return "Forbidden";
  case 404:
    return "Not Found";
  case 409:
    return "Conflict";
  case 405:
    return "Method Not Allowed";
  case 408:
    return "Request Timeout";
  case 413:
    return "Content Too Large";
  case 429:
    return "Too Many Requests";
  case 415:
    return "Unsupported Media Type";
  case 421:
    return "Misdirected Request";
  case 431:
    return "Request Header Fields Too Large";
  case 500:
    return "Internal Server Error";
  case 501:
    return "Not Implemented";
  case 502:
    return "Bad Gateway";
  case 503:
    return "Service Unavailable";
  case 504:
    return "Gateway Timeout";
  case 507:
    return "Insufficient Storage";
  case 529:
    return "Overloaded";
  default:
    return status < 400 ? "OK" : "Error";
  }
}

void lls_http_add_header(struct lls_http_exchange *exchange, const char *name,
                         const char *value)
{
  for (const unsigned char *c = (const unsigned char *)value; *c != '\0'; c++)
    if (*c < 0x20 || *c == 0x7f)
      return;
  lls_text_printf(&exchange->headers, "%s: %s\r\n", name, value);
}

static void append_date(struct lls_text *head)
{
  char date[64];
  struct tm utc;
  time_t now = time(NULL);
  gmtime_r(&now, &utc);
  strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  lls_text_printf(head, "date: %s\r\n", date);
}

static void append_connection(struct lls_text *head,
                              const struct lls_http_connection *connection)
{
  const struct lls_http_request *request = &connection->exchange.request;
  if (!request->keep_alive || lls_http_server_ends(connection->server))
    lls_text_puts(head, "connection: close\r\n");
  else if (request->http10)
    lls_text_puts(head, "connection: keep-alive\r\n");
}

/* Builds the status line and the headers (`framing` is one of them) up to the empty line.
 * Returns false without memory, after closing the connection: a head that lacks a line
 * could be misread. */
static bool make_head(struct lls_http_connection *connection, unsigned status,
                      const char *type, const char *framing, struct lls_text *head)
{
  const struct lls_text *added = &connection->exchange.headers;
  LLS_CHECK(connection->exchange.status == 0); /* one answer to a request */
  connection->exchange.status = status;
  lls_text_printf(head, "HTTP/1.1 %u %s\r\n", status, reason_phrase(status));
  if (type != NULL)
    lls_text_printf(head, "content-type: %s\r\n", type);
  lls_text_puts(head, framing);
  append_date(head);
  append_connection(head, connection);
  lls_text_append(head, added->data, added->length);
  lls_text_puts(head, "\r\n");
  if (!head->failed && !added->failed)
    return true;
  lls_text_free(head);
  lls_http_connection_close(connection);
  return false;
}

bool lls_http_is_head(const struct lls_http_exchange *exchange)
{
  const char *method = exchange->request.method;
  return method != NULL && strcmp(method, "HEAD") == 0;
}

/* Sends the pieces. Returns false if sending failed; the connection is closed then. */
static bool send_pieces(struct lls_http_connection *connection, const uv_buf_t *pieces,
                        unsigned count, size_t limit)
{
  const struct lls_http_room room = {
      .own = limit, .all = (size_t)connection->server->config.limits.max_bodies};
  int error = lls_http_output_send(&connection->output, pieces, count, room);
  if (error == 0)
    return true;
  connection->server->counters.slow_readers += error == UV_ENOBUFS;
  lls_http_connection_close(connection);
  return false;
}

void lls_http_reply(struct lls_http_exchange *exchange, unsigned status, const char *type,
                    const void *body, size_t length)
{
  struct lls_http_connection *connection = lls_http_connection_of(exchange);
  struct lls_text head = {0};
  char framing[64];
  LLS_HTTP_ON_MAIN(connection->server);
  exchange->on_gone = NULL;
  exchange->on_ended = NULL;
  if (connection->phase != LLS_HTTP_ANSWERING)
    return;
  snprintf(framing, sizeof framing, "content-length: %zu\r\n", length);
  if (!make_head(connection, status, type, framing, &head))
    return;
  uv_buf_t pieces[] = {
      uv_buf_init(head.data, (unsigned)head.length),
      uv_buf_init((char *)body, (unsigned)length),
  };
  unsigned count = lls_http_is_head(&connection->exchange) || length == 0 ? 1 : 2;
  exchange->answer_bytes = count > 1 ? length : 0;
  bool sent = send_pieces(connection, pieces, count, SIZE_MAX);
  lls_text_free(&head);
  if (sent)
    lls_http_connection_answered(connection);
}

void lls_http_stream_begin(struct lls_http_exchange *exchange, unsigned status,
                           const char *type)
{
  struct lls_http_connection *connection = lls_http_connection_of(exchange);
  struct lls_text head = {0};
  LLS_HTTP_ON_MAIN(connection->server);
  LLS_CHECK(!lls_http_is_head(&connection->exchange));
  if (connection->phase != LLS_HTTP_ANSWERING)
    return;
  if (exchange->request.http10)
    exchange->request.keep_alive = false; /* the body ends when the connection closes */
  if (!make_head(connection, status, type,
                 exchange->request.http10 ? "" : "transfer-encoding: chunked\r\n", &head))
    return;
  uv_buf_t piece = uv_buf_init(head.data, (unsigned)head.length);
  send_pieces(connection, &piece, 1, SIZE_MAX);
  lls_text_free(&head);
}

void lls_http_stream_write(struct lls_http_exchange *exchange, const uv_buf_t *pieces,
                           unsigned count)
{
  struct lls_http_connection *connection = lls_http_connection_of(exchange);
  size_t limit = (size_t)connection->server->config.limits.max_unsent;
  uv_buf_t framed[LLS_HTTP_MAX_PIECES + 2];
  char size[24], end[] = "\r\n";
  size_t length = 0;
  LLS_HTTP_ON_MAIN(connection->server);
  for (unsigned i = 0; i < count; i++)
    length += pieces[i].len;
  if (connection->phase != LLS_HTTP_ANSWERING || length == 0)
    return;
  exchange->answer_bytes += length;
  if (exchange->request.http10) {
    send_pieces(connection, pieces, count, limit);
    return;
  }
  int digits = snprintf(size, sizeof size, "%zx\r\n", length);
  framed[0] = uv_buf_init(size, (unsigned)digits);
  memcpy(framed + 1, pieces, count * sizeof *pieces);
  framed[count + 1] = uv_buf_init(end, 2);
  send_pieces(connection, framed, count + 2, limit);
}

size_t lls_http_stream_unsent(struct lls_http_exchange *exchange)
{
  return lls_http_output_unsent(&lls_http_connection_of(exchange)->output);
}

void lls_http_stream_abort(struct lls_http_exchange *exchange)
{
  struct lls_http_connection *connection = lls_http_connection_of(exchange);
  LLS_HTTP_ON_MAIN(connection->server);
  exchange->on_gone = NULL;
  exchange->on_ended = NULL;
  lls_http_connection_close(connection);
}

void lls_http_stream_end(struct lls_http_exchange *exchange)
{
  struct lls_http_connection *connection = lls_http_connection_of(exchange);
  char last[] = "0\r\n\r\n";
  uv_buf_t piece = uv_buf_init(last, sizeof last - 1);
  LLS_HTTP_ON_MAIN(connection->server);
  exchange->on_gone = NULL;
  exchange->on_ended = NULL;
  if (connection->phase != LLS_HTTP_ANSWERING)
    return;
  if (exchange->request.http10 || send_pieces(connection, &piece, 1, SIZE_MAX))
    lls_http_connection_answered(connection);
}
