/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns bytes into requests with llhttp in its strict mode; does not use sockets.
 *
 * The parser stops after each request, so that a connection answers one request at a
 * time, however many its client has sent ahead.
 */
#ifndef LLS_HTTP_PARSER_H
#define LLS_HTTP_PARSER_H

#include <llhttp.h>

#include "core/http/http_request.h"

/* Position of the next byte in the head. */
enum lls_http_line {
  LLS_HTTP_LINE_BEFORE, /* before the request line: empty lines are skipped */
  LLS_HTTP_LINE_WITHIN,
  LLS_HTTP_LINE_BEGINS,
  LLS_HTTP_LINE_OVER, /* past the empty line */
};

struct lls_http_parser {
  llhttp_t llhttp;
  struct lls_http_request *request; /* the request that is being filled */
  /* Called when the head is complete; may set request->sink. Returns false if the body is
   * not wanted: the request then counts as complete without it. May be NULL. */
  bool (*on_head)(void *owner);
  /* Returns false if the server holds too many bytes to add `more` of this request, whose
   * body would then have `body` bytes. May be NULL. */
  bool (*may_hold)(void *owner, size_t more, uint64_t body);
  void *owner;
  size_t max_header_bytes, max_body_bytes;
  size_t trailer_bytes; /* bytes of headers after a chunked body: counted, not kept */
  size_t wire_bytes;    /* bytes of the request received so far */
  uint32_t n_chunks;    /* chunks of the body, each with a size line */
  enum lls_http_line line;
  bool has_head;    /* path and headers are fixed */
  bool started;     /* the first byte of the request has arrived */
  bool complete;    /* the last byte of the request has arrived */
  bool unwanted;    /* on_head returned false: the body is not read */
  bool wants_100;   /* the client waits for "100 Continue"; cleared by the sender */
  unsigned status;  /* HTTP status to answer after a refusal */
  char reason[128]; /* reason of the refusal */
};

void lls_http_parser_init(struct lls_http_parser *parser,
                          struct lls_http_request *request, size_t max_header_bytes,
                          size_t max_body_bytes);

/*
 * Parses bytes; *taken is the number used. Returns
 *
 *   1 if the request is complete, and bytes after it were not used;
 *   1 if its body is not wanted: request->keep_alive is false then, and the connection
 *     can't be read further;
 *   0 if all bytes were used and more are needed;
 *   -EPROTO if the request is refused with status and reason: the connection can't be
 *     read further.
 */
int lls_http_parser_feed(struct lls_http_parser *parser, const char *data, size_t length,
                         size_t *taken);

/* Prepares for the next request of the connection. The caller has cleared the previous
 * one. */
void lls_http_parser_next(struct lls_http_parser *parser);

#endif
