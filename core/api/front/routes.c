/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths of the HTTP API (access.c decides who may use them), and the counting of
 * requests by their outcome (metrics_http.c reports it).
 */
#include "core/api/access.h"
#include "core/api/accounts.h"
#include "core/api/dialect.h"
#include "core/api/llamacpp/llamacpp.h"
#include "core/api/request_headers.h"
#include "core/api/store/store_front.h"
#include "core/http/router.h"

#define HANDLER_ROW(METHOD, PATH, HANDLER) {METHOD, PATH, HANDLER, NULL},
#define SHAPED_ROW(PATH, HANDLER, NAME)    {"POST", PATH, HANDLER, &NAME},
#define DIALECT_ROW(PATH, NAME)            SHAPED_ROW(PATH, lls_handle_dialect, NAME)

static const struct lls_http_route routes[] = {
    LLS_ROUTES(HANDLER_ROW, DIALECT_ROW, SHAPED_ROW)};

#define N_ROUTES (sizeof routes / sizeof routes[0])
_Static_assert(N_ROUTES < LLS_MAX_ROUTES, "a place for each, and for what has none");

/* ---- requests ------------------------------------------------------------------- */

static bool no_route(const struct lls_http_request *request, const char *allow,
                     struct lls_api_error *error)
{
  if (allow[0] != '\0')
    lls_api_fail(error, 405, "method_not_allowed", NULL, "%s %s: this path allows %s",
                 request->method, request->path, allow);
  else
    lls_api_fail(error, 404, "not_found", NULL, "%s %s: there is no such path",
                 request->method, request->path);
  return false;
}

/* True if the request's body is a form, which upload.c checks. */
static bool is_upload(const struct lls_http_exchange *exchange)
{
  const struct lls_http_route *route = exchange->route;
  return route->handler == lls_handle_file_create;
}

static bool is_counted(const struct lls_http_exchange *exchange)
{
  const struct lls_http_route *route = exchange->route;
  return lls_accounts_count(route->method, route->path, route->data != NULL);
}

/* True if the head lets the request reach a handler; otherwise the error says why not. */
static bool admits(struct lls_api *api, struct lls_http_exchange *exchange,
                   const char *allow, struct lls_api_error *error)
{
  if (!lls_access_host(api, exchange, error))
    return false;
  if (lls_access_is_preflight(exchange, allow))
    return true;
  if (!lls_access_client(api, exchange, error))
    return false;
  if (!lls_access_path(api, exchange, error))
    return false;
  if (exchange->route == NULL)
    return no_route(&exchange->request, allow, error);
  if (!(is_upload(exchange) ? lls_access_upload : lls_access_body)(exchange, error))
    return false;
  return !is_counted(exchange) || lls_accounts_allow(api, exchange, error);
}

static void find_route(const struct lls_api *api, struct lls_http_exchange *exchange,
                       char allow[LLS_HTTP_ALLOW_MAX])
{
  exchange->route = lls_http_route_find(api->table, N_ROUTES, &exchange->request, allow);
}

static void refuse(struct lls_http_exchange *exchange, const char *allow,
                   const struct lls_api_error *error)
{
  if (error->status == 401)
    lls_http_add_header(exchange, "www-authenticate", "Bearer");
  if (error->status == 405)
    lls_http_add_header(exchange, "allow", allow);
  lls_api_error_reply(exchange, error);
}

void lls_api_on_request(void *context, struct lls_http_exchange *exchange)
{
  char allow[LLS_HTTP_ALLOW_MAX];
  struct lls_api_error error;
  const struct lls_api *api = context;
  LLS_API_ON_MAIN(api);
  lls_api_name_request(exchange);
  if (api->replica[0] != '\0')
    lls_http_add_header(exchange, "x-llmserve-replica", api->replica);
  find_route(api, exchange, allow);
  const struct lls_dialect *dialect = lls_dialect_of(exchange);
  if (dialect != NULL && dialect->id_header != NULL)
    lls_http_add_header(exchange, dialect->id_header, exchange->id);
  bool admitted = admits(context, exchange, allow, &error);
  /* a web page may read the error, unless the request has a wrong host name (421) */
  if ((admitted || error.status != 421) && lls_access_cors(context, exchange, allow))
    return;
  if (!admitted) {
    if (error.status == 429)
      lls_accounts_refused(context, exchange);
    refuse(exchange, allow, &error);
    return;
  }
  const struct lls_http_route *route = exchange->route;
  if (is_counted(exchange))
    lls_accounts_enter(context, exchange);
  if (api->config.router.handle != NULL)
    api->config.router.handle(api->config.router.context, exchange);
  else
    route->handler(context, exchange);
}

/* A body that no handler reads is discarded. A client that sends a short one anyway is
 * not refused. */
#define UNREAD_BODY_MAX 65536

static void drop(void *owner, const char *data, size_t length)
{
  (void)owner;
  (void)data;
  (void)length;
}

bool lls_api_on_head(void *context, struct lls_http_exchange *exchange)
{
  char allow[LLS_HTTP_ALLOW_MAX];
  struct lls_api_error error;
  LLS_API_ON_MAIN((struct lls_api *)context);
  find_route(context, exchange, allow);
  if (!admits(context, exchange, allow, &error))
    return false;
  if (strcmp(exchange->request.method, "POST") != 0) {
    exchange->request.sink =
        (struct lls_http_sink){.write = drop, .max_bytes = UNREAD_BODY_MAX};
    return true;
  }
  const struct lls_api *api = context;
  const struct lls_api_router *router = &api->config.router;
  if (!is_upload(exchange))
    return true;
  return router->handle != NULL ? router->on_upload(router->context, exchange)
                                : lls_upload_on_head(context, exchange);
}

void lls_api_on_over(void *context, struct lls_http_exchange *exchange)
{
  LLS_API_ON_MAIN((const struct lls_api *)context);
  lls_accounts_leave(context, exchange);
}

/* ---- outcomes of requests -------------------------------------------------------- */

static const double coarse_bounds[] = {.1, .5, 1};
static const double fine_bounds[] = {.01, .025, .05, .075, .1,  .25, .5,  .75, 1,  1.5, 2,
                                     2.5, 3,    3.5, 4,    4.5, 5,   7.5, 10,  30, 60};

/* Copies the routes, with llama-server's dialects if the file says so. */
static void fill_table(struct lls_api *api)
{
  memcpy(api->table, routes, sizeof routes);
  for (size_t i = 0; i < N_ROUTES && api->config.limits.llamacpp; i++)
    if (routes[i].data != NULL)
      api->table[i].data = lls_llamacpp_instead(routes[i].path, routes[i].data);
}

void lls_api_routes_init(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  lls_histogram_init(&api->answer_seconds, fine_bounds,
                     sizeof fine_bounds / sizeof fine_bounds[0]);
  api->n_routes = N_ROUTES + 1;
  fill_table(api);
  for (size_t i = 0; i < api->n_routes; i++) {
    /* unknown paths are chosen by clients, so they are not used as labels */
    api->routes[i].path = i < N_ROUTES ? routes[i].path : "none";
    api->routes[i].method = i < N_ROUTES ? routes[i].method : "none";
    api->routes[i].dialect = i < N_ROUTES ? api->table[i].data : NULL;
    lls_histogram_init(&api->routes[i].seconds, coarse_bounds,
                       sizeof coarse_bounds / sizeof coarse_bounds[0]);
  }
}

void lls_api_on_answered(void *context, struct lls_http_exchange *exchange)
{
  LLS_API_ON_MAIN((const struct lls_api *)context);
  struct lls_api *api = context;
  const struct lls_http_route *route = exchange->route;
  struct lls_route_stats *stats =
      &api->routes[route != NULL ? (size_t)(route - api->table) : N_ROUTES];
  double took_s = (double)((int64_t)uv_hrtime() - exchange->arrival_ns) / 1e9;
  stats->answers[exchange->status / 100 % LLS_STATUS_CLASSES]++;
  stats->received_bytes += exchange->body_bytes;
  stats->sent_bytes += exchange->answer_bytes;
  lls_histogram_observe(&stats->seconds, took_s);
  lls_histogram_observe(&api->answer_seconds, took_s);
  lls_access_log_write(&api->access_log, (uint32_t)api->config.limits.access_log,
                       api->config.log, exchange, took_s);
}
