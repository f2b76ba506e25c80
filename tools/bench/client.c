/* SPDX-License-Identifier: Apache-2.0 */
/* Connections and the pool of idle ones; see client.h. */
#include "tools/bench/client.h"

#include <errno.h>
#include <llhttp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utlist.h>

#define READ_BYTES (64u << 10)
#define BODY_MAX   (1u << 20)

struct lls_connection {
  uv_tcp_t tcp;
  uv_timer_t pause; /* pauses reading for a slow reader */
  uv_connect_t connect;
  uv_write_t write;
  struct lls_client *client;
  struct lls_fetch *fetch; /* NULL: the connection is idle or closing */
  llhttp_t parser;
  struct lls_text line; /* the present line of the event stream */
  bool events;          /* the answer is an event stream */
  bool writing;         /* libuv still reads the fetch's request */
  bool used;            /* an earlier request used this connection */
  bool answered;        /* a byte of the answer has arrived */
  bool complete;        /* the last byte, too */
  bool closing;
  /* Beginnings of the header being read: name and value may arrive in pieces. */
  char header[32], value[32];
  size_t header_length, value_length;
  unsigned handles;                   /* number of handles not yet closed */
  struct lls_connection *prev, *next; /* links of the idle list */
};

struct lls_client {
  uv_loop_t *uv;
  struct sockaddr_storage address;
  llhttp_settings_t settings;
  struct lls_connection *idle;
  uint64_t connections;
  char buffer[READ_BYTES];
};

/* ---- closing ----------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
  struct lls_connection *connection = handle->data;
  if (--connection->handles > 0)
    return;
  lls_text_free(&connection->line);
  free(connection);
}

static void close_connection(struct lls_connection *connection)
{
  if (connection->closing)
    return;
  connection->closing = true;
  connection->fetch = NULL;
  uv_close((uv_handle_t *)&connection->tcp, on_closed);
  uv_close((uv_handle_t *)&connection->pause, on_closed);
}

static void end_fetch(struct lls_fetch *fetch, int status)
{
  fetch->connection = NULL;
  fetch->on_end(fetch, status);
}

static void send_on_fresh(struct lls_client *client, struct lls_fetch *fetch);

/* Ends a broken connection: its fetch fails or is sent again on another connection. */
static void fail(struct lls_connection *connection, int status)
{
  struct lls_fetch *fetch = connection->fetch;
  struct lls_client *client = connection->client;
  bool again = connection->used && !connection->answered;
  if (fetch == NULL && !connection->closing)
    DL_DELETE(client->idle, connection);
  close_connection(connection);
  if (fetch == NULL)
    return;
  if (again)
    send_on_fresh(client, fetch);
  else
    end_fetch(fetch, status);
}

/* ---- the answer -------------------------------------------------------------------- */

/* Appends as much as fits: longer texts are never compared. */
static void take_piece(char *out, size_t size, size_t *used, const char *at,
                       size_t length)
{
  length = length < size - *used ? length : size - *used;
  memcpy(out + *used, at, length);
  *used += length;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t length)
{
  struct lls_connection *c = parser->data;
  take_piece(c->header, sizeof c->header, &c->header_length, at, length);
  return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t length)
{
  struct lls_connection *c = parser->data;
  take_piece(c->value, sizeof c->value, &c->value_length, at, length);
  return 0;
}

static int on_header_value_complete(llhttp_t *parser)
{
  static const char name[] = "content-type", type[] = "text/event-stream";
  struct lls_connection *c = parser->data;
  if (c->header_length == sizeof name - 1 &&
      strncasecmp(c->header, name, sizeof name - 1) == 0 &&
      c->value_length >= sizeof type - 1 &&
      strncasecmp(c->value, type, sizeof type - 1) == 0)
    c->events = true;
  c->header_length = c->value_length = 0;
  return 0;
}

/* Takes complete lines of the stream: a line with data is an event, other lines end
 * one. */
static void take_lines(struct lls_connection *connection)
{
  struct lls_text *line = &connection->line;
  size_t done = 0;
  for (;;) {
    char *begin = line->data + done;
    char *end = memchr(begin, '\n', line->length - done);
    if (end == NULL || connection->fetch == NULL)
      break;
    size_t length = (size_t)(end - begin);
    done += length + 1;
    if (length > 0 && begin[length - 1] == '\r')
      length--;
    if (length < 5 || memcmp(begin, "data:", 5) != 0)
      continue;
    size_t skip = length > 5 && begin[5] == ' ' ? 6 : 5;
    if (connection->fetch->on_event != NULL)
      connection->fetch->on_event(connection->fetch, begin + skip, length - skip);
  }
  lls_text_consume(line, done);
}

static int on_body(llhttp_t *parser, const char *at, size_t length)
{
  struct lls_connection *connection = parser->data;
  struct lls_fetch *fetch = connection->fetch;
  if (fetch == NULL) /* the callback has cancelled the fetch */
    return 0;
  fetch->status = parser->status_code;
  if (connection->events) {
    lls_text_append(&connection->line, at, length);
    take_lines(connection);
  } else if (fetch->body.length + length <= BODY_MAX) {
    lls_text_append(&fetch->body, at, length);
  }
  return 0;
}

static int on_message_complete(llhttp_t *parser)
{
  struct lls_connection *connection = parser->data;
  connection->complete = true;
  if (connection->fetch != NULL)
    connection->fetch->status = parser->status_code;
  return HPE_PAUSED;
}

/* ---- reading ----------------------------------------------------------------------- */

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer);

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
  struct lls_connection *connection = handle->data;
  (void)suggested;
  *buffer = uv_buf_init(connection->client->buffer, READ_BYTES);
  if (connection->fetch != NULL && connection->fetch->bytes_per_second > 0)
    buffer->len = 256;
}

static void resume(uv_timer_t *timer)
{
  struct lls_connection *connection = timer->data;
  uv_read_start((uv_stream_t *)&connection->tcp, give_buffer, on_read);
}

static void slow_down(struct lls_connection *connection, size_t length)
{
  uint64_t rate = connection->fetch != NULL ? connection->fetch->bytes_per_second : 0;
  if (rate == 0 || connection->closing)
    return;
  uv_read_stop((uv_stream_t *)&connection->tcp);
  uv_timer_start(&connection->pause, resume, 1000 * length / rate + 1, 0);
}

/* The answer is complete: keeps the connection for the next fetch if the server does,
 * and if the whole request was sent. */
static void finish(struct lls_connection *connection)
{
  struct lls_fetch *fetch = connection->fetch;
  if (llhttp_should_keep_alive(&connection->parser) && !connection->writing) {
    connection->fetch = NULL;
    connection->used = true;
    DL_APPEND(connection->client->idle, connection);
  } else {
    close_connection(connection);
  }
  end_fetch(fetch, 0);
}

static void feed(struct lls_connection *connection, const char *data, size_t length)
{
  connection->answered = true;
  enum llhttp_errno rc = llhttp_execute(&connection->parser, data, length);
  if (connection->closing)
    return;
  if (connection->complete)
    finish(connection);
  else if (rc != HPE_OK)
    fail(connection, -EPROTO);
  else
    slow_down(connection, length);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
  struct lls_connection *connection = stream->data;
  if (length == 0)
    return;
  if (length > 0 && connection->fetch != NULL) {
    feed(connection, buffer->base, (size_t)length);
    return;
  }
  /* the end of the connection ends an answer without a length */
  if (length == UV_EOF && connection->fetch != NULL && connection->answered &&
      llhttp_finish(&connection->parser) == HPE_OK && connection->complete) {
    struct lls_fetch *fetch = connection->fetch;
    close_connection(connection);
    end_fetch(fetch, 0);
    return;
  }
  fail(connection, length == UV_EOF || length > 0 ? -ECONNRESET : (int)length);
}

/* ---- sending ----------------------------------------------------------------------- */

static void on_written(uv_write_t *write, int status)
{
  struct lls_connection *connection = write->data;
  connection->writing = false;
  if (connection->closing || connection->fetch == NULL)
    return;
  if (status < 0)
    fail(connection, status);
  else if (connection->fetch->on_sent != NULL)
    connection->fetch->on_sent(connection->fetch);
}

static void begin_request(struct lls_connection *connection)
{
  struct lls_text *request = &connection->fetch->request;
  uv_buf_t piece = uv_buf_init(request->data, (unsigned)request->length);
  llhttp_init(&connection->parser, HTTP_RESPONSE, &connection->client->settings);
  connection->parser.data = connection;
  connection->header_length = connection->value_length = 0;
  connection->events = connection->answered = connection->complete = false;
  lls_text_clear(&connection->line);
  int rc = uv_write(&connection->write, (uv_stream_t *)&connection->tcp, &piece, 1,
                    on_written);
  connection->writing = rc == 0;
  if (rc < 0)
    fail(connection, rc);
}

static void on_connected(uv_connect_t *connect, int status)
{
  struct lls_connection *connection = connect->data;
  if (connection->closing)
    return;
  if (status < 0) {
    fail(connection, status);
    return;
  }
  uv_tcp_nodelay(&connection->tcp, 1);
  uv_read_start((uv_stream_t *)&connection->tcp, give_buffer, on_read);
  begin_request(connection);
}

static struct lls_connection *make_connection(struct lls_client *client)
{
  struct lls_connection *connection = calloc(1, sizeof *connection);
  if (connection == NULL)
    return NULL;
  connection->client = client;
  uv_tcp_init(client->uv, &connection->tcp);
  uv_timer_init(client->uv, &connection->pause);
  connection->handles = 2;
  connection->tcp.data = connection->pause.data = connection;
  connection->connect.data = connection->write.data = connection;
  client->connections++;
  return connection;
}

static void send_on_fresh(struct lls_client *client, struct lls_fetch *fetch)
{
  struct lls_connection *connection = make_connection(client);
  if (connection == NULL) {
    end_fetch(fetch, -ENOMEM);
    return;
  }
  connection->fetch = fetch;
  fetch->connection = connection;
  int rc = uv_tcp_connect(&connection->connect, &connection->tcp,
                          (const struct sockaddr *)&client->address, on_connected);
  if (rc < 0)
    fail(connection, rc);
}

void lls_fetch_send(struct lls_client *client, struct lls_fetch *fetch)
{
  struct lls_connection *connection = client->idle;
  fetch->status = 0;
  if (connection == NULL) {
    send_on_fresh(client, fetch);
    return;
  }
  DL_DELETE(client->idle, connection);
  connection->fetch = fetch;
  fetch->connection = connection;
  begin_request(connection);
}

void lls_fetch_cancel(struct lls_fetch *fetch)
{
  if (fetch->connection != NULL)
    close_connection(fetch->connection);
  fetch->connection = NULL;
}

/* ---- the pool ---------------------------------------------------------------------- */

int lls_client_create(uv_loop_t *uv, const char *host, const char *port,
                      struct lls_client **out, struct lls_error *err)
{
  uv_getaddrinfo_t lookup;
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  int rc = uv_getaddrinfo(uv, &lookup, NULL, host, port, &hints);
  if (rc < 0)
    return lls_fail(err, rc, "%s:%s: %s", host, port, uv_strerror(rc));
  struct lls_client *client = calloc(1, sizeof *client);
  if (client == NULL) {
    uv_freeaddrinfo(lookup.addrinfo);
    return lls_fail(err, -ENOMEM, "no memory for a client");
  }
  client->uv = uv;
  const struct addrinfo *found = lookup.addrinfo;
  for (const struct addrinfo *a = found; a != NULL; a = a->ai_next)
    if (a->ai_family == AF_INET && found->ai_family != AF_INET)
      found = a; /* "localhost": servers listen on 127.0.0.1 more often than on ::1 */
  memcpy(&client->address, found->ai_addr, found->ai_addrlen);
  uv_freeaddrinfo(lookup.addrinfo);
  llhttp_settings_init(&client->settings);
  client->settings.on_header_field = on_header_field;
  client->settings.on_header_value = on_header_value;
  client->settings.on_header_value_complete = on_header_value_complete;
  client->settings.on_body = on_body;
  client->settings.on_message_complete = on_message_complete;
  *out = client;
  return 0;
}

void lls_client_close(struct lls_client *client)
{
  struct lls_connection *connection, *next;
  DL_FOREACH_SAFE (client->idle, connection, next) {
    DL_DELETE(client->idle, connection);
    close_connection(connection);
  }
}

void lls_client_free(struct lls_client *client)
{
  free(client);
}

uint64_t lls_client_connections(const struct lls_client *client)
{
  return client->connections;
}
