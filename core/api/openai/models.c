/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/models, /v1/models/{id}, /version and /load. */
#include <string.h>

#include "config.h"
#include "core/api/api_internal.h"

static json_t *model_json(const struct lls_api *api)
{
  return json_pack("{s:s, s:s, s:I, s:s, s:s, s:n, s:I, s:[]}", "id", api->model_name,
                   "object", "model", "created", (json_int_t)api->created_s, "owned_by",
                   "llmserve", "root", api->model_name, "parent", "max_model_len",
                   (json_int_t)api->config.max_context, "permission");
}

void lls_handle_models(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  lls_api_reply_json(
      exchange, 200,
      json_pack("{s:s, s:[o]}", "object", "list", "data", model_json(api)));
}

void lls_handle_model(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  struct lls_api_error error;
  if (strcmp(exchange->request.tail, api->model_name) == 0) {
    lls_api_reply_json(exchange, 200, model_json(api));
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
