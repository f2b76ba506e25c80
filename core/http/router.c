/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the route of a path, and the value of Allow if only the method is wrong; see
 * router.h. */
#include "core/http/router.h"

#include <string.h>

/* Returns the path from the part on that the pattern's '*' matches ("" if it has none),
 * or NULL if the path does not match. */
static const char *match(const char *pattern, const char *path)
{
  const char *star = strchr(pattern, '*');
  if (star == NULL)
    return strcmp(pattern, path) == 0 ? "" : NULL;
  size_t before = (size_t)(star - pattern), after = strlen(star + 1);
  size_t length = strlen(path);
  bool inside = length > before + after && strncmp(pattern, path, before) == 0 &&
                strcmp(path + length - after, star + 1) == 0;
  return inside ? path + before : NULL;
}

static void add_method(char allow[LLS_HTTP_ALLOW_MAX], const char *method)
{
  size_t used = strlen(allow);
  if (used + strlen(method) + 3 > LLS_HTTP_ALLOW_MAX)
    return;
  if (used > 0)
    strcat(allow, ", ");
  strcat(allow, method);
}

const struct lls_http_route *lls_http_route_find(const struct lls_http_route *routes,
                                                 size_t count,
                                                 struct lls_http_request *request,
                                                 char allow[LLS_HTTP_ALLOW_MAX])
{
  bool head = strcmp(request->method, "HEAD") == 0;
  const char *method = head ? "GET" : request->method;
  allow[0] = '\0';
  for (size_t i = 0; i < count; i++) {
    const char *tail = match(routes[i].path, request->path);
    if (tail == NULL)
      continue;
    if (strcmp(routes[i].method, method) == 0) {
      request->tail = tail;
      return &routes[i];
    }
    add_method(allow, routes[i].method);
    if (strcmp(routes[i].method, "GET") == 0)
      add_method(allow, "HEAD");
  }
  return NULL;
}
