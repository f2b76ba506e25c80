/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /inference/v1/generate, vLLM's endpoint for servers in front of it that tokenise
 * themselves: ids in, ids out. A body is converted to one of /v1/completions:
 *
 *   token_ids --> prompt;   sampling_params --> its members;   the rest stays
 */
#include <string.h>

#include "core/api/openai/wire.h"

/* Returns the form with the members of "sampling_params" and of the body, a new
 * reference; or NULL with *error set. */
static json_t *merged(json_t *body, struct lls_api_error *error)
{
  json_t *ids = json_object_get(body, "token_ids");
  json_t *sampling = json_object_get(body, "sampling_params");
  if (!json_is_array(ids) || json_array_size(ids) == 0 ||
      !json_is_integer(json_array_get(ids, 0))) {
    lls_api_fail(error, 400, NULL, "token_ids", "'token_ids' must be an array of ids");
    return NULL;
  }
  if (sampling != NULL && !json_is_object(sampling) && !json_is_null(sampling)) {
    lls_api_fail(error, 400, NULL, "sampling_params",
                 "'sampling_params' must be an object");
    return NULL;
  }
  json_t *form = json_is_object(sampling) ? json_copy(sampling) : json_object();
  json_object_update(form, body);
  json_object_del(form, "token_ids");
  json_object_del(form, "sampling_params");
  json_object_set(form, "prompt", ids);
  return form;
}

static json_t *translate(json_t *body, const struct lls_past *past, void **state,
                         struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  static const char *const fixed[] = {"echo",
                                      "return_token_ids",
                                      "return_tokens_as_token_ids",
                                      "timings_per_token",
                                      "return_progress",
                                      NULL};
  (void)past;
  (void)state;
  json_t *form = merged(body, error);
  if (form == NULL)
    return NULL;
  lls_unknown_drop(unknown, form, fixed);
  json_object_set_new(form, "return_token_ids", json_true());
  json_object_set_new(form, "return_tokens_as_token_ids", json_true());
  return form;
}

static void rename_param(struct lls_api_error *error)
{
  if (strcmp(error->param, "prompt") == 0)
    strcpy(error->param, "token_ids");
}

static int read_ids(const struct lls_api_config *config, const json_t *body,
                    const struct lls_api_params *params,
                    struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  return lls_prompts_read(config, json_object_get(body, "prompt"), "token_ids", params,
                          prompts, error);
}

static json_t *choice_json(const struct lls_choice *choice)
{
  json_t *object = json_pack("{s:i}", "index", (int)choice->index);
  lls_wire_put_end(&object, choice, lls_wire_chat_logprobs(choice));
  lls_wire_put_token_ids(&object, choice);
  return object;
}

static json_t *envelope(const struct lls_generation *generation, json_t *choices)
{
  return json_pack("{s:s, s:o}", "request_id", generation->id, "choices", choices);
}

static json_t *chunk(struct lls_choice *choice)
{
  json_t *events = json_array();
  if (choice->n_unreported == 0 && choice->finish_reason == NULL)
    return events;
  json_t *object = envelope(choice->generation, json_pack("[o]", choice_json(choice)));
  lls_wire_put_usage(&object, choice, choice->n_tokens);
  lls_json_add(&events, object);
  return events;
}

static json_t *end(const struct lls_generation *generation)
{
  json_t *events = json_array();
  if (!generation->params.include_usage)
    return events;
  json_t *object = envelope(generation, json_array());
  lls_json_put(&object, "usage", lls_wire_usage(generation));
  lls_json_add(&events, object);
  return events;
}

static json_t *whole(const struct lls_generation *generation)
{
  json_t *choices = json_array();
  bool scored = generation->params.prompt_logprobs != LLS_UNSET;
  for (uint32_t i = 0; i < generation->n_choices; i++)
    lls_json_add(&choices, choice_json(&generation->choices[i]));
  json_t *object = envelope(generation, choices);
  lls_json_put(&object, "prompt_logprobs",
               scored ? lls_wire_prompt_logprobs(&generation->choices[0]) : json_null());
  lls_json_put(&object, "kv_transfer_params", json_null());
  lls_json_put(&object, "usage", lls_wire_usage(generation));
  return object;
}

static const struct lls_body_member members[] = {
    {"token_ids", "array", true},
    {"sampling_params", "object", false},
    {"prompt", NULL, false},
    {"echo", NULL, false},
    {"return_token_ids", NULL, false},
    {"return_tokens_as_token_ids", NULL, false},
    {"timings_per_token", NULL, false},
    {"return_progress", NULL, false},
    {NULL, NULL, false}};

const struct lls_dialect lls_token_generation = {
    .id_prefix = "generate-tokens-",
    .members = members,
    .params_of = LLS_COMPLETIONS,
    .framing = &lls_framing_data,
    .translate = translate,
    .rename = rename_param,
    .read_prompts = read_ids,
    .whole = whole,
    .chunk = chunk,
    .end = end,
    .failure = lls_wire_failure,
    .error = lls_api_error_json,
};
