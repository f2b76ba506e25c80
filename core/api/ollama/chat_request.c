/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/chat and /api/generate: converts the request to a chat, or a raw one to a
 * completion; see ollama.h. */
#include "core/api/ollama/ollama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/chat.h"
#include "core/api/params_internal.h"

static int unsupported(struct lls_api_error *error, const char *name, const char *why)
{
  return lls_api_fail(error, 400, "unsupported_parameter", name,
                      "'%s' is not supported: %s", name, why);
}

/* Returns true if the value asks for something. */
static bool is_given(const json_t *value)
{
  return value != NULL && !lls_param_asks_nothing(value);
}

/* ---- options ----------------------------------------------------------------------- */

/* Options that are parameters here, and their names. tfs_z, which this server lacks, is
 * refused as a parameter, unless it is neutral. */
static const char *const options[][2] = {{"num_predict", "max_tokens"},
                                         {"repeat_penalty", "repetition_penalty"},
                                         {"temperature", "temperature"},
                                         {"top_k", "top_k"},
                                         {"top_p", "top_p"},
                                         {"min_p", "min_p"},
                                         {"seed", "seed"},
                                         {"stop", "stop"},
                                         {"presence_penalty", "presence_penalty"},
                                         {"frequency_penalty", "frequency_penalty"},
                                         {"repeat_last_n", "repeat_last_n"},
                                         {"typical_p", "typical_p"},
                                         {"tfs_z", "tfs_z"},
                                         {"mirostat", "mirostat"},
                                         {"mirostat_tau", "mirostat_tau"},
                                         {"mirostat_eta", "mirostat_eta"}};
#define N_OPTIONS (sizeof options / sizeof *options)

static const char *name_of_option(const char *key)
{
  for (size_t i = 0; i < N_OPTIONS; i++)
    if (strcmp(options[i][0], key) == 0)
      return options[i][1];
  return NULL;
}

static void rename_param(struct lls_api_error *error)
{
  for (size_t i = 0; i < N_OPTIONS; i++)
    if (strcmp(error->param, options[i][1]) == 0)
      snprintf(error->param, sizeof error->param, "%s", options[i][0]);
}

/* Sets an option of the form. */
static void set_option(json_t *form, const char *key, json_t *value,
                       struct lls_unknown_names *unknown)
{
  char name[80];
  const char *own = name_of_option(key);
  if (strcmp(key, "num_predict") == 0 && json_integer_value(value) == -2)
    json_object_set_new(form, own, json_integer(-1)); /* to the end of the context */
  else if (own != NULL)
    json_object_set(form, own, value);
  else {
    snprintf(name, sizeof name, "options.%.64s", key);
    lls_unknown_add(unknown, name);
  }
}

static int set_options(json_t *form, struct lls_unknown_names *unknown,
                       struct lls_api_error *error)
{
  const char *key;
  json_t *value, *given = json_object_get(form, "options");
  if (given != NULL && !json_is_object(given) && !json_is_null(given))
    return lls_api_fail(error, 400, NULL, "options", "'options' must be an object");
  json_incref(given);
  json_object_del(form, "options");
  json_object_foreach(given, key, value)
  {
    set_option(form, key, value, unknown);
  }
  json_decref(given);
  return 0;
}

int lls_ollama_common(json_t *form, struct lls_unknown_names *unknown,
                      struct lls_api_error *error)
{
  static const char latest[] = ":latest";
  size_t tag = sizeof latest - 1;
  const json_t *model = json_object_get(form, "model");
  size_t length = json_string_length(model);
  if (length > tag && strcmp(json_string_value(model) + length - tag, latest) == 0)
    json_object_set_new(form, "model",
                        json_stringn(json_string_value(model), length - tag));
  if (json_object_get(form, "keep_alive") != NULL)
    lls_unknown_add(unknown, "keep_alive");
  json_object_del(form, "keep_alive");
  return set_options(form, unknown, error);
}

/* ---- the form and the thoughts of an answer ---------------------------------------- */

static int set_format(json_t *form, struct lls_api_error *error)
{
  json_t *format = json_object_get(form, "format"), *own = NULL;
  const char *name = json_string_value(format);
  if (name != NULL && strcmp(name, "json") == 0)
    own = json_pack("{s:s}", "type", "json_object");
  else if (json_is_object(format))
    own = json_pack("{s:s, s:{s:s, s:O}}", "type", "json_schema", "json_schema", "name",
                    "format", "schema", format);
  else if (is_given(format))
    return lls_api_fail(error, 400, NULL, "format",
                        "'format' must be \"json\" or a JSON Schema");
  json_object_del(form, "format");
  if (own != NULL)
    json_object_set_new(form, "response_format", own);
  return 0;
}

static int set_thoughts(json_t *form, struct lls_api_error *error)
{
  json_t *think = json_object_get(form, "think");
  if (json_is_string(think)) {
    json_object_set(form, "reasoning_effort", think);
  } else if (json_is_boolean(think)) {
    json_object_set(form, "enable_thinking", think);
    json_object_set_new(form, "chat_template_kwargs",
                        json_pack("{s:O}", "thinking", think));
    json_object_set(form, "include_reasoning", think);
  } else if (is_given(think)) {
    return lls_api_fail(error, 400, NULL, "think",
                        "'think' must be true, false, or \"low\", \"medium\" or "
                        "\"high\"");
  }
  json_object_del(form, "think");
  return 0;
}

/* ---- messages ---------------------------------------------------------------------- */

/* Gives a member of a message another name. */
static void rename_member(json_t *message, const char *from, const char *to)
{
  json_t *value = json_object_get(message, from);
  if (value == NULL)
    return;
  json_object_set(message, to, value);
  json_object_del(message, from);
}

/* Returns a chat's message, a new reference, or NULL and why. */
static json_t *chat_message(json_t *given, struct lls_api_error *error)
{
  size_t i;
  json_t *call;
  if (is_given(json_object_get(given, "images"))) {
    unsupported(error, "images", "this model reads text only");
    return NULL;
  }
  json_t *message = json_deep_copy(given);
  json_object_del(message, "images");
  rename_member(message, "thinking", "reasoning_content");
  rename_member(message, "tool_name", "name");
  json_array_foreach(json_object_get(message, "tool_calls"), i, call)
  {
    json_object_set_new(call, "type", json_string("function"));
  }
  return message;
}

static int set_messages(json_t *form, struct lls_api_error *error)
{
  size_t i;
  json_t *given = json_object_get(form, "messages"), *item, *messages = json_array();
  json_array_foreach(given, i, item)
  {
    json_t *message = chat_message(item, error);
    if (message == NULL) {
      json_decref(messages);
      return -1;
    }
    json_array_append_new(messages, message);
  }
  json_object_set_new(form, "messages", messages);
  return 0;
}

/* Appends a message with the text of a member, if that is given. */
static int add_text(const json_t *form, const char *name, const char *role,
                    json_t *messages, struct lls_api_error *error)
{
  json_t *text = json_object_get(form, name);
  if (text == NULL || json_is_null(text))
    return 0;
  if (!json_is_string(text))
    return lls_api_fail(error, 400, NULL, name, "'%s' must be a string", name);
  if (json_string_length(text) > 0)
    json_array_append_new(messages,
                          json_pack("{s:s, s:O}", "role", role, "content", text));
  return 0;
}

/* Makes the messages of system and prompt. */
static int set_prompt(json_t *form, struct lls_api_error *error)
{
  json_t *messages = json_array();
  int status = add_text(form, "system", "system", messages, error);
  if (status == 0)
    status = add_text(form, "prompt", "user", messages, error);
  json_object_set_new(form, "messages", messages);
  json_object_del(form, "system");
  json_object_del(form, "prompt");
  return status;
}

/* Refuses what only Ollama's own models can do. */
static int check_supported(json_t *form, bool raw, struct lls_api_error *error)
{
  static const char *const names[][2] = {
      {"template", "[model] chat_template sets it"},
      {"suffix", "/infill writes the text between two others"},
      {"context", "send the conversation as 'messages' of /api/chat"},
      {"images", "this model reads text only"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (is_given(json_object_get(form, names[i][0])))
      return unsupported(error, names[i][0], names[i][1]);
    json_object_del(form, names[i][0]);
  }
  if (raw && is_given(json_object_get(form, "system")))
    return unsupported(error, "system", "a 'raw' prompt has it in its text");
  return 0;
}

/* ---- the whole --------------------------------------------------------------------- */

/* A request without a prompt loads the model of Ollama, or frees it. This server's is
 * always loaded: the request becomes one for a token that is not shown. */
static const char *loading(const json_t *body)
{
  const json_t *keep = json_object_get(body, "keep_alive");
  bool frees = json_is_number(keep) && json_number_value(keep) == 0;
  return frees ? "unload" : "load";
}

static void set_loading(json_t *form, bool raw)
{
  json_object_set_new(form, "max_tokens", json_integer(1));
  if (raw)
    json_object_set_new(form, "prompt", json_string("."));
  else
    json_object_set_new(form, "messages",
                        json_pack("[{s:s, s:s}]", "role", "user", "content", "."));
}

/* Logprobs are a flag and a number in Ollama, as in chats; a number in completions. */
static void set_logprobs(json_t *form)
{
  json_t *top = json_object_get(form, "top_logprobs");
  bool wanted = json_is_true(json_object_get(form, "logprobs"));
  json_object_del(form, "logprobs");
  if (wanted)
    json_object_set_new(form, "logprobs",
                        top != NULL ? json_incref(top) : json_integer(0));
  json_object_del(form, "top_logprobs");
}

static int fill(json_t *form, bool chat, bool raw, struct lls_unknown_names *unknown,
                struct lls_api_error *error)
{
  static const char *const foreign[] = {"n",
                                        "echo",
                                        "max_tokens",
                                        "max_completion_tokens",
                                        "prompt_logprobs",
                                        "response_format",
                                        "return_token_ids",
                                        "return_tokens_as_token_ids",
                                        "stream_options",
                                        "timings_per_token",
                                        "return_progress",
                                        "logprob_token_ids",
                                        NULL};
  lls_unknown_drop(unknown, form, foreign);
  if (json_object_get(form, "stream") == NULL)
    json_object_set_new(form, "stream", json_true());
  if (lls_ollama_common(form, unknown, error) != 0 || set_format(form, error) != 0 ||
      check_supported(form, raw, error) != 0)
    return -1;
  if (raw && json_object_get(form, "max_tokens") == NULL)
    json_object_set_new(form, "max_tokens", json_integer(-1));
  if (chat && json_is_true(json_object_get(form, "raw")))
    lls_unknown_add(unknown, "raw");
  json_object_del(form, "raw");
  if (raw) {
    const json_t *text = json_object_get(form, "prompt");
    if (text != NULL && !json_is_string(text))
      return lls_api_fail(error, 400, NULL, "prompt", "'prompt' must be a string");
    set_logprobs(form);
    return 0;
  }
  if (set_thoughts(form, error) != 0)
    return -1;
  return chat ? set_messages(form, error) : set_prompt(form, error);
}

static bool has_prompt(const json_t *form, bool raw)
{
  return raw ? json_string_length(json_object_get(form, "prompt")) > 0
             : json_array_size(json_object_get(form, "messages")) > 0;
}

static json_t *translate(json_t *body, bool chat, bool raw, void **state,
                         struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  json_t *form = json_copy(body);
  struct lls_ollama_answer *answer = calloc(1, sizeof *answer);
  if (form == NULL || answer == NULL) {
    lls_api_fail(error, 503, NULL, NULL, "out of memory");
    goto fail;
  }
  if (fill(form, chat, raw, unknown, error) != 0)
    goto fail;
  answer->has_message = chat;
  if (!has_prompt(form, raw)) {
    answer->loads = loading(body);
    set_loading(form, raw);
  }
  *state = answer;
  return form;
fail:
  json_decref(form);
  lls_ollama_free(answer);
  return NULL;
}

static json_t *translate_chat(json_t *body, const struct lls_past *past, void **state,
                              struct lls_unknown_names *unknown,
                              struct lls_api_error *error)
{
  (void)past;
  return translate(body, true, false, state, unknown, error);
}

static json_t *translate_prompt(json_t *body, const struct lls_past *past, void **state,
                                struct lls_unknown_names *unknown,
                                struct lls_api_error *error)
{
  (void)past;
  return translate(body, false, false, state, unknown, error);
}

static json_t *translate_raw(json_t *body, const struct lls_past *past, void **state,
                             struct lls_unknown_names *unknown,
                             struct lls_api_error *error)
{
  (void)past;
  return translate(body, false, true, state, unknown, error);
}

/* Reads a chat, or, for a model without a template, the text of its one message. */
static int read_prompt(const struct lls_api_config *config, const json_t *body,
                       const struct lls_api_params *params,
                       struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  const json_t *messages = json_object_get(body, "messages");
  if (config->chat_template != NULL || json_array_size(messages) != 1)
    return lls_chat_read_prompts(config, body, params, prompts, error);
  struct lls_api_params plain = *params;
  plain.add_special_tokens = true;
  return lls_prompts_read(config, json_object_get(json_array_get(messages, 0), "content"),
                          "prompt", &plain, prompts, error);
}

static int read_raw(const struct lls_api_config *config, const json_t *body,
                    const struct lls_api_params *params,
                    struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  return lls_prompts_read(config, json_object_get(body, "prompt"), "prompt", params,
                          prompts, error);
}

#define OLLAMA_ANSWERS                                                                   \
  .cuts_answers = true, .framing = &lls_ollama_lines, .rename = rename_param,            \
  .whole = lls_ollama_whole, .chunk = lls_ollama_chunk, .end = lls_ollama_end,           \
  .failure = lls_ollama_failure, .error = lls_ollama_error,                              \
  .free_state = lls_ollama_free

static const struct lls_dialect raw_prompt = {
    .id_prefix = "gen-",
    .params_of = LLS_COMPLETIONS,
    .translate = translate_raw,
    .read_prompts = read_raw,
    OLLAMA_ANSWERS,
};

static const struct lls_dialect prompt = {
    .id_prefix = "gen-",
    .params_of = LLS_CHAT,
    .is_chat = true,
    .translate = translate_prompt,
    .read_prompts = read_prompt,
    OLLAMA_ANSWERS,
};

static const struct lls_dialect *pick(const json_t *body)
{
  return json_is_true(json_object_get(body, "raw")) ? &raw_prompt : &prompt;
}

static const struct lls_body_member generate_members[] = {
    {"model", "string", false},
    {"prompt", "string", false},
    {"system", "string", false},
    {"raw", "boolean", false},
    {"options", "object", false},
    {"format", "string|object", false},
    {"think", "boolean|string", false},
    {"stream", "boolean", false},
    {"logprobs", "boolean", false},
    {"top_logprobs", "integer", false},
    {NULL, NULL, false}};

const struct lls_dialect lls_ollama_generate = {
    .id_prefix = "gen-",
    .members = generate_members,
    .alone = true,
    .params_of = LLS_CHAT,
    .is_chat = true,
    .pick = pick,
    .translate = translate_prompt,
    .read_prompts = read_prompt,
    OLLAMA_ANSWERS,
};

static const struct lls_body_member chat_members[] = {
    {"model", "string", false},         {"messages", "array", false},
    {"tools", "array", false},          {"options", "object", false},
    {"format", "string|object", false}, {"think", "boolean|string", false},
    {"stream", "boolean", false},       {"logprobs", "boolean", false},
    {"top_logprobs", "integer", false}, {NULL, NULL, false}};

const struct lls_dialect lls_ollama_chat = {
    .id_prefix = "chat-",
    .members = chat_members,
    .alone = true,
    .params_of = LLS_CHAT,
    .is_chat = true,
    .translate = translate_chat,
    .read_prompts = lls_chat_read_prompts,
    OLLAMA_ANSWERS,
};
