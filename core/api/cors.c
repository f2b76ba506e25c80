/* SPDX-License-Identifier: Apache-2.0 */
#include "core/api/cors.h"

#include <string.h>
#include <strings.h>

#define MAX_AGE "600" /* seconds that a browser need not ask again */

/* "http://localhost:*" is this origin on every port. */
static bool matches(const char *pattern, size_t length, const char *word)
{
  size_t stem = length;
  if (length > 2 && memcmp(pattern + length - 2, ":*", 2) == 0)
    stem -= 2;
  if (strncasecmp(pattern, word, stem) != 0)
    return false;
  const char *rest = word + stem;
  if (stem < length && rest[0] == ':')
    rest += 1 + strspn(rest + 1, "0123456789");
  return rest[0] == '\0';
}

bool lls_cors_lists(const char *list, const char *word)
{
  if (list == NULL)
    return false;
  for (const char *at = list + strspn(list, " "); *at != '\0'; at += strspn(at, " ")) {
    size_t n = strcspn(at, " ");
    if ((n == 1 && *at == '*') || matches(at, n, word))
      return true;
    at += n;
  }
  return false;
}

const char *lls_cors_allowed(const struct lls_api *api,
                             const struct lls_http_exchange *exchange)
{
  const char *list = api->config.limits.allowed_origins;
  const char *origin = lls_http_request_header(&exchange->request, "origin");
  if (origin == NULL || !lls_cors_lists(list, origin))
    return NULL;
  return lls_cors_lists(list, "*") ? "*" : origin;
}

/* A browser sends any header only if it is named. */
static void permit(struct lls_http_exchange *exchange, const char *allow)
{
  const char *headers =
      lls_http_request_header(&exchange->request, "access-control-request-headers");
  lls_http_add_header(exchange, "access-control-allow-methods", allow);
  if (headers != NULL)
    lls_http_add_header(exchange, "access-control-allow-headers", headers);
  lls_http_add_header(exchange, "access-control-max-age", MAX_AGE);
}

bool lls_api_cors(const struct lls_api *api, struct lls_http_exchange *exchange,
                  const char *allow)
{
  const char *origin = lls_cors_allowed(api, exchange);
  bool asks = allow[0] != '\0' && strcmp(exchange->request.method, "OPTIONS") == 0;
  if (origin != NULL) {
    lls_http_add_header(exchange, "access-control-allow-origin", origin);
    /* cookies and such are not for whoever asks, but a proxy before us may want them */
    if (strcmp(origin, "*") != 0)
      lls_http_add_header(exchange, "access-control-allow-credentials", "true");
    lls_http_add_header(exchange, "access-control-expose-headers",
                        "x-request-id, retry-after");
    lls_http_add_header(exchange, "vary", "origin");
  }
  if (!asks)
    return false;
  if (origin != NULL)
    permit(exchange, allow);
  lls_http_add_header(exchange, "allow", allow);
  lls_http_reply(exchange, 200, NULL, NULL, 0);
  return true;
}
