/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the handler of a method and a path in a table that is read from top to bottom. */
#ifndef LLS_HTTP_ROUTER_H
#define LLS_HTTP_ROUTER_H

#include "core/http/exchange.h"

struct lls_http_route {
  const char *method;
  const char *path; /* a '*' matches at least one character: the rest, at the end */
  void (*handler)(void *context, struct lls_http_exchange *exchange);
  const void *data; /* for the handler, or NULL */
};

#define LLS_HTTP_ALLOW_MAX 64

/*
 * Returns the route of a request (HEAD uses the route of GET) and sets request->tail.
 * Returns NULL if there is none: allow then has the methods that the path accepts, "" if
 * the path is unknown.
 */
const struct lls_http_route *lls_http_route_find(const struct lls_http_route *routes,
                                                 size_t count,
                                                 struct lls_http_request *request,
                                                 char allow[LLS_HTTP_ALLOW_MAX]);

#endif
