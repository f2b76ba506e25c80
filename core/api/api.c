/* SPDX-License-Identifier: Apache-2.0 */
/* Making and ending the front end, and what all handlers share; routes.c has its paths.
 */
#include "core/api/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "core/api/generation.h"
#include "core/api/work.h"

/* ---- requests ------------------------------------------------------------------- */

static void not_json(const json_error_t *why, bool no_memory, struct lls_api_error *error)
{
  if (no_memory)
    lls_api_fail(error, 503, NULL, NULL, "out of memory for the request body");
  else if (json_error_code(why) == json_error_numeric_overflow)
    lls_api_fail(error, 400, "invalid_json", NULL,
                 "the request body has a number that is too large (line %d, column %d): "
                 "integers go from -2^63 to 2^63 - 1, others up to about 1.8e308",
                 why->line, why->column);
  else
    lls_api_fail(error, 400, "invalid_json", NULL,
                 "the request body is not valid JSON: %s (line %d, column %d)", why->text,
                 why->line, why->column);
}

/* Whether there is memory for any string of the body while it grows, twice as large each
 * time: where there is none the parser takes the string for shorter than it is. */
static bool has_room(size_t length)
{
  void *room = malloc(4 * length + 1);
  free(room);
  return room != NULL;
}

json_t *lls_api_body(const struct lls_text *text, struct lls_api_error *error)
{
  json_error_t why;
  json_t *body = NULL;
  errno = 0; /* the parser calls a failed allocation a syntax error; malloc says more */
  if (has_room(text->length))
    body = json_loadb(text->length > 0 ? text->data : "", text->length,
                      JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
  if (body == NULL) {
    not_json(&why, errno == ENOMEM, error);
    return NULL;
  }
  if (!json_is_object(body)) {
    json_decref(body);
    lls_api_fail(error, 400, "invalid_json", NULL,
                 "the request body must be a JSON object");
    return NULL;
  }
  return body;
}

int lls_api_check_open(struct lls_api *api, struct lls_api_error *error)
{
  struct lls_error why = {0};
  if (lls_loop_failed(api->config.loop, &why))
    return lls_api_fail(error, 503, "engine_error", NULL, "the engine failed: %s",
                        why.text);
  if (lls_loop_hangs(api->config.loop, &why)) {
    lls_api_fail(error, 503, "plugin_hangs", NULL, "%s", why.text);
    error->retry_after = lls_api_retry_after(api);
    return -1;
  }
  if (!api->draining)
    return 0;
  lls_api_fail(error, 503, "shutting_down", NULL, "the server is shutting down");
  error->retry_after = lls_api_retry_after(api);
  return -1;
}

/* A place becomes free each time that one of those who run is done. */
unsigned lls_api_retry_after(struct lls_api *api)
{
  struct lls_loop_status status;
  const struct lls_histogram *e2e = &api->stats.inference;
  uint64_t count = lls_histogram_count(e2e);
  lls_loop_status(api->config.loop, &status);
  double mean = count > 0 ? e2e->sum / (double)count : 1;
  double wait = mean / (status.running > 0 ? status.running : 1);
  if (wait > 60)
    return 60;
  return wait > 1 ? (unsigned)(wait + 0.5) : 1;
}

void lls_api_note_unknown(struct lls_api *api, const struct lls_http_exchange *exchange,
                          const struct lls_unknown_names *names)
{
  for (unsigned i = 0; i < names->n; i++) {
    const struct lls_log_field fields[] = {
        {.name = "ignores", .text = names->names[i]},
        {.name = "why", .text = "the parameter is unknown here (said once)"},
    };
    if (lls_unknown_add(&api->unknown, names->names[i]))
      lls_log_request(api->config.log, LLS_LOG_INFO, "api", exchange->id, fields, 2);
  }
}

static void on_unknown(void *context, const char *name)
{
  lls_unknown_add(context, name);
}

int lls_api_read_params(const struct lls_api_config *config, const json_t *body,
                        enum lls_endpoint endpoint, struct lls_unknown_names *unknown,
                        struct lls_api_params *out, struct lls_api_error *error)
{
  const struct lls_params_context context = {
      .endpoint = endpoint,
      .model_name = config->model_name,
      .any_model = config->limits.any_model,
      .tokenizer = config->tokenizer,
      .vocab = config->vocab,
      .defaults = &config->sampling,
      .strict = config->limits.strict_params,
      .on_unknown = on_unknown,
      .on_unknown_context = unknown,
  };
  return lls_api_params_read(body, &context, out, error);
}

void lls_api_decode(const struct lls_api_config *config, const int32_t *ids, size_t count,
                    bool skip_special, struct lls_text *text)
{
  struct lls_detokenizer detokenizer;
  const size_t room = lls_detokenizer_room(config->tokenizer);
  lls_detokenizer_init(&detokenizer, config->tokenizer, skip_special, false);
  for (size_t i = 0; i < count && lls_text_reserve(text, room); i++)
    text->length += lls_detokenizer_push(&detokenizer, ids[i], text->data + text->length);
  if (lls_text_reserve(text, room))
    text->length += lls_detokenizer_flush(&detokenizer, text->data + text->length);
  lls_text_append(text, "", 0); /* for its NUL */
}

/* ---- life ----------------------------------------------------------------------- */

/* FNV-1a of the names and versions that an answer comes from. */
static void make_fingerprint(struct lls_api *api)
{
  const char *const parts[] = {PACKAGE_VERSION, api->model_name};
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    for (const char *c = parts[i]; *c != '\0'; c++)
      hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
  snprintf(api->fingerprint, sizeof api->fingerprint, "fp_%016llx",
           (unsigned long long)hash);
}

/* A server that listens already: what comes from now on is for the api. */
static void take_over(struct lls_api *api, const struct lls_http_config *http)
{
  api->http = api->config.http;
  lls_http_server_hand_over(api->http, http);
  lls_api_set_timer(api);
}

int lls_api_create(const struct lls_api_config *config, struct lls_api **out,
                   struct lls_error *err)
{
  struct lls_api *api = calloc(1, sizeof *api);
  if (api == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  const struct lls_http_config http = {
      .limits = config->limits.http,
      .context = api,
      .on_request = lls_api_on_request,
      .on_answered = lls_api_on_answered,
      .error_body = lls_api_error_body,
      .error_type = "application/json",
  };
  api->config = *config;
  api->keys = config->keys;
  api->created_s = (int64_t)time(NULL);
  lls_api_stats_init(&api->stats, config->max_context);
  lls_api_routes_init(api);
  lls_tenants_init(&api->tenants);
  api->model_name = strdup(config->model_name);
  api->config.model_name = api->model_name;
  api->piece = malloc(lls_detokenizer_room(config->tokenizer));
  int status = -ENOMEM;
  if (api->model_name == NULL || api->piece == NULL)
    lls_fail(err, status, "out of memory");
  else if (config->http != NULL)
    status = 0;
  else
    status = lls_http_server_create(config->uv, &http, &api->http, err);
  if (status != 0) {
    lls_api_destroy(api);
    return status;
  }
  make_fingerprint(api);
  if (config->http != NULL)
    take_over(api, &http);
  *out = api;
  return 0;
}

int lls_api_listen(struct lls_api *api, const char *address, struct lls_error *err)
{
  int status = lls_http_server_listen(api->http, address, err);
  if (status == 0)
    lls_api_set_timer(api);
  return status;
}

const char *lls_api_address(const struct lls_api *api)
{
  return lls_http_server_address(api->http);
}

void lls_api_on_wake(struct lls_api *api)
{
  lls_loop_events(api->config.loop, lls_generation_on_event, api);
  lls_generation_flush(api);
  lls_api_look(api);
}

void lls_api_set_limits(struct lls_api *api, const struct lls_api_limits *limits)
{
  api->config.limits = *limits;
  lls_http_server_set_limits(api->http, &limits->http);
  if (api->has_timer)
    lls_api_set_timer(api);
}

void lls_api_set_keys(struct lls_api *api, const struct lls_api_keyring *keys)
{
  lls_api_keyring_free(&api->keys);
  api->keys = *keys;
}

void lls_api_drain(struct lls_api *api)
{
  api->draining = true;
}

bool lls_api_idle(const struct lls_api *api)
{
  return api->generations == NULL && lls_work_idle(api);
}

void lls_api_check_idle(struct lls_api *api)
{
  if (api->http_closed && lls_work_idle(api))
    api->closed(api->closed_context);
  else if (api->draining && lls_api_idle(api) && api->config.on_idle != NULL)
    api->config.on_idle(api->config.on_idle_context);
}

/* What runs on a thread still has to come back. */
static void on_http_closed(void *context)
{
  struct lls_api *api = context;
  api->http_closed = true;
  lls_api_check_idle(api);
}

static void on_timer_closed(uv_handle_t *handle)
{
  struct lls_api *api = handle->data;
  lls_http_server_close(api->http, on_http_closed, api);
}

void lls_api_close(struct lls_api *api, void (*closed)(void *context), void *context)
{
  api->closed = closed;
  api->closed_context = context;
  if (api->has_timer)
    uv_close((uv_handle_t *)&api->timer, on_timer_closed);
  else
    lls_http_server_close(api->http, on_http_closed, api);
}

void lls_api_destroy(struct lls_api *api)
{
  if (api == NULL)
    return;
  while (api->generations != NULL)
    lls_generation_destroy(api->generations);
  lls_http_server_destroy(api->http);
  lls_unknown_free(&api->unknown);
  lls_api_keyring_free(&api->keys);
  free(api->model_name);
  free(api->piece);
  free(api);
}
