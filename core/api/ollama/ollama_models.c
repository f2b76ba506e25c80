/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/tags, /api/ps and /api/version, POST /api/show: the one model, and what it can
 * do; see ollama.h. */
#include "core/api/ollama/ollama.h"

#include <string.h>
#include <time.h>

#include "config.h"
#include "text/template/template.h"

/* The architecture in names of model_info: clients look for FAMILY.context_length. */
#define FAMILY "llmserve"

static void write_time(int64_t seconds, char *out, size_t size)
{
  struct tm parts;
  time_t when = (time_t)seconds;
  strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&when, &parts));
}

static json_t *details(void)
{
  return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s}", "parent_model", "", "format", "",
                   "family", FAMILY, "families", FAMILY, "parameter_size", "",
                   "quantization_level", "");
}

/* Returns the model as lists have it. Its size is not known here. */
static json_t *listed(const struct lls_api *api)
{
  char when[32];
  write_time(api->created_s, when, sizeof when);
  return json_pack("{s:s, s:s, s:s, s:i, s:s, s:o}", "name", api->model_name, "model",
                   api->model_name, "modified_at", when, "size", 0, "digest",
                   api->fingerprint, "details", details());
}

void lls_handle_ollama_tags(void *context, struct lls_http_exchange *exchange)
{
  lls_api_reply_json(exchange, 200, json_pack("{s:[o]}", "models", listed(context)));
}

/* Answers with the model as one that is never unloaded. */
void lls_handle_ollama_ps(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  json_t *model = listed(api);
  lls_json_put(&model, "size_vram", json_integer(0));
  lls_json_put(&model, "context_length",
               json_integer((json_int_t)api->config.max_context));
  lls_json_put(&model, "expires_at", json_string("2318-01-01T00:00:00Z"));
  lls_api_reply_json(exchange, 200, json_pack("{s:[o]}", "models", model));
}

void lls_handle_ollama_version(void *context, struct lls_http_exchange *exchange)
{
  (void)context;
  lls_api_reply_json(exchange, 200, json_pack("{s:s}", "version", PACKAGE_VERSION));
}

static json_t *capabilities(const struct lls_api_config *config)
{
  json_t *list = json_array();
  if (!config->encoder.is_one)
    lls_json_add(&list, json_string("completion"));
  if (config->pooling.pooling != LLS_POOLING_NONE && !config->encoder.scores_pairs &&
      config->encoder.labels == NULL)
    lls_json_add(&list, json_string("embedding"));
  if (!config->encoder.is_one && config->chat_template != NULL)
    lls_json_add(&list, json_string("tools"));
  if (config->dialect.reasoning != NULL)
    lls_json_add(&list, json_string("thinking"));
  return list;
}

static json_t *shown(const struct lls_api *api)
{
  const struct lls_api_config *config = &api->config;
  const struct lls_chat_template *chat = config->chat_template;
  char when[32];
  write_time(api->created_s, when, sizeof when);
  json_t *info = json_pack("{s:s, s:s, s:I, s:I}", "general.architecture", FAMILY,
                           "general.basename", api->model_name, FAMILY ".context_length",
                           (json_int_t)config->max_context, FAMILY ".vocab_size",
                           (json_int_t)config->vocab);
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:s}", "license", "",
                   "modelfile", "", "parameters", "", "template",
                   chat != NULL ? lls_chat_template_source(chat, false) : "", "system",
                   "", "details", details(), "model_info", info, "capabilities",
                   capabilities(config), "modified_at", when);
}

/* Checks the name of the model, under both of its names. Returns 0, or -1 with *error
 * set. */
static int read_name(const struct lls_api *api, const json_t *body,
                     struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  struct lls_api_params params;
  json_t *form = json_object(), *name = json_object_get(body, "model");
  if (name == NULL)
    name = json_object_get(body, "name");
  const json_t *verbose = json_object_get(body, "verbose");
  if (name == NULL) {
    json_decref(form);
    return lls_api_fail(error, 400, NULL, "model", "'model' is missing");
  }
  if (verbose != NULL && !json_is_boolean(verbose) && !json_is_null(verbose)) {
    json_decref(form);
    return lls_api_fail(error, 400, NULL, "verbose", "'verbose' must be true or false");
  }
  json_object_set(form, "model", name);
  int status = lls_ollama_common(form, unknown, error);
  if (status == 0)
    status =
        lls_api_read_params(&api->config, form, LLS_DETOKENIZE, unknown, &params, error);
  if (status == 0)
    lls_api_params_free(&params);
  json_decref(form);
  return status;
}

void lls_handle_ollama_show(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_unknown_names unknown = {0};
  struct lls_api_error error;
  json_t *body = lls_api_body(&exchange->request.body, &error);
  int status = body != NULL ? read_name(api, body, &unknown, &error) : -1;
  if (status == 0 && json_is_true(json_object_get(body, "verbose")))
    lls_unknown_add(&unknown, "verbose");
  lls_api_note_unknown(api, exchange, &unknown);
  if (status == 0)
    lls_api_reply_json(exchange, 200, shown(api));
  else
    lls_api_reply_json(exchange, error.status, lls_ollama_error(&error));
  lls_unknown_free(&unknown);
  json_decref(body);
}
