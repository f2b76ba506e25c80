/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request, complete: method, target, headers, body. Filled by parser.c, read by
 * handlers.
 *
 * The head is one growing text in which all strings end with NUL, and everything points
 * into it by offset, because it moves while it grows.
 */
#ifndef LLS_HTTP_HTTP_REQUEST_H
#define LLS_HTTP_HTTP_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/text.h"

#define LLS_HTTP_MAX_HEADERS 100

struct lls_http_header {
  uint32_t name, value; /* offsets in head */
};

/* Takes a body piece by piece as it arrives, in place of `body`; of whoever wants it. */
struct lls_http_sink {
  void (*write)(void *owner, const char *data, size_t length);
  void (*close)(void *owner); /* last, once: the request is over, whatever became of it */
  void *owner;
  uint64_t max_bytes; /* a larger body is refused */
};

struct lls_http_request {
  const char *method;    /* "GET"; static */
  char *path;            /* percent-decoded, without the query; in head */
  const char *authority; /* of a target that is a whole URL, or NULL; in head */
  const char *query;     /* as sent, "" if none; in head */
  const char *tail;      /* what a trailing '*' of the route matched; in path */
  bool http10;           /* the client speaks 1.0: no chunked answers */
  bool keep_alive;       /* the client would send another request */
  bool has_body;         /* one follows the head */
  struct lls_text head, body;
  struct lls_http_sink sink; /* write == NULL: the body is kept */
  uint64_t sunk_bytes;       /* that it was given */
  struct lls_http_header headers[LLS_HTTP_MAX_HEADERS]; /* (n_headers) */
  uint32_t n_headers;
};

/* Value of the first header of that name, in any case, or NULL. */
const char *lls_http_request_header(const struct lls_http_request *request,
                                    const char *name);

/* "NAME" or "NAME:PORT" that the request is for, of its target or else of the header
 * Host, as RFC 9112 (3.2.2) wants; or NULL. */
const char *lls_http_request_host(const struct lls_http_request *request);

/*
 * Splits and decodes the target at the beginning of head into path and query. NULL, or a
 * static sentence that says why it is none: a bad escape, one that hides a letter, NUL,
 * no path.
 */
const char *lls_http_request_set_target(struct lls_http_request *request);

/* Empty again, the memory given back: an idle connection holds no request. */
void lls_http_request_clear(struct lls_http_request *request);

#endif
