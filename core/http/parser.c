/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callbacks of llhttp fill a request. They check the limits on its parts as the bytes
 * arrive, so that bytes of a request that will be refused are not stored.
 */
#include "core/http/parser.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Most bytes around a chunk: its size in hex digits, possibly with leading zeros, and two
 * line ends. */
#define CHUNK_FRAME_BYTES 24

static int refuse(struct lls_http_parser *parser, unsigned status, const char *reason)
{
  parser->status = status;
  snprintf(parser->reason, sizeof parser->reason, "%s", reason);
  return -1;
}

static int refuse_size(struct lls_http_parser *parser, unsigned status, const char *what,
                       size_t most)
{
  parser->status = status;
  snprintf(parser->reason, sizeof parser->reason,
           "%s too large: this server takes at most %zu bytes", what, most);
  return -1;
}

static uint64_t most_body(const struct lls_http_parser *parser)
{
  const struct lls_http_sink *sink = &parser->request->sink;
  return sink->write != NULL ? sink->max_bytes : parser->max_body_bytes;
}

static int refuse_body(struct lls_http_parser *parser)
{
  return refuse_size(parser, 413, "request body is", (size_t)most_body(parser));
}

static int refuse_crowded(struct lls_http_parser *parser)
{
  return refuse(parser, 503,
                "the server holds as many bytes of requests as [server] max_bodies "
                "allows: try again");
}

static bool may_hold(const struct lls_http_parser *parser, size_t more, uint64_t body)
{
  return parser->may_hold == NULL || parser->may_hold(parser->owner, more, body);
}

/* Appends to the head, which has a bound. */
static int append_head(struct lls_http_parser *parser, const char *at, size_t length)
{
  struct lls_text *head = &parser->request->head;
  if (head->length + length > parser->max_header_bytes)
    return refuse_size(parser, 431, "request line and headers are",
                       parser->max_header_bytes);
  if (!may_hold(parser, length, 0))
    return refuse_crowded(parser);
  lls_text_append(head, at, length);
  return head->failed ? refuse(parser, 503, "out of memory") : 0;
}

static int end_string(struct lls_http_parser *parser)
{
  return append_head(parser, "", 1);
}

static int on_url(llhttp_t *llhttp, const char *at, size_t length)
{
  return append_head(llhttp->data, at, length);
}

static int on_url_complete(llhttp_t *llhttp)
{
  return end_string(llhttp->data);
}

/* Counts the headers after the body but does not store them: they would move the head, to
 * which the request has pointers. */
static int skip_trailer(struct lls_http_parser *parser, size_t length)
{
  parser->trailer_bytes += length;
  if (parser->trailer_bytes > parser->max_header_bytes)
    return refuse_size(parser, 431, "trailers are", parser->max_header_bytes);
  return 0;
}

static int on_header_field(llhttp_t *llhttp, const char *at, size_t length)
{
  struct lls_http_parser *parser = llhttp->data;
  if (parser->has_head)
    return skip_trailer(parser, length);
  struct lls_http_request *request = parser->request;
  if (request->n_headers == LLS_HTTP_MAX_HEADERS)
    return refuse(parser, 431, "too many headers");
  struct lls_http_header *header = &request->headers[request->n_headers];
  if (header->name == 0)
    header->name = (uint32_t)request->head.length;
  return append_head(parser, at, length);
}

static int on_header_field_complete(llhttp_t *llhttp)
{
  struct lls_http_parser *parser = llhttp->data;
  if (parser->has_head)
    return 0;
  struct lls_http_request *request = parser->request;
  if (end_string(parser) != 0)
    return -1;
  request->headers[request->n_headers].value = (uint32_t)request->head.length;
  return 0;
}

static int on_header_value(llhttp_t *llhttp, const char *at, size_t length)
{
  struct lls_http_parser *parser = llhttp->data;
  return parser->has_head ? skip_trailer(parser, length)
                          : append_head(parser, at, length);
}

static int on_header_value_complete(llhttp_t *llhttp)
{
  struct lls_http_parser *parser = llhttp->data;
  if (parser->has_head)
    return 0;
  struct lls_http_request *request = parser->request;
  if (end_string(parser) != 0)
    return -1;
  request->n_headers++;
  if (request->n_headers < LLS_HTTP_MAX_HEADERS)
    request->headers[request->n_headers].name = 0;
  return 0;
}

/* Refuses a request that a proxy could read differently than this server: it could
 * smuggle another request past the proxy. */
static int check_ambiguous(struct lls_http_parser *parser)
{
  const struct lls_http_request *request = parser->request;
  const char *coding = lls_http_request_header(request, "transfer-encoding");
  unsigned hosts = lls_http_request_count(request, "host");
  if (hosts > 1)
    return refuse(parser, 400, "the request has more than one Host header");
  if (!request->http10 && hosts == 0)
    return refuse(parser, 400, "HTTP/1.1 requests need a Host header");
  if (coding == NULL)
    return 0;
  if (request->http10)
    return refuse(parser, 400, "HTTP/1.0 has no Transfer-Encoding");
  if (strcasecmp(coding, "chunked") != 0 ||
      lls_http_request_count(request, "transfer-encoding") > 1)
    return refuse(parser, 501, "Transfer-Encoding must be 'chunked' and nothing else");
  return 0;
}

/* Returns the body's length from Content-Length; 0 if there is no such header. */
static uint64_t announced(const llhttp_t *llhttp)
{
  return (llhttp->flags & F_CONTENT_LENGTH) != 0 ? llhttp->content_length : 0;
}

/* A body for a sink is passed on as it is, and so is one in a coding that is unknown
 * here: the user of the parser refuses both. */
static int begin_decoding(struct lls_http_parser *parser)
{
  struct lls_http_request *request = parser->request;
  enum lls_content_coding coding = lls_http_request_coding(request);
  bool known = coding == LLS_CODING_GZIP || coding == LLS_CODING_ZSTD;
  if (!known || !request->has_body || request->sink.write != NULL)
    return 0;
  if (!may_hold(parser, LLS_CONTENT_DECODER_BYTES, LLS_CONTENT_DECODER_BYTES))
    return refuse_crowded(parser);
  request->decoder = lls_content_decoder_create(coding);
  return request->decoder != NULL ? 0 : refuse(parser, 503, "out of memory");
}

/* Runs the checks that need only the head, so that no byte of a refused body is kept. */
static int check_head(struct lls_http_parser *parser)
{
  struct lls_http_request *request = parser->request;
  const llhttp_t *llhttp = &parser->llhttp;
  if (llhttp->http_major != 1)
    return refuse(parser, 400, "this server speaks HTTP/1.1");
  request->http10 = llhttp->http_minor == 0;
  if (check_ambiguous(parser) != 0)
    return -1;
  const char *wrong = lls_http_request_set_target(request);
  if (wrong != NULL)
    return refuse(parser, 400, wrong);
  request->has_body = (llhttp->flags & F_CHUNKED) != 0 ||
                      ((llhttp->flags & F_CONTENT_LENGTH) != 0 && announced(llhttp) > 0);
  if (parser->on_head != NULL && !parser->on_head(parser->owner) && request->has_body) {
    parser->unwanted = true;
    return -1;
  }
  if (announced(llhttp) > most_body(parser))
    return refuse_body(parser);
  bool kept = request->sink.write == NULL && announced(llhttp) > 0;
  if (kept && !may_hold(parser, (size_t)announced(llhttp), announced(llhttp)))
    return refuse_crowded(parser);
  return begin_decoding(parser);
}

static int on_headers_complete(llhttp_t *llhttp)
{
  struct lls_http_parser *parser = llhttp->data;
  struct lls_http_request *request = parser->request;
  parser->has_head = true;
  request->method = llhttp_method_name((llhttp_method_t)llhttp->method);
  if (check_head(parser) != 0)
    return -1;
  const char *expect = lls_http_request_header(request, "expect");
  parser->wants_100 = expect != NULL && strcasecmp(expect, "100-continue") == 0;
  request->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
  llhttp->upgrade = 0; /* offers to switch to HTTP/2 or WebSocket are ignored */
  return 0;
}

/* Adds bytes to the body that is kept, within its bounds. */
static int keep_body(void *owner, const char *at, size_t length)
{
  struct lls_http_parser *parser = owner;
  struct lls_text *body = &parser->request->body;
  if (body->length + length > parser->max_body_bytes)
    return refuse_body(parser);
  if (!may_hold(parser, length, body->length + length))
    return refuse_crowded(parser);
  lls_text_append(body, at, length);
  return body->failed ? refuse(parser, 503, "out of memory") : 0;
}

static int decode_body(struct lls_http_parser *parser, const char *at, size_t length)
{
  struct lls_http_request *request = parser->request;
  const char *why = NULL;
  request->coded_bytes += length;
  if (request->coded_bytes > parser->max_body_bytes)
    return refuse_body(parser);
  int rc =
      lls_content_decoder_take(request->decoder, at, length, keep_body, parser, &why);
  if (rc == 0 || parser->status != 0)
    return rc;
  if (rc != -EPROTO)
    return refuse(parser, 503, "out of memory");
  parser->status = 400;
  snprintf(parser->reason, sizeof parser->reason,
           "the body is not what its content-encoding says: %s", why);
  return -1;
}

static int sink_body(struct lls_http_parser *parser, const char *at, size_t length)
{
  struct lls_http_request *request = parser->request;
  if (request->sunk_bytes + length > request->sink.max_bytes)
    return refuse_body(parser);
  request->sunk_bytes += length;
  request->sink.write(request->sink.owner, at, length);
  return 0;
}

static int on_body(llhttp_t *llhttp, const char *at, size_t length)
{
  struct lls_http_parser *parser = llhttp->data;
  struct lls_text *body = &parser->request->body;
  if (parser->request->sink.write != NULL)
    return sink_body(parser, at, length);
  if (parser->request->decoder != NULL)
    return decode_body(parser, at, length);
  if (body->length == 0 && (llhttp->flags & F_CONTENT_LENGTH) != 0)
    lls_text_reserve(body, length + (size_t)llhttp->content_length);
  return keep_body(parser, at, length);
}

static int on_chunk_header(llhttp_t *llhttp)
{
  struct lls_http_parser *parser = llhttp->data;
  parser->n_chunks++;
  return 0;
}

static int on_message_complete(llhttp_t *llhttp)
{
  struct lls_http_parser *parser = llhttp->data;
  const struct lls_content_decoder *decoder = parser->request->decoder;
  if (decoder != NULL && !lls_content_decoder_is_complete(decoder))
    return refuse(parser, 400, "the body ends before its content-encoding does");
  parser->complete = true;
  return HPE_PAUSED;
}

static const llhttp_settings_t callbacks = {
    .on_url = on_url,
    .on_url_complete = on_url_complete,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_chunk_header = on_chunk_header,
    .on_message_complete = on_message_complete,
};

void lls_http_parser_init(struct lls_http_parser *parser,
                          struct lls_http_request *request, size_t max_header_bytes,
                          size_t max_body_bytes)
{
  *parser = (struct lls_http_parser){
      .request = request,
      .max_header_bytes = max_header_bytes,
      .max_body_bytes = max_body_bytes,
  };
  llhttp_init(&parser->llhttp, HTTP_REQUEST, &callbacks);
  parser->llhttp.data = parser;
  request->headers[0].name = 0;
}

/* True if a line of the head begins with a blank. llhttp would append it to the previous
 * header; other servers read it as a header of its own. */
static bool is_folded(struct lls_http_parser *parser, const char *data, size_t length)
{
  for (size_t i = 0; i < length && parser->line != LLS_HTTP_LINE_OVER; i++) {
    bool ends = data[i] == '\r' || data[i] == '\n';
    if (parser->line == LLS_HTTP_LINE_BEGINS) {
      if (data[i] == ' ' || data[i] == '\t')
        return true;
      parser->line = ends ? LLS_HTTP_LINE_OVER : LLS_HTTP_LINE_WITHIN;
    } else if (parser->line == LLS_HTTP_LINE_BEFORE) {
      parser->line = ends ? LLS_HTTP_LINE_BEFORE : LLS_HTTP_LINE_WITHIN;
    } else if (data[i] == '\n') {
      parser->line = LLS_HTTP_LINE_BEGINS;
    }
  }
  return false;
}

/* True if the request has more bytes than its parts can account for. Blanks before values
 * and chunk extensions are not stored, but take time to read. */
static bool is_padded(const struct lls_http_parser *parser)
{
  const struct lls_http_request *request = parser->request;
  size_t body = request->decoder != NULL
                    ? (size_t)request->coded_bytes
                    : request->body.length + (size_t)request->sunk_bytes;
  size_t told = request->head.length + body + parser->trailer_bytes;
  size_t frame = parser->max_header_bytes + (size_t)parser->n_chunks * CHUNK_FRAME_BYTES;
  return parser->wire_bytes > told + frame;
}

/* Returns a sentence about input that is not a request. */
static const char *explain(const struct lls_http_parser *parser, llhttp_errno_t error,
                           char first)
{
  static const char tls_handshake = 0x16;
  if (error == HPE_PAUSED_H2_UPGRADE)
    return "this server speaks HTTP/1.1, not HTTP/2: a proxy before it may";
  if (parser->wire_bytes == 0 && first == tls_handshake)
    return "this server speaks HTTP, not TLS: ask for http://, or a proxy before it";
  return llhttp_get_error_reason(&parser->llhttp);
}

static int failed(struct lls_http_parser *parser, llhttp_errno_t error, char first)
{
  if (parser->status == 0)
    refuse(parser, 400, explain(parser, error, first));
  return -EPROTO;
}

int lls_http_parser_feed(struct lls_http_parser *parser, const char *data, size_t length,
                         size_t *taken)
{
  parser->started = true;
  *taken = length;
  if (parser->status == 0 && is_folded(parser, data, length))
    refuse(parser, 400, "a header is folded into several lines: send it in one");
  if (parser->status != 0 || parser->unwanted)
    return -EPROTO;
  llhttp_errno_t error = llhttp_execute(&parser->llhttp, data, length);
  bool complete = error == HPE_PAUSED && parser->complete;
  if (parser->unwanted)
    return 1;
  if (error != HPE_OK && !complete)
    return failed(parser, error, data[0]);
  if (complete)
    *taken = (size_t)(llhttp_get_error_pos(&parser->llhttp) - data);
  parser->wire_bytes += *taken;
  if (is_padded(parser)) {
    refuse_size(parser, 431, "padding is", parser->max_header_bytes);
    return -EPROTO;
  }
  return complete ? 1 : 0;
}

void lls_http_parser_next(struct lls_http_parser *parser)
{
  parser->started = parser->complete = parser->wants_100 = parser->has_head = false;
  parser->trailer_bytes = parser->wire_bytes = parser->n_chunks = 0;
  parser->line = LLS_HTTP_LINE_BEFORE;
  parser->request->headers[0].name = 0;
  llhttp_resume(&parser->llhttp);
}
