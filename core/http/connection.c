/* SPDX-License-Identifier: Apache-2.0 */
/* Receives the requests of one connection, and ends it; connection.h draws its phases. */
#include "core/http/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer);

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
  (void)suggested;
  struct lls_http_connection *connection = handle->data;
  struct lls_http_server *server = connection->server;
  *buffer = uv_buf_init(server->read_buffer, sizeof server->read_buffer);
}

static void set_reading(struct lls_http_connection *connection, bool wanted)
{
  if (connection->reading == wanted || connection->phase == LLS_HTTP_CLOSED)
    return;
  connection->reading = wanted;
  if (wanted)
    uv_read_start((uv_stream_t *)&connection->tcp, give_buffer, on_read);
  else
    uv_read_stop((uv_stream_t *)&connection->tcp);
}

/* True for the transitions drawn in connection.h. */
static bool may_enter(enum lls_http_phase from, enum lls_http_phase to)
{
  switch (to) {
  case LLS_HTTP_RECEIVING:
    return from == LLS_HTTP_ANSWERING;
  case LLS_HTTP_ANSWERING:
    return from == LLS_HTTP_RECEIVING;
  case LLS_HTTP_LINGERING:
    return from == LLS_HTTP_RECEIVING || from == LLS_HTTP_ANSWERING;
  default:
    return from != LLS_HTTP_CLOSED;
  }
}

/* An exchange lasts from the end of a request to the end of its answer. */
static bool has_no_exchange(const struct lls_http_connection *connection)
{
  const struct lls_http_exchange *exchange = &connection->exchange;
  return exchange->on_gone == NULL && exchange->status == 0 &&
         exchange->answer_bytes == 0 && exchange->headers.data == NULL;
}

static void enter(struct lls_http_connection *connection, enum lls_http_phase phase)
{
  struct lls_http_counters *counters = &connection->server->counters;
  LLS_HTTP_ON_MAIN(connection->server);
  LLS_CHECK(may_enter(connection->phase, phase));
  LLS_CHECK(connection->phase != LLS_HTTP_ANSWERING || counters->busy > 0);
  LLS_CHECK(phase != LLS_HTTP_ANSWERING || has_no_exchange(connection));
  if (connection->phase == LLS_HTTP_ANSWERING)
    counters->busy--;
  if (phase == LLS_HTTP_ANSWERING)
    counters->busy++;
  connection->phase = phase;
  connection->since_ms = uv_now(connection->server->uv);
}

/* ---- receiving ------------------------------------------------------------------ */

static bool on_head(void *owner)
{
  struct lls_http_connection *connection = owner;
  const struct lls_http_config *config = &connection->server->config;
  return config->on_head == NULL ||
         config->on_head(config->context, &connection->exchange);
}

/* Updates server->held with the bytes that this connection holds. */
static void count_held(struct lls_http_connection *connection)
{
  const struct lls_http_request *request = &connection->exchange.request;
  size_t held = request->head.length + request->body.length + connection->ahead.length +
                (request->decoder != NULL ? LLS_CONTENT_DECODER_BYTES : 0);
  LLS_CHECK(connection->server->held >= connection->held);
  connection->server->held += held - connection->held;
  connection->held = held;
}

/* Small requests may use a fifth more, so that large ones do not keep them out. */
static bool may_hold(void *owner, size_t more, uint64_t body)
{
  struct lls_http_connection *connection = owner;
  struct lls_http_server *server = connection->server;
  const struct lls_http_limits *limits = &server->config.limits;
  uint64_t most = (uint64_t)(limits->max_bodies > limits->max_body ? limits->max_bodies
                                                                   : limits->max_body);
  count_held(connection);
  bool fits =
      server->held + more <= (body <= LLS_HTTP_SMALL_BODY ? most + most / 5 : most);
  server->counters.crowded += !fits;
  return fits;
}

size_t lls_http_take_body(struct lls_http_exchange *exchange, struct lls_text *body)
{
  struct lls_http_connection *connection = lls_http_connection_of(exchange);
  LLS_HTTP_ON_MAIN(connection->server);
  count_held(connection);
  *body = exchange->request.body;
  exchange->request.body = (struct lls_text){0};
  connection->held -= body->length; /* the bytes now count in server->held only */
  return body->length;
}

void lls_http_release(struct lls_http_server *server, size_t held)
{
  LLS_HTTP_ON_MAIN(server);
  LLS_CHECK(server->held >= held);
  server->held -= held;
}

void lls_http_hold(struct lls_http_exchange *exchange)
{
  struct lls_http_connection *connection = lls_http_connection_of(exchange);
  LLS_HTTP_ON_MAIN(connection->server);
  connection->on_hold = true;
  set_reading(connection, false);
}

void lls_http_go_on(struct lls_http_exchange *exchange)
{
  struct lls_http_connection *connection = lls_http_connection_of(exchange);
  LLS_HTTP_ON_MAIN(connection->server);
  if (!connection->on_hold)
    return;
  connection->on_hold = false;
  connection->since_ms = uv_now(connection->server->uv);
  set_reading(connection, !connection->ended);
}

static void begin_exchange(struct lls_http_connection *connection)
{
  struct lls_http_server *server = connection->server;
  server->counters.requests++;
  enter(connection, LLS_HTTP_ANSWERING);
  /* keeps reading, to notice if the client leaves */
  lls_http_go_on(&connection->exchange);
  connection->exchange.arrival_ns = (int64_t)uv_hrtime();
  connection->exchange.body_bytes =
      connection->exchange.request.body.length + connection->exchange.request.sunk_bytes;
  server->config.on_request(server->config.context, &connection->exchange);
}

static int send_continue(struct lls_http_connection *connection)
{
  char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
  uv_buf_t piece = uv_buf_init(line, sizeof line - 1);
  connection->parser.wants_100 = false;
  const struct lls_http_room room = {SIZE_MAX, SIZE_MAX};
  return lls_http_output_send(&connection->output, &piece, 1, room);
}

/* True if the client has sent its last byte and every request from it is answered. */
static bool is_done(const struct lls_http_connection *connection)
{
  return connection->ended && connection->phase == LLS_HTTP_RECEIVING &&
         connection->ahead.length == 0;
}

/* The next request is read only after the client has taken the whole previous answer. */
static bool may_receive(const struct lls_http_connection *connection)
{
  return connection->phase == LLS_HTTP_RECEIVING &&
         lls_http_output_unsent(&connection->output) == 0;
}

/* Answers the input of the client with an error and ends the connection. */
static void refuse(struct lls_http_connection *connection, unsigned status,
                   const char *reason)
{
  struct lls_http_server *server = connection->server;
  struct lls_http_exchange *exchange = &connection->exchange;
  struct lls_text body = {0};
  LLS_HTTP_ON_MAIN(connection->server);
  server->counters.malformed++;
  server->config.error_body(server->config.context, status, reason, &body);
  enter(connection, LLS_HTTP_ANSWERING);
  exchange->arrival_ns = (int64_t)uv_hrtime();
  exchange->request.keep_alive = false;
  snprintf(exchange->why, sizeof exchange->why, "%s", reason);
  if (status == 503)
    lls_http_add_header(exchange, "retry-after", "1");
  lls_http_reply(exchange, status, server->config.error_type, body.data, body.length);
  lls_text_free(&body);
}

/* Parses requests from data until one has to wait. Returns the bytes used. */
static size_t receive(struct lls_http_connection *connection, const char *data,
                      size_t length)
{
  struct lls_http_parser *parser = &connection->parser;
  size_t used = 0;
  LLS_CHECK(!connection->feeding);
  connection->feeding = true;
  while (used < length && may_receive(connection)) {
    size_t taken;
    /* each piece of a body for a sink restarts the timeout: such a body may be large */
    if (!parser->started || connection->exchange.request.sink.write != NULL)
      connection->since_ms = uv_now(connection->server->uv);
    int state = lls_http_parser_feed(parser, data + used, length - used, &taken);
    used += taken;
    LLS_CHECK(used <= length);
    count_held(connection);
    if (state < 0)
      refuse(connection, parser->status, parser->reason);
    else if (state > 0)
      begin_exchange(connection);
    else if (parser->wants_100)
      (void)send_continue(connection); /* a client that left ends the connection */
  }
  connection->feeding = false;
  return used;
}

/* Parses the bytes that the client sent ahead, after the previous answer is complete. */
static void receive_ahead(struct lls_http_connection *connection)
{
  struct lls_text *ahead = &connection->ahead;
  if (connection->feeding || !may_receive(connection))
    return;
  if (ahead->length > 0)
    lls_text_consume(ahead, receive(connection, ahead->data, ahead->length));
  if (ahead->length == 0)
    lls_text_free(ahead);
  count_held(connection);
  if (is_done(connection))
    lls_http_connection_linger(connection);
  else if (ahead->length < LLS_HTTP_MAX_PIPELINED)
    set_reading(connection, !connection->ended && !connection->on_hold);
}

/*
 * Keeps bytes that can't be parsed before the current answer is complete. At
 * LLS_HTTP_MAX_PIPELINED the socket is no longer read: if such a client leaves, the
 * server notices only when it sends the answer.
 */
static void keep_ahead(struct lls_http_connection *connection, const char *data,
                       size_t length)
{
  LLS_CHECK(connection->ahead.length < LLS_HTTP_MAX_PIPELINED);
  bool fits = may_hold(connection, length, 0);
  if (fits)
    lls_text_append(&connection->ahead, data, length);
  count_held(connection);
  if (!fits || connection->ahead.failed)
    lls_http_connection_close(connection);
  else if (connection->ahead.length >= LLS_HTTP_MAX_PIPELINED)
    set_reading(connection, false);
}

/*
 * Returns false if a client that ended its sending side no longer reads. It may have
 * closed its socket, or only called shutdown(2), as nc -N does. Only a byte sent to it
 * can tell: a closed socket refuses it. Before the answer begins an interim response is
 * sent as a probe. HTTP/1.0 has no interim responses, so an HTTP/1.0 client counts as
 * closed. An answer that has begun continues.
 */
static bool may_still_read(struct lls_http_connection *connection)
{
  const struct lls_http_exchange *exchange = &connection->exchange;
  if (connection->phase != LLS_HTTP_ANSWERING)
    return lls_http_output_unsent(&connection->output) > 0;
  if (exchange->request.http10)
    return false;
  return exchange->status != 0 || send_continue(connection) == 0;
}

/* Finds out whether the client still reads. Before the answer the interim response is
 * the probe, and the next sweep sees its result; during an answer the handler may write
 * something (on_ended). */
static void ask_whether_it_reads(struct lls_http_connection *connection)
{
  struct lls_http_exchange *exchange = &connection->exchange;
  if (connection->phase == LLS_HTTP_ANSWERING && exchange->status != 0 &&
      exchange->on_ended != NULL)
    exchange->on_ended(exchange->owner);
  lls_http_server_sweep_soon(connection->server);
}

static void on_end(struct lls_http_connection *connection, ssize_t why)
{
  LLS_CHECK(!connection->ended);
  connection->ended = true;
  set_reading(connection, false);
  if (why != UV_EOF || !may_still_read(connection))
    lls_http_connection_close(connection);
  else if (is_done(connection))
    lls_http_connection_linger(connection);
  else
    ask_whether_it_reads(connection);
}

/* A client that still sends the body of a refused request reads the answer only
 * afterwards, so each piece extends the linger time, up to read_timeout in all. */
static void keep_lingering(struct lls_http_connection *connection)
{
  uint64_t now_ms = uv_now(connection->server->uv);
  int64_t longest = connection->server->config.limits.read_timeout;
  if (now_ms - connection->linger_ms < (uint64_t)(longest / LLS_NS_PER_MS))
    connection->since_ms = now_ms;
}

/* Parses bytes of requests, or keeps them for later. */
static void take(struct lls_http_connection *connection, const char *data, size_t length)
{
  size_t used = 0;
  if (connection->ahead.length == 0)
    used = receive(connection, data, length);
  if (used < length && connection->phase < LLS_HTTP_LINGERING)
    keep_ahead(connection, data + used, length - used);
}

static void refuse_http(struct lls_http_connection *connection)
{
  lls_tls_end(connection->tls);
  connection->tls = connection->output.tls = NULL;
  refuse(connection, 400, "this address speaks TLS: ask for https://");
}

/* Takes the requests out of TLS records, whose bytes then are server->opened. */
static void take_records(struct lls_http_connection *connection, const char *data,
                         size_t length)
{
  if (lls_http_speaks_http(connection, data[0])) {
    refuse_http(connection);
    return;
  }
  ssize_t opened = lls_http_open_records(connection, data, length);
  enum lls_tls_state state = lls_tls_state(connection->tls);
  if (opened > 0)
    take(connection, connection->server->opened, (size_t)opened);
  if (connection->phase >= LLS_HTTP_LINGERING)
    return;
  if (opened < 0 || (state == LLS_TLS_FAILED && connection->phase != LLS_HTTP_RECEIVING))
    lls_http_connection_close(connection);
  else if (state == LLS_TLS_FAILED)
    lls_http_connection_linger(connection); /* so that the client reads the alert */
  else if (state == LLS_TLS_ENDED)
    on_end(connection, UV_EOF);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
  struct lls_http_connection *connection = stream->data;
  if (length < 0) {
    on_end(connection, length);
    return;
  }
  if (connection->phase == LLS_HTTP_LINGERING)
    keep_lingering(connection);
  if (length == 0 || connection->phase >= LLS_HTTP_LINGERING)
    return;
  if (connection->tls != NULL)
    take_records(connection, buffer->base, (size_t)length);
  else
    take(connection, buffer->base, (size_t)length);
}

/* ---- answering ------------------------------------------------------------------ */

/* Calls on_answered (if the answer has begun) and on_over; resets the exchange. */
static void end_exchange(struct lls_http_connection *connection)
{
  const struct lls_http_config *config = &connection->server->config;
  struct lls_http_exchange *exchange = &connection->exchange;
  if (exchange->status != 0 && config->on_answered != NULL)
    config->on_answered(config->context, exchange);
  if (config->on_over != NULL)
    config->on_over(config->context, exchange);
  lls_http_request_clear(&exchange->request);
  lls_text_free(&exchange->headers);
  *exchange = (struct lls_http_exchange){0};
  count_held(connection);
}

void lls_http_connection_answered(struct lls_http_connection *connection)
{
  bool keep_alive = connection->exchange.request.keep_alive;
  LLS_HTTP_ON_MAIN(connection->server);
  LLS_CHECK(connection->phase == LLS_HTTP_ANSWERING);
  LLS_CHECK(connection->exchange.status != 0);
  end_exchange(connection);
  if (!keep_alive || lls_http_server_ends(connection->server)) {
    lls_http_connection_linger(connection);
    return;
  }
  enter(connection, LLS_HTTP_RECEIVING);
  lls_http_parser_next(&connection->parser);
  receive_ahead(connection);
}

/* ---- ending --------------------------------------------------------------------- */

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
  struct lls_http_connection *connection = shutdown->handle->data;
  connection->since_ms = uv_now(connection->server->uv);
  if (status < 0 || connection->ended)
    lls_http_connection_close(connection);
}

/* Ends the sending side. Called when the client has taken the last byte; with TLS once
 * more if it takes the last record later. */
static void shut_down(struct lls_http_connection *connection)
{
  const struct lls_http_room room = {SIZE_MAX, SIZE_MAX};
  if (connection->tls != NULL && lls_tls_finish(connection->tls)) {
    if (lls_http_output_flush(&connection->output, room) < 0)
      lls_http_connection_close(connection);
    if (connection->phase == LLS_HTTP_CLOSED ||
        lls_http_output_unsent(&connection->output) > 0)
      return;
  }
  int error =
      uv_shutdown(&connection->shutdown, (uv_stream_t *)&connection->tcp, on_shutdown);
  if (error != 0)
    lls_http_connection_close(connection);
}

void lls_http_connection_linger(struct lls_http_connection *connection)
{
  LLS_HTTP_ON_MAIN(connection->server);
  if (connection->phase >= LLS_HTTP_LINGERING)
    return;
  set_reading(connection, !connection->ended);
  enter(connection, LLS_HTTP_LINGERING);
  connection->linger_ms = connection->since_ms;
  if (lls_http_output_unsent(&connection->output) == 0)
    shut_down(connection);
}

static void on_drained(struct lls_http_output *output)
{
  struct lls_http_connection *connection = output->stream->data;
  LLS_CHECK(lls_http_output_unsent(output) == 0);
  struct lls_http_exchange *exchange = &connection->exchange;
  if (connection->phase == LLS_HTTP_LINGERING)
    shut_down(connection);
  else if (connection->phase == LLS_HTTP_ANSWERING && exchange->on_drained != NULL)
    exchange->on_drained(exchange->owner);
  else
    receive_ahead(connection);
}

static void on_failed(struct lls_http_output *output)
{
  lls_http_connection_close(output->stream->data);
}

static void on_closed(uv_handle_t *handle)
{
  struct lls_http_connection *connection = handle->data;
  struct lls_http_server *server = connection->server;
  struct lls_http_exchange *exchange = &connection->exchange;
  LLS_CHECK(connection->phase == LLS_HTTP_CLOSED && server->counters.open > 0);
  if (exchange->on_gone != NULL)
    exchange->on_gone(exchange->owner);
  DL_DELETE(server->connections, connection);
  server->counters.open--;
  lls_text_free(&connection->ahead);
  end_exchange(connection);
  lls_http_output_free(&connection->output);
  lls_tls_end(connection->tls);
  if (server->spare == NULL)
    server->spare = connection;
  else
    free(connection);
  lls_http_server_handle_closed(server);
}

void lls_http_connection_close(struct lls_http_connection *connection)
{
  LLS_HTTP_ON_MAIN(connection->server);
  if (connection->phase == LLS_HTTP_CLOSED)
    return;
  if (connection->phase == LLS_HTTP_ANSWERING)
    connection->server->counters.gone++;
  enter(connection, LLS_HTTP_CLOSED);
  uv_close((uv_handle_t *)&connection->tcp, on_closed);
}

void lls_http_connection_check(struct lls_http_connection *connection, uint64_t now_ms)
{
  LLS_HTTP_ON_MAIN(connection->server);
  if (connection->phase == LLS_HTTP_CLOSED ||
      !lls_http_connection_overdue(connection, now_ms))
    return;
  if (connection->phase != LLS_HTTP_LINGERING)
    connection->server->counters.timeouts++;
  if (connection->phase == LLS_HTTP_RECEIVING && connection->parser.started)
    refuse(connection, 408, "the request took too long to arrive");
  else
    lls_http_connection_close(connection);
}

/* ---- beginning ------------------------------------------------------------------ */

static void init_connection(struct lls_http_connection *connection,
                            struct lls_http_server *server)
{
  const struct lls_http_limits *limits = &server->config.limits;
  connection->server = server;
  connection->tcp.data = connection;
  connection->since_ms = connection->taken_ms = uv_now(server->uv);
  connection->output.stream = (uv_stream_t *)&connection->tcp;
  connection->output.on_drained = on_drained;
  connection->output.on_failed = on_failed;
  connection->output.unread = &server->unread;
  lls_http_parser_init(&connection->parser, &connection->exchange.request,
                       (size_t)limits->max_header, (size_t)limits->max_body);
  connection->parser.on_head = on_head;
  connection->parser.may_hold = may_hold;
  connection->parser.owner = connection;
  DL_APPEND(server->connections, connection);
  server->handles++;
  server->counters.open++;
}

/* If libuv can't accept a waiting client, it stops accepting for good. Without memory the
 * spare connection therefore accepts the client, and closes at once. */
static struct lls_http_connection *make_connection(struct lls_http_server *server,
                                                   bool *refused)
{
  struct lls_http_connection *connection = calloc(1, sizeof *connection);
  *refused = connection == NULL;
  if (connection != NULL || server->spare == NULL)
    return connection;
  connection = server->spare;
  server->spare = NULL;
  *connection = (struct lls_http_connection){0};
  return connection;
}

void lls_http_connection_accept(struct lls_http_listener *listener)
{
  struct lls_http_server *server = listener->server;
  LLS_HTTP_ON_MAIN(server);
  bool refused;
  struct lls_http_connection *connection = make_connection(server, &refused);
  if (connection == NULL)
    return;
  connection->by_path = listener->by_path;
  connection->admin = listener->admin;
  int error = connection->by_path ? uv_pipe_init(server->uv, &connection->pipe, 0)
                                  : uv_tcp_init(server->uv, &connection->tcp);
  if (error != 0) {
    free(connection);
    return;
  }
  init_connection(connection, server);
  refused |= server->counters.open > (uint64_t)server->config.limits.max_connections;
  if (uv_accept((uv_stream_t *)&listener->tcp, (uv_stream_t *)&connection->tcp) != 0 ||
      refused) {
    server->counters.refused += refused;
    lls_http_connection_close(connection);
    return;
  }
  server->counters.accepted++;
  if (listener->tls && lls_tls_begin(server->tls, &connection->tls) < 0) {
    lls_http_connection_close(connection);
    return;
  }
  connection->output.tls = connection->tls;
  lls_http_connection_set_options(connection);
  lls_http_connection_note_peer(connection);
  set_reading(connection, true);
}
