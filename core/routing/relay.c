/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request on its way: it waits for its model, is sent to the model's process, and its
 * answer comes back as it arrives. A short answer is passed on whole, with its length.
 * The process is read at the pace of the client: while the client has not taken what was
 * passed on, nothing more is read.
 *
 * While a stream waits it is kept alive like any stream, which begins it: an error is an
 * event then. An answer that is not a stream has to begin with its status, so nothing is
 * sent before it is known.
 */
#include "core/routing/routing_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/base/json_memory.h"
#include "core/base/json_parse.h"

#define MOST_WHOLE (1 << 20) /* bytes of an answer that is passed on whole */
#define MOST_TRIES 100       /* to connect, a tick apart */

/* ---- its end ----------------------------------------------------------------------- */

static void free_body(struct lls_relay *r)
{
  size_t held = r->body.length;
  lls_text_free(&r->body);
  if (held > 0 && r->taken == NULL)
    lls_http_release(r->routing->api->http, held);
}

/* Takes the relay off its model. */
static void leave_model(struct lls_relay *r)
{
  struct lls_hosted *m = r->model;
  if (m == NULL)
    return;
  if (r->upstream != NULL)
    lls_upstream_close(r->upstream);
  r->upstream = NULL;
  if (r->sent)
    DL_DELETE(m->active, r);
  else
    DL_DELETE(m->waiting, r);
  if (r->sent && !r->for_admin) {
    m->n_active--;
    m->used_ms = uv_now(r->routing->options.uv);
  }
  free_body(r);
  r->model = NULL;
}

/* Frees the relay; its exchange is over, or the client has left. */
static void destroy(struct lls_relay *r)
{
  struct lls_routing *routing = r->routing;
  leave_model(r);
  lls_text_free(&r->whole);
  free(r->type);
  free(r);
  routing->n_relays--;
  lls_routing_check(routing);
}

void lls_relay_gone(void *owner)
{
  struct lls_relay *r = owner;
  LLS_ROUTING_ON_MAIN(r->routing);
  r->exchange = NULL;
  destroy(r);
}

/* Writes an error as an event. The events of some dialects have a type, which names
 * them. */
static void send_error_event(struct lls_relay *r, const struct lls_api_error *error)
{
  const struct lls_dialect *dialect = lls_dialect_of(r->exchange);
  json_t *json = dialect->error(error);
  if (json != NULL && json_object_get(json, "type") == NULL &&
      r->framing == &lls_framing_named) {
    json_object_update_missing(json, json_object_get(json, "error"));
    json_object_set_new(json, "type", json_string("error"));
  }
  char *text = lls_json_text(json, JSON_COMPACT);
  if (text != NULL)
    r->framing->send(r->exchange, json, text, strlen(text));
  free(text);
  json_decref(json);
}

/* True if the client takes an event next: the answer is a stream of events, the last of
 * which has come whole. */
static bool takes_event(const struct lls_relay *r)
{
  bool lines = r->type != NULL && strstr(r->type, "ndjson") != NULL;
  bool events = r->type != NULL && strstr(r->type, "event-stream") != NULL;
  if (r->framing == NULL || !(r->begun || lines || events))
    return false;
  return r->last[1] == '\0' || (r->last[1] == '\n' && (lines || r->last[0] == '\n'));
}

/* The client is answered when the body has ended, and reads no answer before. */
static void fail_at_end(struct lls_relay *r, const struct lls_api_error *error)
{
  r->failure = *error;
  leave_model(r);
  lls_http_go_on(r->exchange);
}

void lls_relay_fail(struct lls_relay *r, const struct lls_api_error *error)
{
  struct lls_http_exchange *exchange = r->exchange;
  LLS_ROUTING_ON_MAIN(r->routing);
  if (r->receiving) {
    fail_at_end(r, error);
    return;
  }
  if (exchange->status == 0) {
    lls_api_error_reply(exchange, error);
  } else if (takes_event(r)) {
    send_error_event(r, error);
    r->framing->end(exchange);
  } else {
    lls_http_stream_abort(exchange);
  }
  r->exchange = NULL;
  destroy(r);
}

/* ---- the answer -------------------------------------------------------------------- */

static void on_drained(void *owner)
{
  struct lls_relay *r = owner;
  if (r->upstream != NULL)
    lls_upstream_resume(r->upstream);
}

static void begin_stream(struct lls_relay *r)
{
  r->streaming = true;
  r->exchange->on_drained = on_drained;
  lls_http_stream_begin(r->exchange, r->status, r->type);
}

/* True if the rest of a stream that the router has begun can follow. */
static bool continues(const struct lls_relay *r)
{
  return r->status == 200 && r->type != NULL && r->length < 0;
}

static void on_head(void *context, const struct lls_upstream_head *head)
{
  struct lls_relay *r = context;
  r->status = head->status;
  r->length = head->length;
  if (r->begun) { /* its head has been sent */
    struct lls_http_exchange none = {0};
    lls_relay_take_headers(&none, head->lines, &r->type);
    lls_text_free(&none.headers);
    r->merges = r->streaming = continues(r);
    r->exchange->on_drained = on_drained;
    return;
  }
  if (!lls_relay_take_headers(r->exchange, head->lines, &r->type)) {
    struct lls_api_error error;
    lls_api_fail(&error, 503, "out_of_memory", NULL, "out of memory");
    lls_relay_fail(r, &error);
    return;
  }
  bool whole =
      lls_http_is_head(r->exchange) || (r->length >= 0 && r->length <= MOST_WHOLE);
  if (!whole)
    begin_stream(r);
}

static void note_last(struct lls_relay *r, const char *data, size_t length)
{
  if (length > 1)
    r->last[0] = data[length - 2];
  else
    r->last[0] = r->last[1];
  r->last[1] = data[length - 1];
}

static void on_body(void *context, const char *data, size_t length)
{
  struct lls_relay *r = context;
  if (!r->streaming) {
    if (r->whole.length + length <= MOST_WHOLE)
      lls_text_append(&r->whole, data, length);
    return;
  }
  uv_buf_t piece = uv_buf_init((char *)data, (unsigned)length);
  note_last(r, data, length);
  r->quiet_ns = (int64_t)uv_hrtime();
  lls_http_stream_write(r->exchange, &piece, 1);
  if (lls_http_stream_unsent(r->exchange) > 0)
    lls_upstream_pause(r->upstream);
}

/* Passes on a whole answer. */
static void reply(struct lls_relay *r)
{
  struct lls_http_exchange *exchange = r->exchange;
  bool is_head = lls_http_is_head(exchange);
  size_t length = is_head && r->length > 0 ? (size_t)r->length : r->whole.length;
  lls_http_reply(exchange, r->status, r->type, is_head ? NULL : r->whole.data, length);
}

/* An error came after the router had begun the stream: it becomes an event. */
static void fail_with_answer(struct lls_relay *r)
{
  struct lls_api_error error;
  json_t *body =
      lls_json_parse(r->whole.length > 0 ? r->whole.data : "", r->whole.length, 0, NULL);
  const json_t *inner = json_object_get(body, "error");
  const char *message = json_string_value(
      json_is_object(inner) ? json_object_get(inner, "message") : inner);
  lls_api_fail(&error, r->status, NULL, NULL, "%.400s",
               message != NULL ? message : "the model refuses the request");
  json_decref(body);
  lls_relay_fail(r, &error);
}

/* The process did not take the connection: its queue is full, or it has just ended, which
 * is known in a moment. The request waits again. */
static bool waits_again(struct lls_relay *r, struct lls_upstream *upstream)
{
  struct lls_hosted *m = r->model;
  if (r->routing->draining || r->tries++ >= MOST_TRIES ||
      !lls_upstream_take_back(upstream, &r->body))
    return false;
  r->sent = false;
  DL_DELETE(m->active, r);
  DL_APPEND(m->waiting, r);
  m->n_active -= !r->for_admin;
  if (r->receiving)
    lls_http_hold(r->exchange);
  lls_routing_tick_soon(r->routing);
  return true;
}

static void on_end(void *context, int rc)
{
  struct lls_relay *r = context;
  struct lls_upstream *upstream = r->upstream;
  r->upstream = NULL;
  if (rc < 0) {
    struct lls_api_error error;
    if (waits_again(r, upstream))
      return;
    lls_api_fail(&error, 502, "model_failed", "model",
                 "the process of the model \"%.100s\" ended before its answer was "
                 "complete",
                 r->model->name);
    lls_relay_fail(r, &error);
    return;
  }
  if (r->begun && !r->merges) {
    fail_with_answer(r);
    return;
  }
  if (r->streaming)
    lls_http_stream_end(r->exchange);
  else
    reply(r);
  r->exchange = NULL;
  destroy(r);
}

/* ---- the request ------------------------------------------------------------------- */

static void cannot_send(struct lls_relay *r, int rc)
{
  struct lls_api_error error;
  lls_api_fail(&error, 503, "model_unreachable", "model",
               "the model \"%.100s\" cannot be asked: %s", r->model->name,
               uv_strerror(rc));
  lls_relay_fail(r, &error);
}

/* Begins a request whose body comes in pieces. */
static int send_pieces(struct lls_relay *r)
{
  struct lls_text begun = r->body;
  r->body = (struct lls_text){0};
  lls_upstream_stream(r->upstream, r->taken);
  int rc = lls_upstream_send(r->upstream, &begun);
  if (r->receiving)
    lls_http_go_on(r->exchange);
  else
    lls_upstream_resume(r->upstream);
  return rc;
}

/* Sends the request to the process of its model. */
static void send_request(struct lls_relay *r)
{
  struct lls_hosted *m = r->model;
  bool whole = r->taken == NULL;
  struct lls_text head = {0}, body = whole ? r->body : (struct lls_text){0};
  const struct lls_upstream_reader reader = {
      .context = r, .head = on_head, .body = on_body, .end = on_end};
  r->sent = true;
  DL_DELETE(m->waiting, r);
  DL_APPEND(m->active, r);
  m->n_active += !r->for_admin;
  m->used_ms = uv_now(r->routing->options.uv);
  lls_relay_write_head(r->exchange, whole ? body.length : LLS_RELAY_CHUNKED, &head);
  if (whole)
    r->body = (struct lls_text){0};
  int rc = lls_upstream_open(&r->routing->upstreams,
                             r->for_admin ? m->process->admin : m->process->socket, &head,
                             &body, lls_http_is_head(r->exchange), &reader, &r->upstream);
  if (rc == 0 && !whole)
    rc = send_pieces(r);
  if (rc < 0)
    cannot_send(r, rc);
}

struct lls_relay *lls_relay_new(struct lls_routing *routing, struct lls_hosted *m,
                                struct lls_http_exchange *exchange)
{
  struct lls_relay *r = calloc(1, sizeof *r);
  LLS_ROUTING_ON_MAIN(routing);
  if (r == NULL)
    return NULL;
  *r = (struct lls_relay){.routing = routing,
                          .model = m,
                          .exchange = exchange,
                          .arrival_ns = exchange->arrival_ns,
                          .quiet_ns = exchange->arrival_ns,
                          .length = -1};
  routing->n_relays++;
  DL_APPEND(m->waiting, r);
  return r;
}

bool lls_relay_send(struct lls_relay *r)
{
  LLS_ROUTING_ON_MAIN(r->routing);
  bool may = r->model->state == LLS_HOSTED_LOADED && !r->model->yields;
  if (may)
    send_request(r);
  else
    lls_routing_tick_soon(r->routing);
  return may;
}

void lls_relay_begin(struct lls_routing *routing, struct lls_hosted *m,
                     struct lls_http_exchange *exchange, bool wants_stream,
                     bool for_admin)
{
  LLS_ROUTING_ON_MAIN(routing);
  struct lls_relay *r = lls_relay_new(routing, m, exchange);
  struct lls_api_error error;
  if (r == NULL) {
    lls_api_fail(&error, 503, "out_of_memory", NULL, "out of memory");
    lls_api_error_reply(exchange, &error);
    return;
  }
  r->for_admin = for_admin;
  if (wants_stream)
    r->framing = lls_dialect_of(exchange)->framing;
  if (exchange->request.body.length > 0)
    lls_http_take_body(exchange, &r->body);
  exchange->owner = r;
  exchange->on_gone = lls_relay_gone;
  lls_relay_send(r);
}

void lls_relay_send_waiting(struct lls_hosted *m)
{
  LLS_ROUTING_ON_MAIN(m->routing);
  while (m->waiting != NULL && m->state == LLS_HOSTED_LOADED && !m->yields)
    send_request(m->waiting);
}

void lls_relay_fail_waiting(struct lls_hosted *m, const struct lls_api_error *error)
{
  LLS_ROUTING_ON_MAIN(m->routing);
  while (m->waiting != NULL)
    lls_relay_fail(m->waiting, error);
}

/* ---- waiting ----------------------------------------------------------------------- */

static void keep_alive(struct lls_relay *r, int64_t now_ns)
{
  int64_t most_ns = r->routing->config->server.api.keep_alive;
  if (r->framing == NULL || most_ns == 0 || now_ns - r->quiet_ns < most_ns)
    return;
  if (!r->begun)
    r->framing->begin(r->exchange);
  r->begun = true;
  r->quiet_ns = now_ns;
  r->framing->keep_alive(r->exchange);
}

static void fail_late(struct lls_relay *r, int64_t most_ns)
{
  struct lls_api_error error;
  lls_api_fail(&error, 504, "timeout", NULL,
               "the model \"%.100s\" was not loaded within the %lld ms that this server "
               "allows for a request",
               r->model->name, (long long)(most_ns / LLS_NS_PER_MS));
  lls_relay_fail(r, &error);
}

/* An upload that waits is not read, so the server does not see its client leave: it waits
 * no longer than a load may take. */
void lls_relay_tick(struct lls_hosted *m, int64_t now_ns)
{
  const struct lls_config *config = m->routing->config;
  struct lls_relay *r, *next;
  LLS_ROUTING_ON_MAIN(m->routing);
  DL_FOREACH_SAFE (m->waiting, r, next) {
    int64_t most_ns = config->server.api.request_timeout;
    if (most_ns == 0 && r->receiving)
      most_ns = config->models.load_timeout;
    if (most_ns > 0 && now_ns - r->arrival_ns >= most_ns)
      fail_late(r, most_ns);
    else
      keep_alive(r, now_ns);
  }
  lls_relay_send_waiting(m); /* those that wait again */
}
