/* SPDX-License-Identifier: Apache-2.0 */
/* Sends a request to the process of a model and parses the answer with llhttp; see
 * upstream.h. */
#include "core/routing/upstream.h"

#include <errno.h>
#include <llhttp.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"

#define MOST_HEADERS (256 << 10) /* bytes */

struct lls_upstream {
  uv_pipe_t pipe;
  uv_connect_t connect;
  uv_write_t write;
  struct lls_upstreams *all;
  struct lls_upstream_reader reader;
  struct lls_text head, body; /* of the request */
  llhttp_t parser;
  llhttp_settings_t settings;
  struct lls_text lines; /* headers of the answer: name, NUL, value, NUL, ... */
  bool no_body;
  bool interim; /* the head is of a 1xx answer, which is skipped */
  bool complete;
  bool connected, paused;
  bool over;                    /* closed: no callback follows */
  void (*taken)(void *context); /* not NULL: the body comes in pieces */
  size_t unsent;                /* bytes of pieces */
  bool broken;                  /* the socket takes no more */
};

static void count_unsent(struct lls_upstream *u, size_t more, size_t less)
{
  LLS_CHECK(u->unsent + more >= less);
  u->unsent += more - less;
  u->all->unsent += more - less;
}

static void free_body(struct lls_upstream *u)
{
  size_t bytes = u->body.length;
  lls_text_free(&u->body);
  if (u->taken != NULL)
    count_unsent(u, 0, bytes);
  else if (bytes > 0 && u->all->freed != NULL)
    u->all->freed(u->all->context, bytes);
}

static void on_closed(uv_handle_t *handle)
{
  struct lls_upstream *u = handle->data;
  u->all->open--;
  free_body(u);
  lls_text_free(&u->head);
  lls_text_free(&u->lines);
  free(u);
}

void lls_upstream_close(struct lls_upstream *u)
{
  LLS_ON(u->all->thread);
  if (u->over)
    return;
  u->over = true;
  uv_close((uv_handle_t *)&u->pipe, on_closed);
}

static void finish(struct lls_upstream *u, int rc)
{
  if (u->over)
    return;
  lls_upstream_close(u);
  u->reader.end(u->reader.context, rc);
}

/* ---- the parser -------------------------------------------------------------------- */

static int on_begin(llhttp_t *parser)
{
  struct lls_upstream *u = parser->data;
  lls_text_clear(&u->lines);
  return 0;
}

/* Adds a piece of a name or value. */
static int on_piece(llhttp_t *parser, const char *at, size_t length)
{
  struct lls_upstream *u = parser->data;
  lls_text_append(&u->lines, at, length);
  return u->lines.failed || u->lines.length > MOST_HEADERS ? HPE_USER : 0;
}

static int on_piece_end(llhttp_t *parser)
{
  struct lls_upstream *u = parser->data;
  lls_text_append(&u->lines, "", 1);
  return u->lines.failed ? HPE_USER : 0;
}

static int on_head(llhttp_t *parser)
{
  struct lls_upstream *u = parser->data;
  unsigned status = (unsigned)llhttp_get_status_code(parser);
  u->interim = status < 200;
  if (u->interim || u->over)
    return 0;
  bool sized = (parser->flags & F_CONTENT_LENGTH) != 0;
  const struct lls_upstream_head head = {.status = status,
                                         .length =
                                             sized ? (int64_t)parser->content_length : -1,
                                         .lines = &u->lines};
  u->reader.head(u->reader.context, &head);
  return u->no_body ? 1 : 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t length)
{
  struct lls_upstream *u = parser->data;
  if (!u->over && length > 0)
    u->reader.body(u->reader.context, at, length);
  return 0;
}

static int on_complete(llhttp_t *parser)
{
  struct lls_upstream *u = parser->data;
  u->complete = !u->interim;
  return u->complete ? HPE_PAUSED : 0;
}

static void begin_parser(struct lls_upstream *u)
{
  llhttp_settings_init(&u->settings);
  u->settings.on_message_begin = on_begin;
  u->settings.on_header_field = u->settings.on_header_value = on_piece;
  u->settings.on_header_field_complete = on_piece_end;
  u->settings.on_header_value_complete = on_piece_end;
  u->settings.on_headers_complete = on_head;
  u->settings.on_body = on_body;
  u->settings.on_message_complete = on_complete;
  llhttp_init(&u->parser, HTTP_RESPONSE, &u->settings);
  u->parser.data = u;
}

/* ---- the socket -------------------------------------------------------------------- */

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
  (void)suggested;
  struct lls_upstream *u = handle->data;
  *buffer = uv_buf_init(u->all->buffer, (unsigned)u->all->most_read);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
  struct lls_upstream *u = stream->data;
  if (length == 0 || u->over)
    return;
  llhttp_errno_t error = length < 0
                             ? llhttp_finish(&u->parser)
                             : llhttp_execute(&u->parser, buffer->base, (size_t)length);
  if (u->complete)
    finish(u, 0);
  else if (length < 0)
    finish(u, -ECONNRESET);
  else if (error != HPE_OK)
    finish(u, -EPROTO);
}

static void set_reading(struct lls_upstream *u)
{
  if (u->over || !u->connected)
    return;
  if (u->paused)
    uv_read_stop((uv_stream_t *)&u->pipe);
  else
    uv_read_start((uv_stream_t *)&u->pipe, give_buffer, on_read);
}

void lls_upstream_pause(struct lls_upstream *u)
{
  LLS_ON(u->all->thread);
  u->paused = true;
  set_reading(u);
}

void lls_upstream_resume(struct lls_upstream *u)
{
  LLS_ON(u->all->thread);
  u->paused = false;
  set_reading(u);
}

/* A failed write is no failure of the request: the process may have refused it before
 * its last byte, and its answer can still be read. */
static void on_written(uv_write_t *write, int status)
{
  struct lls_upstream *u = write->data;
  u->broken = u->broken || status < 0;
  if (u->over)
    return;
  free_body(u);
  if (u->taken != NULL)
    u->taken(u->reader.context);
}

/* ---- a body in pieces -------------------------------------------------------------- */

struct piece {
  uv_write_t write;
  struct lls_upstream *upstream;
  struct lls_text text;
};

/* Returns the memory of a piece: that of many short ones is far more than their bytes. */
static size_t size_of(const struct piece *p)
{
  return sizeof *p + p->text.capacity;
}

static void on_piece_written(uv_write_t *write, int status)
{
  struct piece *piece = (struct piece *)write;
  struct lls_upstream *u = piece->upstream;
  count_unsent(u, 0, size_of(piece));
  lls_text_free(&piece->text);
  free(piece);
  u->broken = u->broken || status < 0;
  if (!u->over)
    u->taken(u->reader.context);
}

static int write_piece(struct lls_upstream *u, struct lls_text *text)
{
  struct piece *piece = malloc(sizeof *piece);
  if (piece == NULL)
    return -ENOMEM;
  piece->upstream = u;
  piece->text = *text;
  uv_buf_t all = uv_buf_init(text->data, (unsigned)text->length);
  int rc = uv_write(&piece->write, (uv_stream_t *)&u->pipe, &all, 1, on_piece_written);
  if (rc < 0) {
    u->broken = true;
    free(piece);
    return 0;
  }
  count_unsent(u, size_of(piece), 0);
  *text = (struct lls_text){0};
  return 0;
}

void lls_upstream_stream(struct lls_upstream *u, void (*taken)(void *context))
{
  LLS_ON(u->all->thread);
  LLS_CHECK(!u->connected && u->body.length == 0);
  u->taken = taken;
  u->paused = true;
}

int lls_upstream_send(struct lls_upstream *u, struct lls_text *piece)
{
  int rc = piece->failed ? -ENOMEM : 0;
  LLS_ON(u->all->thread);
  if (rc == 0 && !u->connected) {
    lls_text_append(&u->body, piece->data, piece->length);
    rc = u->body.failed ? -ENOMEM : 0;
    if (rc == 0)
      count_unsent(u, piece->length, 0);
  } else if (rc == 0 && !u->broken && piece->length > 0)
    rc = write_piece(u, piece);
  lls_text_free(piece);
  return rc;
}

size_t lls_upstream_unsent(const struct lls_upstream *u)
{
  LLS_ON(u->all->thread);
  return u->unsent;
}

/* ---- the connection ---------------------------------------------------------------- */

static void on_connected(uv_connect_t *connect, int status)
{
  struct lls_upstream *u = connect->data;
  if (u->over)
    return;
  if (status < 0) {
    finish(u, status);
    return;
  }
  u->connected = true;
  uv_buf_t pieces[] = {uv_buf_init(u->head.data, (unsigned)u->head.length),
                       uv_buf_init(u->body.data, (unsigned)u->body.length)};
  int rc = uv_write(&u->write, (uv_stream_t *)&u->pipe, pieces,
                    u->body.length > 0 ? 2 : 1, on_written);
  if (rc < 0)
    finish(u, rc);
  else
    set_reading(u);
}

bool lls_upstream_take_back(struct lls_upstream *u, struct lls_text *body)
{
  LLS_ON(u->all->thread);
  if (u->connected)
    return false;
  if (u->taken != NULL)
    count_unsent(u, 0, u->body.length);
  *body = u->body;
  u->body = (struct lls_text){0};
  return true;
}

int lls_upstream_open(struct lls_upstreams *all, const char *path, struct lls_text *head,
                      struct lls_text *body, bool no_body,
                      const struct lls_upstream_reader *reader, struct lls_upstream **out)
{
  LLS_ON(all->thread);
  struct lls_upstream *u = calloc(1, sizeof *u);
  if (u == NULL || head->failed) {
    size_t bytes = body->length;
    free(u);
    lls_text_free(head);
    lls_text_free(body);
    if (bytes > 0 && all->freed != NULL)
      all->freed(all->context, bytes);
    return -ENOMEM;
  }
  u->all = all;
  u->reader = *reader;
  u->no_body = no_body;
  u->head = *head;
  u->body = *body;
  *head = *body = (struct lls_text){0};
  begin_parser(u);
  uv_pipe_init(all->uv, &u->pipe, 0);
  all->open++;
  u->pipe.data = u->connect.data = u->write.data = u;
  uv_pipe_connect(&u->connect, &u->pipe, path, on_connected);
  *out = u;
  return 0;
}
