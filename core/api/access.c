/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of Host, Origin, CORS, key and type, in the order of access.h. */
#include "core/api/access.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/api/prefix_hash.h"
#include "core/api/request_headers.h"
#include "core/base/address.h"

static const char *header(const struct lls_http_exchange *exchange, const char *name)
{
  return lls_http_request_header(&exchange->request, name);
}

/* The value of access-control-max-age: seconds for which a browser may cache the answer
 * to a preflight. */
#define MAX_AGE "600"

/* ---- Host ------------------------------------------------------------------------ */

/* Returns true if the word is the pattern; "http://localhost:*" matches every port. */
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

/* Returns true if the list ("A B:* C"; NULL: empty) contains the word, ignoring case;
 * an item "*" matches every word. */
static bool lists(const char *list, const char *word)
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

/* Copies NAME of "NAME" or "NAME:PORT"; "" if it is too long for a host name. */
static void copy_name(const char *authority, char name[LLS_HOST_MAX])
{
  size_t length = strcspn(authority, ":");
  bool fits = length < LLS_HOST_MAX;
  memcpy(name, authority, fits ? length : 0);
  name[fits ? length : 0] = '\0';
}

/*
 * Returns true if no foreign page can have this name: an address can't be resolved to
 * another machine, and names without a dot or below .localhost are not in the public
 * DNS.
 */
static bool is_private(const char *authority)
{
  char name[LLS_HOST_MAX];
  struct in_addr v4;
  static const char local[] = ".localhost";
  if (authority[0] == '[')
    return true;
  copy_name(authority, name);
  size_t length = strlen(name);
  return strchr(name, '.') == NULL || inet_pton(AF_INET, name, &v4) == 1 ||
         (length > sizeof local - 1 &&
          strcasecmp(name + length - (sizeof local - 1), local) == 0);
}

static bool is_ours(const struct lls_api *api, const char *authority)
{
  char name[LLS_HOST_MAX];
  copy_name(authority, name);
  return is_private(authority) || lists(api->config.limits.allowed_hosts, name);
}

bool lls_access_host(const struct lls_api *api, struct lls_http_exchange *exchange,
                     struct lls_api_error *error)
{
  const char *host = lls_http_request_host(&exchange->request);
  const char *named = api->config.limits.allowed_hosts;
  if (lls_http_peer_is_admin(exchange))
    return true;
  bool wanted = lls_http_peer_is_local(exchange) || (named != NULL && named[0] != '\0');
  if (!wanted || host == NULL || is_ours(api, host))
    return true;
  lls_api_fail(error, 421, "unknown_host", NULL,
               "\"%.100s\" is no name of this server: ask for localhost, or add it to "
               "[server] allowed_hosts",
               host);
  return false;
}

bool lls_access_path(const struct lls_api *api, const struct lls_http_exchange *exchange,
                     struct lls_api_error *error)
{
  if (!lists(api->config.limits.closed_paths, exchange->request.path))
    return true;
  lls_api_fail(error, 501, "path_closed", NULL,
               "%s is closed on this server ([server] closed_paths)",
               exchange->request.path);
  error->hopeless = true;
  return false;
}

/* ---- Origin ---------------------------------------------------------------------- */

/* Returns the value of access-control-allow-origin, or NULL if the request has no
 * origin or one that is not allowed. */
static const char *allowed_origin(const struct lls_api *api,
                                  const struct lls_http_exchange *exchange)
{
  const char *list = api->config.limits.allowed_origins;
  const char *origin = lls_http_request_header(&exchange->request, "origin");
  if (origin == NULL || !lists(list, origin))
    return NULL;
  return lists(list, "*") && !api->config.limits.llamacpp ? "*" : origin;
}

static bool changes_nothing(const struct lls_http_exchange *exchange)
{
  static const char *const safe[] = {"GET", "HEAD", "OPTIONS"};
  for (size_t i = 0; i < sizeof safe / sizeof safe[0]; i++)
    if (strcmp(exchange->request.method, safe[i]) == 0)
      return true;
  return false;
}

/* Returns true if the page's origin is the host name under which it reaches this
 * server, as for a page that the same proxy serves. */
static bool is_same_origin(const struct lls_api *api,
                           const struct lls_http_exchange *exchange, const char *origin)
{
  const char *host = lls_http_request_host(&exchange->request);
  const char *authority = strstr(origin, "://");
  return host != NULL && authority != NULL && strcasecmp(authority + 3, host) == 0 &&
         is_ours(api, host);
}

static bool check_origin(const struct lls_api *api,
                         const struct lls_http_exchange *exchange,
                         struct lls_api_error *error)
{
  const char *origin = header(exchange, "origin");
  if (origin == NULL || changes_nothing(exchange) ||
      allowed_origin(api, exchange) != NULL || is_same_origin(api, exchange, origin))
    return true;
  lls_api_fail(error, 403, "origin_not_allowed", NULL,
               "pages of %.100s may not ask this server: [server] allowed_origins names "
               "those that may",
               origin);
  return false;
}

/* Names of headers have capitals here: scripts that keep them in a plain dictionary look
 * for those. Allows all request headers that the browser lists: it sends no other ones.
 */
static void permit(struct lls_http_exchange *exchange, const char *allow)
{
  const char *headers =
      lls_http_request_header(&exchange->request, "access-control-request-headers");
  lls_http_add_header(exchange, "Access-Control-Allow-Methods", allow);
  if (headers != NULL)
    lls_http_add_header(exchange, "Access-Control-Allow-Headers", headers);
  lls_http_add_header(exchange, "Access-Control-Max-Age", MAX_AGE);
}

bool lls_access_is_preflight(const struct lls_http_exchange *exchange, const char *allow)
{
  return allow[0] != '\0' && strcmp(exchange->request.method, "OPTIONS") == 0;
}

bool lls_access_cors(const struct lls_api *api, struct lls_http_exchange *exchange,
                     const char *allow)
{
  const char *origin = allowed_origin(api, exchange);
  if (origin != NULL) {
    lls_http_add_header(exchange, "Access-Control-Allow-Origin", origin);
    /* this server uses no cookies, but a proxy in front of it may need them */
    if (!lists(api->config.limits.allowed_origins, "*"))
      lls_http_add_header(exchange, "Access-Control-Allow-Credentials", "true");
    lls_http_add_header(exchange, "Access-Control-Expose-Headers",
                        "x-request-id, retry-after, " LLS_PREFIX_HEADER
                        ", " LLS_IGNORED_HEADER
                        ", x-ratelimit-limit-requests, x-ratelimit-limit-tokens, "
                        "x-ratelimit-remaining-requests, x-ratelimit-remaining-tokens, "
                        "x-ratelimit-reset-requests, x-ratelimit-reset-tokens");
    lls_http_add_header(exchange, "vary", "origin");
  }
  if (!lls_access_is_preflight(exchange, allow))
    return false;
  if (origin != NULL)
    permit(exchange, api->config.limits.llamacpp ? "GET, POST, DELETE, OPTIONS" : allow);
  lls_http_add_header(exchange, "allow", allow);
  lls_http_reply(exchange, 200, NULL, NULL, 0);
  return true;
}

/* ---- keys ------------------------------------------------------------------------ */

/* Returns true if the request has one of the keys; *tenant is then the key's tenant. */
static bool holds(const struct lls_http_exchange *exchange,
                  const struct lls_api_keys *keys, const char **tenant)
{
  const char *given = header(exchange, "authorization");
  const char *key = header(exchange, "x-api-key");
  if (key == NULL)
    key = header(exchange, "api-key"); /* Azure's */
  if (keys == NULL)
    return false;
  return given == NULL && key != NULL ? lls_api_keys_have(keys, key, tenant)
                                      : lls_api_keys_allow(keys, given, tenant);
}

const char *lls_access_tenant(const struct lls_api *api,
                              const struct lls_http_exchange *exchange)
{
  const char *tenant = "";
  bool known = holds(exchange, api->keys.users, &tenant) ||
               holds(exchange, api->keys.admins, &tenant);
  return known || api->keys.users == NULL || lls_http_peer_is_admin(exchange) ? tenant
                                                                              : NULL;
}

const char *lls_access_account(const struct lls_api *api,
                               const struct lls_http_exchange *exchange)
{
  const char *tenant = lls_access_tenant(api, exchange);
  const char *named = header(exchange, LLS_FAIRNESS_HEADER);
  if (tenant != NULL && tenant[0] == '\0' && named != NULL)
    return named;
  return tenant != NULL ? tenant : "";
}

static bool refuse_key(const struct lls_http_exchange *exchange,
                       struct lls_api_error *error)
{
  bool given = header(exchange, "authorization") != NULL;
  lls_api_fail(error, 401, "invalid_api_key", NULL,
               given ? "the API key in the header 'authorization' is not one of this "
                       "server's"
                     : "this server wants an API key: send the header 'authorization: "
                       "Bearer KEY'");
  return false;
}

static bool check_user(const struct lls_api *api,
                       const struct lls_http_exchange *exchange,
                       struct lls_api_error *error)
{
  return lls_access_tenant(api, exchange) != NULL || refuse_key(exchange, error);
}

static bool check_admin_key(const struct lls_api *api,
                            const struct lls_http_exchange *exchange,
                            struct lls_api_error *error)
{
  const char *tenant = "";
  if (holds(exchange, api->keys.admins, &tenant))
    return true;
  if (!holds(exchange, api->keys.users, &tenant))
    return refuse_key(exchange, error);
  lls_api_fail(error, 403, "not_an_admin", NULL,
               "this API key is no admin's: %s wants one of [server] admin_keys",
               exchange->request.path);
  return false;
}

/* Returns true if the client runs on this machine. A proxy here may pass on requests of
 * other machines, such as a service mesh's sidecar, whose requests all come from
 * 127.0.0.1 or 127.0.0.6. A pod, or a server that other machines can reach, may have
 * such a proxy: there a loopback address proves nothing, and the function returns
 * false. */
static bool is_here(const struct lls_api *api, struct lls_http_exchange *exchange)
{
  static const char *const of_proxies[] = {"forwarded",
                                           "x-forwarded-for",
                                           "x-forwarded-proto",
                                           "x-forwarded-client-cert",
                                           "x-real-ip",
                                           "x-envoy-attempt-count",
                                           "via"};
  static const char *const loopback[] = {"127.0.0.1", "::1", "::ffff:127.0.0.1"};
  if (lls_http_server_is_exposed(api->http) || getenv("KUBERNETES_SERVICE_HOST") != NULL)
    return false;
  for (size_t i = 0; i < sizeof of_proxies / sizeof of_proxies[0]; i++)
    if (header(exchange, of_proxies[i]) != NULL)
      return false;
  for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++)
    if (strcmp(lls_http_peer(exchange), loopback[i]) == 0)
      return true;
  return false;
}

static bool check_admin(const struct lls_api *api, struct lls_http_exchange *exchange,
                        struct lls_api_error *error)
{
  if (lls_http_peer_is_admin(exchange))
    return true;
  if (api->keys.admins != NULL)
    return check_admin_key(api, exchange, error);
  if (is_here(api, exchange))
    return check_user(api, exchange, error);
  lls_api_fail(error, 403, "not_an_admin", NULL,
               "%s wants one of [server] admin_keys, or comes through [server] "
               "admin_socket; without keys a server that listens on 127.0.0.1 alone "
               "takes it from its own machine, too",
               exchange->request.path);
  return false;
}

static bool check_reader(const struct lls_api *api, struct lls_http_exchange *exchange,
                         struct lls_api_error *error)
{
  if (is_here(api, exchange) || lls_http_peer_is_admin(exchange))
    return true;
  return api->keys.admins != NULL ? check_admin_key(api, exchange, error)
                                  : check_user(api, exchange, error);
}

/* Returns true for paths that need no key. The console's files and the description of the
 * API contain no secrets; the console's requests for data are checked like others. */
static bool is_open(const char *method, const char *path)
{
  static const char *const open[] = {"/health",  "/live", "/ready",
                                     "/version", "/load", "/ping",
                                     "/console", "/docs", "/openapi.json"};
  static const char files[] = "/console/";
  bool root = strcmp(path, "/") == 0 && strcmp(method, "POST") != 0;
  if (root || strncmp(path, files, sizeof files - 1) == 0)
    return true;
  for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
    if (lls_route_is(path, open[i]))
      return true;
  return false;
}

enum lls_access_group lls_access_group_of(const char *method, const char *path)
{
  static const char admin[] = "/admin";
  if (is_open(method, path))
    return LLS_ACCESS_ALL;
  if (strcmp(path, "/metrics") == 0)
    return LLS_ACCESS_READERS;
  if (strncmp(path, admin, sizeof admin - 1) == 0 ||
      (lls_route_is(path, "/lora-adapters") && strcmp(method, "POST") == 0) ||
      lls_route_is(path, "/load_lora_adapter") ||
      lls_route_is(path, "/unload_lora_adapter") || lls_route_is(path, "/models/load") ||
      lls_route_is(path, "/models/unload"))
    return LLS_ACCESS_ADMINS;
  return LLS_ACCESS_USERS;
}

bool lls_access_client(const struct lls_api *api, struct lls_http_exchange *exchange,
                       struct lls_api_error *error)
{
  const struct lls_http_request *request = &exchange->request;
  if (!check_origin(api, exchange, error))
    return false;
  switch (lls_access_group_of(request->method, request->path)) {
  case LLS_ACCESS_ALL:
    return true;
  case LLS_ACCESS_READERS:
    return check_reader(api, exchange, error);
  case LLS_ACCESS_ADMINS:
    return check_admin(api, exchange, error);
  default:
    return check_user(api, exchange, error);
  }
}

/* ---- type ------------------------------------------------------------------------ */

static bool is_type(const char *given, const char *type)
{
  size_t length = strcspn(given, "; \t");
  return length == strlen(type) && strncasecmp(given, type, length) == 0;
}

/* Returns true for a body that "curl -d" has called a form, as it does by default. A
 * page's request that says so has an Origin, and one with a key was asked for before. */
static bool is_from_curl(const struct lls_http_exchange *exchange, const char *type)
{
  bool no_page = header(exchange, "origin") == NULL ||
                 header(exchange, "authorization") != NULL ||
                 header(exchange, "x-api-key") != NULL;
  return no_page && is_type(type, "application/x-www-form-urlencoded");
}

bool lls_access_upload(const struct lls_http_exchange *exchange,
                       struct lls_api_error *error)
{
  if (lls_http_request_coding(&exchange->request) == LLS_CODING_NONE)
    return true;
  lls_api_fail(error, 415, "unsupported_encoding", NULL,
               "the body's content-encoding is '%.40s': send a file as it is",
               header(exchange, "content-encoding"));
  return false;
}

bool lls_access_body(const struct lls_http_exchange *exchange,
                     struct lls_api_error *error)
{
  const char *type = header(exchange, "content-type");
  if (!exchange->request.has_body || exchange->request.sink.write != NULL)
    return true;
  if (lls_http_request_coding(&exchange->request) == LLS_CODING_UNKNOWN)
    lls_api_fail(
        error, 415, "unsupported_encoding", NULL,
        "the body's content-encoding is '%.40s': send it as it is, or in one of: "
        "%s",
        header(exchange, "content-encoding"), lls_content_codings);
  else if (type != NULL && !is_type(type, "application/json") &&
           !is_from_curl(exchange, type))
    lls_api_fail(error, 415, "unsupported_media_type", NULL,
                 "the body must be JSON and said to be: send the header 'content-type: "
                 "application/json', not '%.80s'",
                 type);
  else
    return true;
  return false;
}
