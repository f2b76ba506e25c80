/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From bytes to requests, by llhttp in its strict mode; knows nothing of sockets.
 *
 * The parser stops after each request, so that a connection answers one at a time
 * however many its client has sent ahead.
 */
#ifndef LLS_HTTP_PARSER_H
#define LLS_HTTP_PARSER_H

#include <llhttp.h>

#include "core/http/http_request.h"

/* Where in the head the next byte is. */
enum lls_http_line {
  LLS_HTTP_LINE_BEFORE, /* the request line: empty lines are skipped */
  LLS_HTTP_LINE_WITHIN,
  LLS_HTTP_LINE_BEGINS,
  LLS_HTTP_LINE_OVER, /* past the empty line */
};

struct lls_http_parser {
  llhttp_t llhttp;
  struct lls_http_request *request; /* being filled */
  /* The head is complete: may set request->sink. False: the body is not wanted, and the
   * request counts as complete without it. May be NULL. */
  bool (*on_head)(void *owner);
  /* False: the server holds too many bytes for `more` of this request, whose body has
   * `body` bytes then. May be NULL. */
  bool (*may_hold)(void *owner, size_t more, uint64_t body);
  void *owner;
  size_t max_header_bytes, max_body_bytes;
  size_t trailer_bytes; /* of headers after a chunked body: counted, not kept */
  size_t wire_bytes;    /* of the request, so far */
  uint32_t n_chunks;    /* of its body, each with a size line */
  enum lls_http_line line;
  bool has_head;    /* path and headers are fixed */
  bool started;     /* a byte of the request has come */
  bool complete;    /* and its last one */
  bool unwanted;    /* on_head wants no body: nothing more is read */
  bool wants_100;   /* the client waits for "100 Continue"; cleared by the sender */
  unsigned status;  /* after a refusal: what to answer */
  char reason[128]; /* and why */
};

void lls_http_parser_init(struct lls_http_parser *parser,
                          struct lls_http_request *request, size_t max_header_bytes,
                          size_t max_body_bytes);

/*
 * Feeds bytes; *taken is how many were used. 1: the request is complete and the rest was
 * left, or its body is not wanted: then request->keep_alive is false, and nothing more
 * can be read from this connection; 0: all were taken, more are needed; -EPROTO: refused
 * with status and reason, and nothing more can be read from this connection.
 */
int lls_http_parser_feed(struct lls_http_parser *parser, const char *data, size_t length,
                         size_t *taken);

/* Ready for the next request of the connection; the old one has been cleared. */
void lls_http_parser_next(struct lls_http_parser *parser);

#endif
