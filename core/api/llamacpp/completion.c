/* SPDX-License-Identifier: Apache-2.0 */
/* POST /completion: converts llama.cpp's request to a completion; see llamacpp.h. */
#include "core/api/llamacpp/llamacpp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANDOM_SEED UINT32_MAX /* llama.cpp's name for a random seed, like -1 */

/* llama.cpp's names of parameters that completions have under others. */
static const char *const renamed[][2] = {{"repeat_penalty", "repetition_penalty"},
                                         {"return_tokens", "return_token_ids"},
                                         {"n_probs", "logprobs"},
                                         {"n_cmpl", "n"}};
#define N_RENAMED (sizeof renamed / sizeof *renamed)

static int refuse(struct lls_api_error *error, const char *name, const char *why)
{
  return lls_api_fail(error, 400, "unsupported_parameter", name, "'%s' %s", name, why);
}

/* ---- the prompt -------------------------------------------------------------------- */

/* Returns a prompt, a new reference: the text of an object that could also have images.
 */
static json_t *plain_prompt(json_t *prompt, struct lls_api_error *error)
{
  if (!json_is_object(prompt))
    return json_incref(prompt);
  json_t *text = json_object_get(prompt, "prompt_string");
  const json_t *media = json_object_get(prompt, "multimodal_data");
  if (json_is_string(text) && (media == NULL || json_array_size(media) == 0) &&
      !json_is_string(media))
    return json_incref(text);
  refuse(error, "prompt",
         "has an object that is no text: \"prompt_string\" alone is possible, since this "
         "model reads text only");
  return NULL;
}

/* Replaces the objects of a prompt, or of a list of prompts, by their texts. */
static int set_prompt(json_t *form, struct lls_api_error *error)
{
  size_t i;
  json_t *item, *given = json_object_get(form, "prompt");
  if (json_is_object(given)) {
    json_t *text = plain_prompt(given, error);
    return text != NULL ? json_object_set_new(form, "prompt", text) : -1;
  }
  if (!json_is_array(given))
    return 0;
  json_t *list = json_array();
  json_array_foreach(given, i, item)
  {
    json_t *text = plain_prompt(item, error);
    if (text == NULL) {
      json_decref(list);
      return -1;
    }
    json_array_append_new(list, text);
  }
  json_object_set_new(form, "prompt", list);
  return 0;
}

/* ---- the rest ---------------------------------------------------------------------- */

static bool is_number(const json_t *form, const char *name, double value)
{
  const json_t *given = json_object_get(form, name);
  return json_is_number(given) && json_number_value(given) == value;
}

/* Removes what has its effect without a parameter of ours: a value that asks for what is
 * done anyway, and empty stop strings. */
static void drop_neutral(json_t *form)
{
  size_t i;
  json_t *stop = json_object_get(form, "stop"), *item;
  if (is_number(form, "id_slot", -1))
    json_object_del(form, "id_slot");
  if (is_number(form, "n_probs", 0))
    json_object_del(form, "n_probs");
  if (is_number(form, "seed", RANDOM_SEED))
    json_object_set_new(form, "seed", json_integer(-1));
  const json_t *temperature = json_object_get(form, "temperature");
  if (json_is_number(temperature) && json_number_value(temperature) < 0)
    json_object_set_new(form, "temperature", json_integer(0));
  json_t *kept = json_is_array(stop) ? json_array() : NULL;
  json_array_foreach(stop, i, item)
  {
    if (!json_is_string(item) || json_string_length(item) > 0)
      json_array_append(kept, item);
  }
  if (kept != NULL)
    json_object_set_new(form, "stop", kept);
}

/* Makes pairs of an object of biases: here, its keys may be texts. */
static void pair_biases(json_t *form)
{
  const char *key;
  json_t *bias, *given = json_object_get(form, "logit_bias");
  if (!json_is_object(given))
    return;
  json_t *pairs = json_array();
  json_object_foreach(given, key, bias)
  {
    char *end;
    long token = strtol(key, &end, 10);
    bool is_id = end != key && *end == '\0';
    lls_json_add(&pairs, json_pack("[o, O]",
                                   is_id ? json_integer(token) : json_string(key), bias));
  }
  json_object_set_new(form, "logit_bias", pairs);
}

/* Refuses parameters that would change the answer and are not supported. */
static int check_supported(const json_t *form, struct lls_api_error *error)
{
  const json_t *n_predict = json_object_get(form, "n_predict");
  const json_t *most = json_object_get(form, "t_max_predict_ms");
  const json_t *indent = json_object_get(form, "n_indent");
  if (json_is_integer(n_predict) && json_integer_value(n_predict) == 0)
    return refuse(error, "n_predict", "must be at least 1, or -1");
  if (json_is_number(most) && json_number_value(most) > 0)
    return refuse(error, "t_max_predict_ms", "is not supported: use 'n_predict'");
  if (json_is_number(indent) && json_number_value(indent) > 0)
    return refuse(error, "n_indent", "is not supported");
  return 0;
}

/* Gives a request that wants no cached prefix a salt of its own. */
static void set_salt(json_t *form)
{
  char fresh[LLS_ID_BYTES];
  const json_t *cache = json_object_get(form, "cache_prompt");
  if (json_is_false(cache) && json_object_get(form, "cache_salt") == NULL) {
    lls_api_new_id(fresh);
    json_object_set_new(form, "cache_salt", json_string(fresh));
  }
  if (json_is_boolean(cache))
    json_object_del(form, "cache_prompt");
}

/* Removes members that completions have and /completion does not, and reports them. */
static void drop_foreign(json_t *form, struct lls_unknown_names *unknown)
{
  static const char *const names[] = {"logprobs",
                                      "echo",
                                      "prompt_logprobs",
                                      "stream_options",
                                      "return_token_ids",
                                      "return_tokens_as_token_ids",
                                      "messages",
                                      "repetition_penalty",
                                      NULL};
  lls_unknown_drop(unknown, form, names);
}

static void rename_members(json_t *form)
{
  for (size_t i = 0; i < N_RENAMED; i++) {
    json_t *value = json_object_get(form, renamed[i][0]);
    if (value == NULL)
      continue;
    json_object_set(form, renamed[i][1], value);
    json_object_del(form, renamed[i][0]);
  }
}

void lls_llamacpp_rename(struct lls_api_error *error)
{
  for (size_t i = 0; i < N_RENAMED; i++)
    if (strcmp(error->param, renamed[i][1]) == 0)
      snprintf(error->param, sizeof error->param, "%s", renamed[i][0]);
}

/* Takes response_fields out of the form. */
static int take_fields(json_t *form, struct lls_llamacpp_answer *answer,
                       struct lls_api_error *error)
{
  static const char name[] = "response_fields";
  size_t i;
  json_t *item, *fields = json_object_get(form, name);
  if (fields != NULL && !json_is_null(fields) && !json_is_array(fields))
    return lls_api_fail(error, 400, NULL, name, "'%s' must be an array of strings", name);
  json_array_foreach(fields, i, item)
  {
    if (!json_is_string(item))
      return lls_api_fail(error, 400, NULL, name, "'%s' must be an array of strings",
                          name);
  }
  if (i > 0)
    answer->fields = json_incref(fields);
  json_object_del(form, name);
  return 0;
}

/* The events of a stream have the ids of their tokens, wanted or not. A stream has no
 * end but that of the answer, so an absent n_predict is -1. */
static void set_defaults(json_t *form)
{
  if (json_object_get(form, "n_predict") == NULL &&
      json_object_get(form, "max_tokens") == NULL)
    json_object_set_new(form, "n_predict", json_integer(-1));
  if (json_is_true(json_object_get(form, "stream")))
    json_object_set_new(form, "return_token_ids", json_true());
}

json_t *lls_llamacpp_translate(json_t *body, const struct lls_past *past, void **state,
                               struct lls_unknown_names *unknown,
                               struct lls_api_error *error)
{
  (void)past;
  json_t *form = json_copy(body);
  struct lls_llamacpp_answer *answer = calloc(1, sizeof *answer);
  if (form == NULL || answer == NULL) {
    lls_api_fail(error, 503, NULL, NULL, "out of memory");
    goto fail;
  }
  drop_foreign(form, unknown);
  if (set_prompt(form, error) != 0 || check_supported(form, error) != 0 ||
      take_fields(form, answer, error) != 0)
    goto fail;
  drop_neutral(form);
  pair_biases(form);
  set_salt(form);
  rename_members(form);
  set_defaults(form);
  *state = answer;
  return form;
fail:
  json_decref(form);
  lls_llamacpp_free(answer);
  return NULL;
}

static int read_prompts(const struct lls_api_config *config, const json_t *body,
                        const struct lls_api_params *params,
                        struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  return lls_prompts_read(config, json_object_get(body, "prompt"), "prompt", params,
                          prompts, error);
}

static const struct lls_body_member members[] = {
    {"prompt", "string|array|object", true},
    {"n_probs", "integer", false},
    {"repeat_penalty", "number", false},
    {"return_tokens", "boolean", false},
    {"n_cmpl", "integer", false},
    {"cache_prompt", "boolean", false},
    {"response_fields", "array", false},
    {"logprobs", NULL, false},
    {"echo", NULL, false},
    {"prompt_logprobs", NULL, false},
    {"stream_options", NULL, false},
    {"return_token_ids", NULL, false},
    {"return_tokens_as_token_ids", NULL, false},
    {"repetition_penalty", NULL, false},
    {NULL, NULL, false}};

const struct lls_dialect lls_llamacpp_completion = {
    .cuts_answers = true,
    .id_prefix = "cmpl-",
    .members = members,
    .params_of = LLS_COMPLETIONS,
    .framing = &lls_framing_unended,
    .translate = lls_llamacpp_translate,
    .rename = lls_llamacpp_rename,
    .read_prompts = read_prompts,
    .whole = lls_llamacpp_whole,
    .chunk = lls_llamacpp_chunk,
    .progress = lls_llamacpp_progress,
    .end = lls_llamacpp_end,
    .failure = lls_llamacpp_failure,
    .error = lls_llamacpp_error,
    .free_state = lls_llamacpp_free,
};
