/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that the router answers itself: the list of models, in the shapes of
 * OpenAI, llama.cpp's router and Ollama; POST /models/load and /models/unload; health,
 * metrics and administration of the whole. /metrics and /admin with ?model=NAME are of
 * that model.
 */
#include "core/routing/routing_internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "config.h"
#include "core/api/admin/waits.h"
#include "core/api/request_headers.h"
#include "core/base/json_memory.h"

/* ---- lists ------------------------------------------------------------------------- */

static json_t *status_json(const struct lls_hosted *m)
{
  json_t *status =
      json_pack("{s:s, s:b}", "value", lls_hosted_state_name(m), "pinned", m->own.pinned);
  if (m->failed) {
    lls_json_put(&status, "failed", json_true());
    lls_json_put(&status, "exit_code", json_integer(m->exit_status));
  }
  if (m->failed && m->exit_signal != 0)
    lls_json_put(&status, "signal", json_integer(m->exit_signal));
  return status;
}

static json_t *model_json(const struct lls_hosted *m)
{
  return json_pack("{s:s, s:s, s:I, s:s, s:s, s:n, s:[], s:o}", "id", m->name, "object",
                   "model", "created", (json_int_t)m->routing->started_s, "owned_by",
                   "llmserve", "root", m->name, "parent", "permission", "status",
                   status_json(m));
}

/* Adds the adapters of all models, each with its model as `parent`. */
static void add_adapters(const struct lls_routing *routing, json_t **list)
{
  const struct lls_ini *ini = &routing->config->ini;
  for (size_t i = 0; i < ini->n; i++) {
    const struct lls_ini_entry *entry = &ini->entries[i];
    const char *name = lls_config_adapter_of(entry);
    if (name != NULL)
      lls_json_add(list,
                   json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:[]}", "id", name, "object",
                             "model", "created", (json_int_t)routing->started_s,
                             "owned_by", "llmserve", "root", entry->value, "parent",
                             strchr(entry->section, '.') + 1, "permission"));
  }
}

static void answer_models(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  const struct lls_hosted *m;
  json_t *list = json_array();
  LL_FOREACH (routing->models, m) {
    if (!m->removed)
      lls_json_add(&list, model_json(m));
  }
  add_adapters(routing, &list);
  lls_api_reply_json(exchange, 200,
                     json_pack("{s:s, s:o}", "object", "list", "data", list));
}

static void answer_model(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  const struct lls_hosted *m = lls_routing_named(routing, exchange->request.tail, &error);
  if (m != NULL)
    lls_api_reply_json(exchange, 200, model_json(m));
  else
    lls_api_error_reply(exchange, &error);
}

static json_t *tag_json(const struct lls_hosted *m)
{
  char when[32];
  struct tm parts;
  time_t created = (time_t)m->routing->started_s;
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&created, &parts));
  return json_pack("{s:s, s:s, s:s, s:I, s:s, s:{s:s, s:s, s:s, s:[s], s:s, s:s}}",
                   "name", m->name, "model", m->name, "modified_at", when, "size",
                   (json_int_t)m->took_bytes, "digest", m->code, "details",
                   "parent_model", "", "format", "", "family", "llmserve", "families",
                   "llmserve", "parameter_size", "", "quantization_level", "");
}

/* Answers with all models, or the loaded ones, as Ollama lists them. */
static void answer_tags(struct lls_routing *routing, struct lls_http_exchange *exchange,
                        bool loaded)
{
  const struct lls_hosted *m;
  json_t *list = json_array();
  LL_FOREACH (routing->models, m) {
    if (m->removed || (loaded && m->state != LLS_HOSTED_LOADED))
      continue;
    json_t *tag = tag_json(m);
    if (loaded) {
      lls_json_put(&tag, "size_vram", json_integer(0));
      lls_json_put(&tag, "expires_at", json_string("2318-01-01T00:00:00Z"));
    }
    lls_json_add(&list, tag);
  }
  lls_api_reply_json(exchange, 200, json_pack("{s:o}", "models", list));
}

/* ---- load and unload --------------------------------------------------------------- */

/* Returns the model that the body of the request names; NULL with *error set. */
static struct lls_hosted *read_model(struct lls_routing *routing,
                                     struct lls_http_exchange *exchange,
                                     struct lls_api_error *error)
{
  json_t *body = lls_api_body(&exchange->request.body, error);
  if (body == NULL)
    return NULL;
  const char *name = json_string_value(json_object_get(body, "model"));
  struct lls_hosted *m = NULL;
  if (name == NULL)
    lls_api_fail(error, 400, NULL, "model", "'model' must be the name of a model");
  else
    m = lls_routing_named(routing, name, error);
  json_decref(body);
  return m;
}

static void answer_load(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  struct lls_hosted *m = read_model(routing, exchange, &error);
  if (m != NULL && m->state != LLS_HOSTED_UNLOADED && m->state != LLS_HOSTED_STOPPING) {
    lls_api_fail(&error, 400, "model_is_running", "model",
                 "the model \"%.100s\" is loaded, or being loaded", m->name);
    m = NULL;
  }
  if (m == NULL) {
    lls_api_error_reply(exchange, &error);
    return;
  }
  m->wanted = true;
  m->retry_ms = 0;
  lls_hosted_want(m);
  lls_api_reply_json(exchange, 200, json_pack("{s:b}", "success", 1));
}

static void answer_unload(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  struct lls_hosted *m = read_model(routing, exchange, &error);
  if (m != NULL && (m->own.pinned || m->process == NULL)) {
    lls_api_fail(&error, 400, m->own.pinned ? "model_is_pinned" : "model_is_not_running",
                 "model",
                 m->own.pinned ? "the model \"%.100s\" is pinned"
                               : "the model \"%.100s\" is not loaded",
                 m->name);
    m = NULL;
  }
  if (m == NULL) {
    lls_api_error_reply(exchange, &error);
    return;
  }
  lls_hosted_unload(m, "a client asked for it");
  lls_api_reply_json(exchange, 200, json_pack("{s:b}", "success", 1));
}

/* ---- the whole --------------------------------------------------------------------- */

static void answer_health(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  lls_api_reply_json(exchange, routing->draining ? 503 : 200,
                     json_pack("{s:s}", "status", routing->draining ? "draining" : "ok"));
}

static void answer_live(struct lls_http_exchange *exchange)
{
  lls_api_reply_json(exchange, 200, json_pack("{s:s}", "status", "ok"));
}

/* As llama.cpp's router says what it is. */
static void answer_props(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  lls_api_reply_json(exchange, 200,
                     json_pack("{s:s, s:I, s:b, s:s}", "role", "router", "max_instances",
                               (json_int_t)routing->config->models.max_loaded,
                               "models_autoload", routing->config->models.autoload,
                               "build_info", "llmserve-" PACKAGE_VERSION));
}

static void answer_server_load(struct lls_routing *routing,
                               struct lls_http_exchange *exchange)
{
  lls_api_reply_json(exchange, 200,
                     json_pack("{s:I}", "server_load", (json_int_t)routing->n_relays));
}

static void answer_status(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  const struct lls_hosted *m;
  json_t *models = json_object();
  LL_FOREACH (routing->models, m) {
    json_t *one = status_json(m);
    lls_json_put(&one, "requests", json_integer(m->n_active));
    lls_json_put(&one, "memory_bytes",
                 json_integer(m->process != NULL
                                  ? (json_int_t)lls_model_process_memory(m->process)
                                  : 0));
    lls_json_put(&one, "pid",
                 m->process != NULL
                     ? json_integer(uv_process_get_pid(&m->process->handle))
                     : json_null());
    if (!m->removed)
      lls_json_put(&models, m->name, one);
    else
      json_decref(one);
  }
  lls_api_reply_json(
      exchange, 200,
      json_pack("{s:s, s:s, s:I, s:s, s:I, s:o}", "version", PACKAGE_VERSION, "state",
                routing->draining ? "draining" : "ok", "started",
                (json_int_t)routing->started_s, "config", routing->config->ini.path,
                "generation", (json_int_t)routing->generation, "models", models));
}

static void answer_reload(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  if (routing->draining) {
    lls_api_fail(&error, 503, "draining", NULL, "the server is being stopped");
    lls_api_error_reply(exchange, &error);
    return;
  }
  if (lls_wait_add(&routing->reload_waits, exchange, routing->reloads_begun + 1))
    routing->options.reload(routing->options.context);
}

static void answer_drain(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  lls_api_reply_json(exchange, 202, json_pack("{s:s}", "status", "draining"));
  routing->options.drain(routing->options.context, "an admin");
}

/* ---- which ------------------------------------------------------------------------- */

static bool is_admin(const struct lls_http_exchange *exchange)
{
  static const char admin[] = "/admin";
  return strncmp(exchange->request.path, admin, sizeof admin - 1) == 0;
}

/* Passes a request about one loaded model to its process, as its admin. */
static void ask_about(struct lls_routing *routing, const char *name,
                      struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  struct lls_hosted *m = lls_routing_named(routing, name, &error);
  if (m != NULL && m->state != LLS_HOSTED_LOADED) {
    lls_api_fail(&error, 409, "model_is_not_running", "model",
                 "the model \"%.100s\" is not loaded", m->name);
    m = NULL;
  }
  if (m != NULL)
    lls_relay_begin(routing, m, exchange, false, true);
  else
    lls_api_error_reply(exchange, &error);
}

static void answer_admin(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  const struct lls_http_route *route = exchange->route;
  struct lls_api_error error;
  if (route->handler == lls_handle_admin_status)
    answer_status(routing, exchange);
  else if (route->handler == lls_handle_admin_reload)
    answer_reload(routing, exchange);
  else if (route->handler == lls_handle_admin_drain)
    answer_drain(routing, exchange);
  else {
    lls_api_fail(&error, 400, "model_missing", "model",
                 "%s is about one model: add ?model=NAME", exchange->request.path);
    lls_api_error_reply(exchange, &error);
  }
}

/* Answers by the handler that the route would have in a server of one model. */
static bool answer_alike(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  static void (*const alike[])(void *, struct lls_http_exchange *) = {
      lls_handle_openapi,       lls_handle_docs, lls_handle_console,
      lls_handle_console_file,  lls_handle_root, lls_handle_version,
      lls_handle_ollama_version};
  const struct lls_http_route *route = exchange->route;
  for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
    if (route->handler == alike[i]) {
      route->handler(routing->api, exchange);
      return true;
    }
  return false;
}

static bool answer_models_route(struct lls_routing *routing,
                                struct lls_http_exchange *exchange)
{
  const struct lls_http_route *route = exchange->route;
  if (route->handler == lls_handle_models)
    answer_models(routing, exchange);
  else if (route->handler == lls_handle_model)
    answer_model(routing, exchange);
  else if (route->handler == lls_handle_model_load)
    answer_load(routing, exchange);
  else if (route->handler == lls_handle_model_unload)
    answer_unload(routing, exchange);
  else if (route->handler == lls_handle_ollama_tags)
    answer_tags(routing, exchange, false);
  else if (route->handler == lls_handle_ollama_ps)
    answer_tags(routing, exchange, true);
  else
    return false;
  return true;
}

static bool answer(struct lls_routing *routing, struct lls_http_exchange *exchange)
{
  const struct lls_http_route *route = exchange->route;
  char name[LLS_MODEL_NAME_MAX + 1];
  bool named = lls_http_query(exchange->request.query, "model", name, sizeof name);
  if (named && (is_admin(exchange) || route->handler == lls_handle_metrics))
    ask_about(routing, name, exchange);
  else if (is_admin(exchange))
    answer_admin(routing, exchange);
  else if (route->handler == lls_handle_metrics)
    lls_routing_metrics(routing, exchange);
  else if (route->handler == lls_handle_health || route->handler == lls_handle_ready)
    answer_health(routing, exchange);
  else if (route->handler == lls_handle_live)
    answer_live(exchange);
  else if (route->handler == lls_handle_load)
    answer_server_load(routing, exchange);
  else if (route->handler == lls_handle_props && !named)
    answer_props(routing, exchange);
  else
    return answer_alike(routing, exchange) || answer_models_route(routing, exchange);
  return true;
}

static bool is_for_admins(const struct lls_http_exchange *exchange)
{
  const struct lls_http_route *route = exchange->route;
  return route->handler == lls_handle_load_adapter ||
         route->handler == lls_handle_unload_adapter ||
         route->handler == lls_handle_scale_adapters;
}

/* Passes the request on, and has its model loaded. */
static void begin_relay(struct lls_routing *routing, struct lls_hosted *m,
                        struct lls_http_exchange *exchange, bool wants_stream)
{
  lls_relay_begin(routing, m, exchange, wants_stream, is_for_admins(exchange));
  lls_hosted_want(m);
}

/* Returns the model of a request that is to be passed on; NULL with *error set. */
static struct lls_hosted *admit(struct lls_routing *routing,
                                struct lls_http_exchange *exchange, bool *wants_stream,
                                struct lls_api_error *error)
{
  struct lls_hosted *m = NULL;
  if (routing->draining)
    lls_api_fail(error, 503, "draining", NULL, "the server is being stopped");
  else
    m = lls_routing_choose(routing, exchange, wants_stream, error);
  if (m == NULL || lls_hosted_stays_unloaded(m, error) || lls_hosted_refuses(m, error))
    return NULL;
  return m;
}

bool lls_routing_on_upload(void *context, struct lls_http_exchange *exchange)
{
  struct lls_routing *routing = context;
  struct lls_api_error error;
  bool wants_stream;
  LLS_ROUTING_ON_MAIN(routing);
  if (!exchange->request.has_body)
    return true;
  struct lls_hosted *m = admit(routing, exchange, &wants_stream, &error);
  lls_api_choose_id(exchange); /* the process gets it with the head */
  if (m == NULL || !lls_relay_begin_upload(routing, m, exchange))
    return false;
  lls_hosted_want(m);
  return true;
}

/* True if lls_routing_on_upload has not wanted the body. */
static bool lacks_upload(const struct lls_http_exchange *exchange)
{
  const struct lls_http_route *route = exchange->route;
  return route->handler == lls_handle_file_create && exchange->request.has_body;
}

void lls_routing_handle(void *context, struct lls_http_exchange *exchange)
{
  struct lls_routing *routing = context;
  struct lls_api_error error;
  bool wants_stream;
  LLS_ROUTING_ON_MAIN(routing);
  if (lls_relay_end_upload(exchange) || answer(routing, exchange))
    return;
  struct lls_hosted *m = admit(routing, exchange, &wants_stream, &error);
  if (m != NULL && lacks_upload(exchange)) {
    lls_api_fail(&error, 503, "out_of_memory", NULL, "out of memory");
    m = NULL;
  }
  if (m != NULL)
    begin_relay(routing, m, exchange, wants_stream);
  else
    lls_api_error_reply(exchange, &error);
}
