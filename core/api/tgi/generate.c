/* SPDX-License-Identifier: Apache-2.0 */
/* POST /generate, /generate_stream and POST /: converts TGI's request to a completion;
 * see tgi.h. */
#include "core/api/tgi/tgi.h"

#include "config.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_TOKENS 100

/* TGI samples only if the request asks for it in one of these ways; otherwise it takes
 * the most likely token. */
static bool samples(const json_t *parameters)
{
  static const char *const names[] = {"temperature", "top_k", "top_p", "typical_p"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const json_t *value = json_object_get(parameters, names[i]);
    if (value != NULL && !json_is_null(value))
      return true;
  }
  return json_is_true(json_object_get(parameters, "do_sample"));
}

/* Removes a flag of the form and returns its value. */
static bool take_flag(json_t *form, const char *name)
{
  bool value = json_is_true(json_object_get(form, name));
  json_object_del(form, name);
  return value;
}

/* Gives a member of the form another name. */
static void move_member(json_t *form, const char *from, const char *to)
{
  json_t *value = json_object_get(form, from);
  if (value != NULL && !json_is_null(value))
    json_object_set(form, to, value);
  json_object_del(form, from);
}

/* Changes the parameters, which the form consists of, to a completion's. */
static int convert(json_t *form, struct lls_tgi_answer *answer, bool stream,
                   struct lls_api_error *error)
{
  bool sampled = samples(form);
  if (take_flag(form, "decoder_input_details"))
    return lls_api_fail(error, 400, "unsupported_parameter", "decoder_input_details",
                        "'decoder_input_details' is not supported: /v1/completions has "
                        "'prompt_logprobs'");
  answer->details = take_flag(form, "details");
  answer->full = take_flag(form, "return_full_text");
  json_object_del(form, "do_sample");
  if (!sampled)
    json_object_set_new(form, "temperature", json_integer(0));
  move_member(form, "truncate", "truncate_prompt_tokens");
  move_member(form, "grammar", "response_format");
  move_member(form, "top_n_tokens", "logprobs");
  if (json_object_get(form, "logprobs") == NULL && (answer->details || stream))
    json_object_set_new(form, "logprobs", json_integer(0));
  const json_t *most = json_object_get(form, "max_new_tokens");
  if (most == NULL || json_is_null(most))
    json_object_set_new(form, "max_new_tokens", json_integer(DEFAULT_TOKENS));
  if (stream)
    json_object_set_new(form, "stream", json_true());
  return 0;
}

/* Returns the form with its members from the body and from "parameters", a new reference;
 * or NULL with *error set. */
static json_t *merged(json_t *body, struct lls_api_error *error)
{
  json_t *parameters = json_object_get(body, "parameters");
  json_t *inputs = json_object_get(body, "inputs");
  if (!json_is_string(inputs)) {
    lls_api_fail(error, 400, NULL, "inputs", "'inputs' must be a string");
    return NULL;
  }
  if (parameters != NULL && !json_is_object(parameters) && !json_is_null(parameters)) {
    lls_api_fail(error, 400, NULL, "parameters", "'parameters' must be an object");
    return NULL;
  }
  json_t *form = json_copy(body);
  json_object_del(form, "inputs");
  json_object_del(form, "parameters");
  json_object_del(form, "stream");
  json_object_update(form, parameters);
  json_object_set(form, "prompt", inputs);
  return form;
}

static json_t *translate(json_t *body, bool stream, bool in_list, void **state,
                         struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  static const char *const foreign[] = {"n",
                                        "echo",
                                        "logprobs",
                                        "prompt_logprobs",
                                        "response_format",
                                        "return_token_ids",
                                        "return_tokens_as_token_ids",
                                        "stream",
                                        "stream_options",
                                        "timings_per_token",
                                        "return_progress",
                                        "logprob_token_ids",
                                        NULL};
  json_t *form = merged(body, error);
  if (form == NULL)
    return NULL;
  lls_unknown_drop(unknown, form, foreign);
  struct lls_tgi_answer *answer = calloc(1, sizeof *answer);
  if (answer == NULL) {
    lls_api_fail(error, 503, NULL, NULL, "out of memory");
    json_decref(form);
    return NULL;
  }
  answer->in_list = in_list;
  answer->last = -1;
  if (convert(form, answer, stream, error) == 0) {
    *state = answer;
    return form;
  }
  lls_tgi_free(answer);
  json_decref(form);
  return NULL;
}

static json_t *translate_whole(json_t *body, const struct lls_past *past, void **state,
                               struct lls_unknown_names *unknown,
                               struct lls_api_error *error)
{
  (void)past;
  return translate(body, false, false, state, unknown, error);
}

static json_t *translate_stream(json_t *body, const struct lls_past *past, void **state,
                                struct lls_unknown_names *unknown,
                                struct lls_api_error *error)
{
  (void)past;
  return translate(body, true, false, state, unknown, error);
}

static json_t *translate_root(json_t *body, const struct lls_past *past, void **state,
                              struct lls_unknown_names *unknown,
                              struct lls_api_error *error)
{
  (void)past;
  bool stream = json_is_true(json_object_get(body, "stream"));
  return translate(body, stream, true, state, unknown, error);
}

static int read_inputs(const struct lls_api_config *config, const json_t *body,
                       const struct lls_api_params *params,
                       struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  return lls_prompts_read(config, json_object_get(body, "prompt"), "inputs", params,
                          prompts, error);
}

static const struct lls_body_member members[] = {{"inputs", "string", true},
                                                 {"parameters", "object", false},
                                                 {"stream", "boolean", false},
                                                 {NULL, NULL, false}};

#define TGI_DIALECT                                                                      \
  .id_prefix = "tgi-", .members = members, .alone = true, .params_of = LLS_COMPLETIONS,  \
  .framing = &lls_framing_unended, .read_prompts = read_inputs, .whole = lls_tgi_whole,  \
  .chunk = lls_tgi_chunk, .end = lls_tgi_end, .failure = lls_tgi_failure,                \
  .error = lls_tgi_error, .free_state = lls_tgi_free

const struct lls_dialect lls_tgi_generate = {.translate = translate_whole, TGI_DIALECT};
const struct lls_dialect lls_tgi_stream = {.translate = translate_stream, TGI_DIALECT};
const struct lls_dialect lls_tgi_root = {.translate = translate_root, TGI_DIALECT};

/* GET /info, as far as it is known here; clients read the limits. */
void lls_handle_tgi_info(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  json_int_t most = (json_int_t)api->config.max_context;
  lls_api_reply_json(exchange, 200,
                     json_pack("{s:s, s:n, s:I, s:I, s:I, s:i, s:s, s:s}", "model_id",
                               api->model_name, "model_sha", "max_input_tokens",
                               most > 1 ? most - 1 : most, "max_input_length",
                               most > 1 ? most - 1 : most, "max_total_tokens", most,
                               "max_stop_sequences", 16, "version", PACKAGE_VERSION,
                               "router", "llmserve"));
}
