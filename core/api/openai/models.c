/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/models, /v1/models/{id}, /version and /load; and POST /models/load and unload
 * where there is one model (core/routing has them for several). */
#include <string.h>

#include "config.h"
#include "core/api/api_internal.h"
#include "core/lora/lora_set.h"

/* root: of an adapter its path, as vLLM has it; parent: its model, or NULL. */
static json_t *entry_json(const struct lls_api *api, const char *name, int64_t created_s,
                          const char *root, const char *parent)
{
  return json_pack("{s:s, s:s, s:I, s:s, s:s, s:s?, s:I, s:[]}", "id", name, "object",
                   "model", "created", (json_int_t)created_s, "owned_by", "llmserve",
                   "root", root, "parent", parent, "max_model_len",
                   (json_int_t)api->config.max_context, "permission");
}

static json_t *model_json(const struct lls_api *api)
{
  return entry_json(api, api->model_name, api->created_s, api->model_name, NULL);
}

static json_t *adapter_json(const struct lls_api *api, const struct lls_adapter *a)
{
  return entry_json(api, a->name, a->created_s, a->path, api->model_name);
}

struct listing {
  const struct lls_api *api;
  json_t *list;
};

static void add_adapter(void *context, const struct lls_adapter *adapter, bool loaded,
                        uint32_t users)
{
  const struct listing *l = context;
  (void)loaded;
  (void)users;
  json_array_append_new(l->list, adapter_json(l->api, adapter));
}

void lls_handle_models(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  struct listing l = {api, json_pack("[o]", model_json(api))};
  if (l.list != NULL && api->config.adapters != NULL)
    lls_lora_set_each(api->config.adapters, add_adapter, &l);
  lls_api_reply_json(exchange, 200,
                     json_pack("{s:s, s:o}", "object", "list", "data", l.list));
}

void lls_handle_model(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  struct lls_api_error error;
  if (strcmp(exchange->request.tail, api->model_name) == 0) {
    lls_api_reply_json(exchange, 200, model_json(api));
    return;
  }
  struct lls_adapter *adapter =
      api->config.adapters != NULL
          ? lls_lora_set_find(api->config.adapters, exchange->request.tail)
          : NULL;
  if (adapter != NULL) {
    lls_api_reply_json(exchange, 200, adapter_json(api, adapter));
    lls_adapter_unref(adapter);
    return;
  }
  lls_api_fail(&error, 404, "model_not_found", "model",
               "the model \"%.100s\" does not exist here; this server has \"%s\"",
               exchange->request.tail, api->model_name);
  lls_api_error_reply(exchange, &error);
}

void lls_handle_version(void *context, struct lls_http_exchange *exchange)
{
  (void)context;
  lls_api_reply_json(exchange, 200, json_pack("{s:s}", "version", PACKAGE_VERSION));
}

/* Answers with the number of unfinished requests, as vLLM counts them. */
void lls_handle_load(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  lls_api_reply_json(exchange, 200,
                     json_pack("{s:I}", "server_load", (json_int_t)api->stats.live));
}

static void refuse_change(const struct lls_api *api, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  lls_api_fail(&error, 400, "one_model", NULL,
               "this server has one model, \"%s\", which stays loaded: [models] in its "
               "configuration makes it serve several",
               api->model_name);
  lls_api_error_reply(exchange, &error);
}

void lls_handle_model_load(void *context, struct lls_http_exchange *exchange)
{
  refuse_change(context, exchange);
}

void lls_handle_model_unload(void *context, struct lls_http_exchange *exchange)
{
  refuse_change(context, exchange);
}
