/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, drains and destroys the front end; routes.c has its paths. */
#include "core/api/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "core/api/accounts.h"
#include "core/api/generation.h"
#include "core/api/responses/detached.h"
#include "core/api/store/store_front.h"
#include "core/api/work.h"

/* Sets the fingerprint: FNV-1a of llmserve's version and the model's name. llama-server's
 * begins with b and the number of its build, which clients look for. */
static void make_fingerprint(struct lls_api *api)
{
  const char *const parts[] = {PACKAGE_VERSION, api->model_name};
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    for (const char *c = parts[i]; *c != '\0'; c++)
      hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
  snprintf(api->fingerprint, sizeof api->fingerprint, "%s%016llx",
           api->config.limits.llamacpp ? "b0-" : "fp_", (unsigned long long)hash);
}

/* For debugging only, since every client could fill the log with it. */
static void on_tls_failed(void *context, const char *peer, const char *why)
{
  const struct lls_api *api = context;
  lls_log(api->config.log, LLS_LOG_DEBUG, "tls", "%s: %s", peer, why);
}

/* Takes over a server that is already listening: the api handles its requests from now
 * on. */
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
      .on_head = lls_api_on_head,
      .on_answered = lls_api_on_answered,
      .on_over = lls_api_on_over,
      .error_body = lls_api_error_body,
      .error_type = "application/json",
      .on_tls_failed = on_tls_failed,
  };
  api->config = *config;
  api->thread = lls_this_thread();
  api->keys = config->keys;
  api->created_s = (int64_t)time(NULL);
  lls_api_stats_init(&api->stats, config->max_context);
  lls_api_routes_init(api);
  lls_tenants_init(&api->tenants);
  api->model_name = strdup(config->model_name);
  api->config.model_name = api->model_name;
  if (config->replica != NULL)
    snprintf(api->replica, sizeof api->replica, "%s", config->replica);
  api->config.replica = api->replica;
  lls_tool_dialect_complete(&api->config.dialect, config->chat_template);
  if (api->config.dialect.hides_tools)
    lls_log(
        config->log, LLS_LOG_INFO, "model",
        "the chat template has no part for tools: where a request has some, a message "
        "describes them, and calls are read as %s writes them ([model] tool_format)",
        lls_tool_format_written(api->config.dialect.format)->name);
  bool has_model = config->tokenizer != NULL; /* else there is a router */
  api->piece = malloc(has_model ? lls_detokenizer_room(config->tokenizer) : 1);
  int status = -ENOMEM;
  if (api->model_name == NULL || api->piece == NULL)
    lls_fail(err, status, "out of memory");
  else if (config->http != NULL)
    status = 0;
  else
    status = lls_http_server_create(config->uv, &http, &api->http, err);
  if (status == 0 && config->state != NULL && config->state[0] != '\0')
    status = lls_store_front_open(api, config->state, err);
  if (status == 0)
    status = lls_kv_events_open(api, err);
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
  LLS_API_ON_MAIN(api);
  int status = lls_http_server_listen(api->http, address, err);
  if (status == 0)
    lls_api_set_timer(api);
  return status;
}

void lls_api_on_wake(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  lls_loop_events(api->config.loop, lls_generation_on_event, api);
  lls_generation_flush(api);
  lls_kv_events_feed(api);
  if (lls_api_look(api)) {
    lls_viewers_show(api);
    lls_api_begin_look(api);
  }
  lls_store_front_feed(api);
}

void lls_api_set_limits(struct lls_api *api, const struct lls_api_limits *limits)
{
  LLS_API_ON_MAIN(api);
  api->config.limits = *limits;
  lls_http_server_set_limits(api->http, &limits->http);
  if (api->has_timer)
    lls_api_set_timer(api);
}

void lls_api_set_drafts(struct lls_api *api, bool drafts)
{
  LLS_API_ON_MAIN(api);
  api->config.drafts = drafts;
}

void lls_api_set_context(struct lls_api *api, uint32_t max_context)
{
  LLS_API_ON_MAIN(api);
  api->config.max_context = max_context;
}

void lls_api_set_keys(struct lls_api *api, const struct lls_api_keyring *keys)
{
  LLS_API_ON_MAIN(api);
  lls_api_keyring_free(&api->keys);
  api->keys = *keys;
}

void lls_api_drain(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  api->draining = true;
  lls_store_front_drain(api);
  lls_viewers_end(api);
  lls_kv_events_end(api);
}

void lls_api_last_call(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  lls_held_refusals_end(api);
}

bool lls_api_idle(const struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  return api->generations == NULL && lls_work_idle(api);
}

static void tell_closed(struct lls_api *api)
{
  api->closed(api->closed_context);
}

static void close_store(struct lls_api *api)
{
  lls_store_front_close(api, tell_closed);
}

/* HTTP is closed, but work may still run on threads. */
static void on_http_closed(void *context)
{
  struct lls_api *api = context;
  LLS_CHECK(!api->http_closed);
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
  LLS_API_ON_MAIN(api);
  LLS_CHECK(api->closed == NULL);
  lls_held_refusals_end(api);
  api->nothing_left = close_store;
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
  LLS_API_ON_MAIN(api);
  api->http_closed = true; /* from here on no work is given to the pool's threads */
  while (api->generations != NULL)
    lls_generation_destroy(api->generations);
  lls_kv_events_close(api);
  lls_background_free(api);
  lls_store_front_free(api);
  lls_http_server_destroy(api->http);
  lls_accounts_free(api);
  lls_unknown_free(&api->unknown);
  lls_api_keyring_free(&api->keys);
  free(api->model_name);
  free(api->openapi);
  free(api->piece);
  free(api);
}
