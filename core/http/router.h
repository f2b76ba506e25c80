/* SPDX-License-Identifier: Apache-2.0 */
/* Which handler answers a method and a path: a table, read from top to bottom. */
#ifndef LLS_HTTP_ROUTER_H
#define LLS_HTTP_ROUTER_H

#include "core/http/exchange.h"

struct lls_http_route {
  const char *method;
  const char *path; /* a trailing '*' matches the rest, at least one character of it */
  void (*handler)(void *context, struct lls_http_exchange *exchange);
};

#define LLS_HTTP_ALLOW_MAX 64

/*
 * The route of a request (HEAD is answered by GET's), its tail noted in the request.
 * NULL where there is none: then allow names the methods that the path has, "" if it is
 * unknown.
 */
const struct lls_http_route *lls_http_route_find(const struct lls_http_route *routes,
                                                 size_t count,
                                                 struct lls_http_request *request,
                                                 char allow[LLS_HTTP_ALLOW_MAX]);

#endif
