/* SPDX-License-Identifier: Apache-2.0 */
#include "core/api/cors.h"

#include <string.h>

#define MAX_AGE "600" /* seconds that a browser need not ask again */

/* Whether the word is one of the list's. */
static bool lists(const char *list, const char *word)
{
  size_t length = strlen(word);
  for (const char *at = list + strspn(list, " "); *at != '\0'; at += strspn(at, " ")) {
    size_t n = strcspn(at, " ");
    if (n == length && memcmp(at, word, n) == 0)
      return true;
    at += n;
  }
  return false;
}

/* What access-control-allow-origin is to say; NULL: nothing. */
static const char *allowed(const struct lls_api *api,
                           const struct lls_http_exchange *exchange)
{
  const char *list = api->config.limits.allowed_origins;
  const char *origin = lls_http_request_header(&exchange->request, "origin");
  if (list == NULL || origin == NULL)
    return NULL;
  if (lists(list, "*"))
    return "*";
  return lists(list, origin) ? origin : NULL;
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
  const char *origin = allowed(api, exchange);
  bool asks = allow[0] != '\0' && strcmp(exchange->request.method, "OPTIONS") == 0;
  if (origin != NULL) {
    lls_http_add_header(exchange, "access-control-allow-origin", origin);
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
