/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One complete HTTP request: method, target, headers, body. parser.c fills it, handlers
 * read it.
 *
 * The head is one growing text in which every string ends with NUL. Growing may move it,
 * so headers refer to it by offset; path, authority and query are pointers, set when the
 * head is complete.
 */
#ifndef LLS_HTTP_HTTP_REQUEST_H
#define LLS_HTTP_HTTP_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/text.h"
#include "core/http/content_coding.h"

#define LLS_HTTP_MAX_HEADERS 100

struct lls_http_header {
  uint32_t name, value; /* offsets in head */
};

/* Receives a body piece by piece as it arrives, instead of `body`. The handler that sets
 * the sink owns it. */
struct lls_http_sink {
  void (*write)(void *owner, const char *data, size_t length);
  void (*close)(void *owner); /* called once, last, when the request is over */
  void *owner;
  uint64_t max_bytes; /* a larger body is refused */
};

struct lls_http_request {
  const char *method;    /* "GET"; static */
  char *path;            /* percent-decoded, without the query; in head */
  const char *authority; /* host of a target that is a whole URL, or NULL; in head */
  const char *query;     /* the query as it was sent, "" if none; points into head */
  const char *tail;      /* the path from the '*' of the route on; in path */
  bool http10;           /* the client speaks 1.0: no chunked answers */
  bool keep_alive;       /* the client would send another request */
  bool has_body;         /* a body follows the head */
  struct lls_text head, body;
  struct lls_http_sink sink; /* write == NULL: the body is kept */
  uint64_t sunk_bytes;       /* bytes that the sink received */
  struct lls_content_decoder
      *decoder;         /* of a body with a content coding; NULL: it has none */
  uint64_t coded_bytes; /* bytes that the decoder received */
  struct lls_http_header headers[LLS_HTTP_MAX_HEADERS]; /* (n_headers) */
  uint32_t n_headers;
};

/* Returns the value of the first header with this name (any case), or NULL. */
const char *lls_http_request_header(const struct lls_http_request *request,
                                    const char *name);

/* Returns the number of headers with this name. */
unsigned lls_http_request_count(const struct lls_http_request *request, const char *name);

/* Returns the content coding of the body; several in a row are unknown. */
enum lls_content_coding lls_http_request_coding(const struct lls_http_request *request);

/* Returns the "NAME" or "NAME:PORT" that the request is for: from the target, else from
 * the Host header (RFC 9112, 3.2.2); or NULL. */
const char *lls_http_request_host(const struct lls_http_request *request);

/*
 * Splits the target at the beginning of head into path and query, and decodes the path.
 * Returns NULL, or a static sentence that says what is wrong with the target: a bad
 * escape, an escape of a plain letter, NUL, no path.
 */
const char *lls_http_request_set_target(struct lls_http_request *request);

/* Copies the decoded value of a query's parameter, the last one of that name; "" if there
 * is none, or if it takes more than size - 1 bytes. Returns false if there is none. */
bool lls_http_query(const char *query, const char *name, char *value, size_t size);

/* Empties the request and frees its memory: an idle connection holds no request. */
void lls_http_request_clear(struct lls_http_request *request);

#endif
