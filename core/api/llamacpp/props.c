/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /props and /slots of llama.cpp: what a client may know of the
 * model, and how busy the server is. This server has no slots: a place in a step
 * ([engine] max_sequences) stands for one, and shows nothing of the request in it.
 */
#include "core/api/llamacpp/llamacpp.h"

#include <string.h>

#include "config.h"
#include "core/config/config.h"
#include "text/template/template.h"

#define NO_SLOT "fail_on_no_slot=1"

static int64_t n_slots(const struct lls_api *api)
{
  const struct lls_admin_state *state = api->config.admin.state;
  return state != NULL ? state->config->engine.max_sequences : 1;
}

/* Returns the settings of a request that sets none; null if the model makes no text. */
static json_t *default_settings(const struct lls_api *api)
{
  struct lls_unknown_names unknown = {0};
  struct lls_api_params params;
  struct lls_api_error error;
  json_t *nothing = json_object(), *settings = json_null();
  if (nothing != NULL && lls_api_read_params(&api->config, nothing, LLS_COMPLETIONS,
                                             &unknown, &params, &error) == 0) {
    settings = lls_llamacpp_settings(api, &params);
    lls_api_params_free(&params);
  }
  lls_unknown_free(&unknown);
  json_decref(nothing);
  return settings;
}

static json_t *token_json(const struct lls_tokenizer *tokenizer, int32_t id)
{
  size_t length = 0;
  const char *text = id >= 0 ? lls_tokenizer_string(tokenizer, id, &length) : NULL;
  return json_stringn(text != NULL ? text : "", length);
}

static json_t *slot(const struct lls_api *api, int64_t index, bool busy)
{
  return json_pack("{s:I, s:I, s:b, s:b}", "id", (json_int_t)index, "n_ctx",
                   (json_int_t)api->config.max_context, "speculative", 0, "is_processing",
                   (int)busy);
}

void lls_handle_props(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  const struct lls_api_config *config = &api->config;
  const struct lls_chat_template *chat = config->chat_template;
  json_t *defaults = slot(api, 0, false);
  lls_json_put(&defaults, "params", default_settings(api));
  json_t *props = json_pack(
      "{s:o, s:I, s:s, s:s, s:{s:b, s:b}, s:s, s:o, s:o, s:s, s:b}",
      "default_generation_settings", defaults, "total_slots", (json_int_t)n_slots(api),
      "model_alias", api->model_name, "model_path", api->model_name, "modalities",
      "vision", 0, "audio", 0, "chat_template",
      chat != NULL ? lls_chat_template_source(chat, false) : "", "bos_token",
      token_json(config->tokenizer, lls_tokenizer_bos(config->tokenizer)), "eos_token",
      token_json(config->tokenizer, lls_tokenizer_eos(config->tokenizer)), "build_info",
      "llmserve-" PACKAGE_VERSION, "is_sleeping", 0);
  lls_api_reply_json(exchange, 200, props);
}

void lls_handle_slots(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  struct lls_loop_status status;
  lls_loop_status(api->config.loop, &status);
  int64_t total = n_slots(api), busy = status.running;
  if (busy >= total && strstr(exchange->request.query, NO_SLOT) != NULL) {
    struct lls_api_error error;
    lls_api_fail(&error, 503, "no_slot", NULL, "all %lld places are taken",
                 (long long)total);
    lls_api_error_reply(exchange, &error);
    return;
  }
  json_t *slots = json_array();
  for (int64_t i = 0; i < total; i++)
    lls_json_add(&slots, slot(api, i, i < busy));
  lls_api_reply_json(exchange, 200, slots);
}
