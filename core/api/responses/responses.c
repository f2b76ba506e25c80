/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/responses: converts the request to a chat; see responses.h. */
#include "core/api/responses/responses.h"

#include <stdio.h>
#include <string.h>

#include "core/api/chat.h"
#include "core/api/responses/detached.h"
#include "core/api/responses/response_memory.h"

#define ECHO_MOST 262144 /* bytes */

static int bad(struct lls_api_error *error, const char *param, const char *why)
{
  return lls_api_fail(error, 400, NULL, param, "'%s' %s", param, why);
}

static bool is_given(const json_t *value)
{
  return value != NULL && !json_is_null(value) && !json_is_false(value);
}

static bool has_type(const json_t *object, const char *type)
{
  const char *found = json_string_value(json_object_get(object, "type"));
  return found != NULL && strcmp(found, type) == 0;
}

/* ---- the format -------------------------------------------------------------------- */

/* Wraps a flat format in an object under its type's name, as chats have it. */
static json_t *wrapped(json_t *flat, const char *type)
{
  json_t *inner = json_copy(flat);
  json_object_del(inner, "type");
  return json_pack("{s:s, s:o}", "type", type, type, inner);
}

static void add_format(json_t *body, json_t *chat)
{
  json_t *text = json_object_get(body, "text"), *format = json_object_get(text, "format");
  json_t *verbosity = json_object_get(text, "verbosity");
  if (verbosity != NULL)
    json_object_set(chat, "verbosity", verbosity);
  if (has_type(format, "json_schema"))
    json_object_set_new(chat, "response_format", wrapped(format, "json_schema"));
  else if (format != NULL)
    json_object_set(chat, "response_format", format);
}

static int add_limit(json_t *body, json_t *chat, struct lls_api_error *error)
{
  json_t *most = json_object_get(body, "max_output_tokens");
  int64_t n;
  if (!is_given(most))
    return 0;
  if (!lls_json_integer(most, &n) || n < 1)
    return bad(error, "max_output_tokens", "must be an integer of at least 1");
  json_object_set(chat, "max_completion_tokens", most);
  return 0;
}

/* ---- the whole --------------------------------------------------------------------- */

/* Checks previous_response_id. Its items were looked up before, if this server stores
 * any. */
static int check_previous(const json_t *body, const struct lls_past *past,
                          struct lls_api_error *error)
{
  static const char name[] = "previous_response_id";
  const json_t *previous = json_object_get(body, name);
  if (!is_given(previous))
    return 0;
  if (!json_is_string(previous))
    return bad(error, name, "must be a string");
  if (past->why_none == NULL)
    return 0;
  return lls_api_fail(error, 400, "unsupported_parameter", name,
                      "'%s' is not supported: %s; send all items as 'input'", name,
                      past->why_none);
}

static bool is_to_be_stored(const json_t *body, const struct lls_past *past)
{
  return past->why_none == NULL && !json_is_false(json_object_get(body, "store"));
}

/* Checks `conversation`. Its items were looked up before, if this server stores any. */
static int check_conversation(const json_t *body, const struct lls_past *past,
                              struct lls_api_error *error)
{
  static const char name[] = "conversation";
  if (!is_given(json_object_get(body, name)))
    return 0;
  if (lls_response_conversation(body) == NULL)
    return bad(error, name, "must be an id, or an object with an \"id\"");
  if (is_given(json_object_get(body, "previous_response_id")))
    return bad(error, name, "and 'previous_response_id' exclude each other");
  if (is_to_be_stored(body, past))
    return 0;
  return lls_api_fail(error, 400, "unsupported_parameter", name,
                      "'%s' is not possible: %s; send all items as 'input'", name,
                      past->why_none != NULL ? past->why_none : "'store' is false");
}

int lls_response_check_past(const json_t *body, const struct lls_past *past,
                            struct lls_api_error *error)
{
  return check_previous(body, past, error) != 0 ? -1
                                                : check_conversation(body, past, error);
}

static int check_supported(const json_t *body, struct lls_api_error *error)
{
  if (is_given(json_object_get(body, "prompt")))
    return lls_api_fail(error, 400, "unsupported_parameter", "prompt",
                        "'prompt' is not supported: this server has no named prompts, "
                        "send 'instructions' and 'input'");
  const json_t *truncation = json_object_get(body, "truncation");
  const char *mode = json_string_value(truncation);
  bool known =
      mode != NULL && (strcmp(mode, "disabled") == 0 || strcmp(mode, "auto") == 0);
  if (truncation == NULL || json_is_null(truncation) || known)
    return 0;
  return bad(error, "truncation", "must be \"auto\" or \"disabled\"");
}

/* Returns the body without the members that chats lack or name differently. */
static json_t *rest_of(json_t *body)
{
  static const char *const own[] = {"input",
                                    "instructions",
                                    "max_output_tokens",
                                    "text",
                                    "tools",
                                    "tool_choice",
                                    "previous_response_id",
                                    "conversation",
                                    "background",
                                    "prompt",
                                    "truncation",
                                    "include",
                                    "reasoning",
                                    "messages",
                                    "n",
                                    "logprobs",
                                    "top_logprobs",
                                    "max_tool_calls",
                                    "stream_options",
                                    "max_tokens",
                                    "max_completion_tokens",
                                    "store",
                                    "metadata"};
  json_t *chat = json_copy(body);
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
    json_object_del(chat, own[i]);
  return chat;
}

#define LOGPROBS "message.output_text.logprobs"

/* Returns true if `include` lists log probabilities. */
static bool wants_logprobs(const json_t *body)
{
  size_t i;
  const json_t *name;
  json_array_foreach(json_object_get(body, "include"), i, name)
  {
    if (json_is_string(name) && strcmp(json_string_value(name), LOGPROBS) == 0)
      return true;
  }
  return false;
}

static void add_logprobs(const json_t *body, json_t *chat)
{
  json_t *top = json_object_get(body, "top_logprobs");
  if (!wants_logprobs(body))
    return;
  json_object_set_new(chat, "logprobs", json_true());
  if (is_given(top))
    json_object_set(chat, "top_logprobs", top);
}

/* Reports what `include` lists and a response never has. */
static void note_include(const json_t *body, struct lls_unknown_names *unknown)
{
  size_t i;
  const json_t *name;
  char member[96];
  json_array_foreach(json_object_get(body, "include"), i, name)
  {
    const char *word = json_string_value(name);
    if (word == NULL || strcmp(word, LOGPROBS) == 0)
      continue;
    snprintf(member, sizeof member, "include.%.80s", word);
    lls_unknown_add(unknown, member);
  }
}

/* Reports members that have no effect in a response. */
static void note_ignored(const json_t *body, struct lls_unknown_names *unknown)
{
  static const char *const names[] = {"messages",
                                      "n",
                                      "logprobs",
                                      "max_tool_calls",
                                      "max_tokens",
                                      "stream_options",
                                      "max_completion_tokens"};
  static const char *const places[][2] = {
      {"reasoning", "effort"},
      {"text.format", "type name schema strict"},
      {"input", "type role content id status call_id name arguments output input summary "
                "encrypted_content"},
      {"input.content", "type text refusal annotations logprobs"},
      {"input.output", "type text"},
      {"tools", "type name description parameters strict format function"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (is_given(json_object_get(body, names[i])))
      lls_unknown_add(unknown, names[i]);
  if (is_given(json_object_get(body, "top_logprobs")) && !wants_logprobs(body))
    lls_unknown_add(unknown, "top_logprobs");
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    lls_unknown_add_at(unknown, body, places[i][0], places[i][1]);
  note_include(body, unknown);
}

static json_t *or_default(const json_t *body, const char *name, json_t *otherwise)
{
  json_t *given = json_object_get(body, name);
  if (given == NULL || json_is_null(given))
    return otherwise;
  json_decref(otherwise);
  return json_incref(given);
}

/* A response that the client fetches later has to be stored. */
static int check_background(const json_t *body, const struct lls_past *past,
                            struct lls_api_error *error)
{
  const json_t *background = json_object_get(body, "background");
  if (!is_given(background))
    return 0;
  if (!json_is_true(background))
    return bad(error, "background", "must be true or false");
  if (is_to_be_stored(body, past))
    return 0;
  return lls_api_fail(error, 400, "unsupported_parameter", "background",
                      "background can only be used when `store` is true: %s",
                      past->why_none != NULL
                          ? past->why_none
                          : "the client gets the response from the store");
}

/* Returns the request's members that the answer repeats, defaults included. */
static json_t *echo_of(const json_t *body, const struct lls_past *past)
{
  static const char *const nulls[] = {"instructions", "max_output_tokens", "top_logprobs",
                                      "max_tool_calls", "user"};
  const char *conversation = lls_response_conversation(body);
  json_t *echo = json_pack(
      "{s:b, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "background",
      is_given(json_object_get(body, "background")), "metadata",
      or_default(body, "metadata", json_object()), "parallel_tool_calls",
      or_default(body, "parallel_tool_calls", json_true()), "reasoning",
      or_default(body, "reasoning", json_pack("{s:n, s:n}", "effort", "summary")), "text",
      or_default(body, "text", json_pack("{s:{s:s}}", "format", "type", "text")),
      "tool_choice", or_default(body, "tool_choice", json_string("auto")), "store",
      is_to_be_stored(body, past), "truncation",
      or_default(body, "truncation", json_string("disabled")), "previous_response_id",
      or_default(body, "previous_response_id", json_null()), "tools",
      or_default(body, "tools", json_array()));
  for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++)
    json_object_set_new(echo, nulls[i], or_default(body, nulls[i], json_null()));
  if (conversation != NULL)
    json_object_set_new(echo, "conversation", json_pack("{s:s}", "id", conversation));
  return echo;
}

/* Limits the repeated members: a stream sends them three times, in chunks that [main]
 * writes, and long ones would exceed the bytes that may wait for a client. */
static int check_echo(const json_t *echo, struct lls_api_error *error)
{
  size_t bytes = json_dumpb(echo, NULL, 0, JSON_COMPACT);
  if (bytes <= ECHO_MOST)
    return 0;
  return lls_api_fail(error, 413, NULL, NULL,
                      "what the answer repeats of the request ('instructions', 'tools', "
                      "'text', 'metadata' ...) has %zu bytes; at most %d are possible: "
                      "long texts belong into 'input'",
                      bytes, ECHO_MOST);
}

static int fill_chat(json_t *body, const struct lls_past *past, json_t *chat,
                     struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  json_t *effort = json_object_get(json_object_get(body, "reasoning"), "effort");
  const char *conversation = lls_response_conversation(body);
  json_t *messages = lls_response_messages(body, past, error);
  if (messages == NULL)
    return -1;
  json_object_set_new(chat, "messages", messages);
  if (effort != NULL)
    json_object_set(chat, "reasoning_effort", effort);
  if (conversation != NULL) /* it is the session, whatever else names one */
    json_object_set_new(chat, "prompt_cache_key", json_string(conversation));
  add_format(body, chat);
  add_logprobs(body, chat);
  if (add_limit(body, chat, error) != 0)
    return -1;
  return lls_response_add_tools(body, chat, unknown, error);
}

/* Converts the body to that of a chat: returns a new reference and sets *state to the
 * response being built; or NULL with *error set. */
static json_t *as_chat(json_t *body, const struct lls_past *past, void **state,
                       struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  if (lls_response_check_past(body, past, error) != 0 ||
      check_supported(body, error) != 0 || check_background(body, past, error) != 0 ||
      lls_response_resolve(body, past, error) != 0)
    return NULL;
  json_t *chat = rest_of(body);
  if (fill_chat(body, past, chat, unknown, error) != 0) {
    json_decref(chat);
    return NULL;
  }
  json_t *echo = echo_of(body, past);
  if (check_echo(echo, error) != 0) {
    json_decref(echo);
    json_decref(chat);
    return NULL;
  }
  char *input = is_to_be_stored(body, past)
                    ? lls_response_input_text(json_object_get(body, "input"))
                    : NULL;
  *state = lls_response_create(echo, input);
  note_ignored(body, unknown);
  if (*state != NULL && chat != NULL)
    return chat;
  lls_response_free(*state);
  *state = NULL;
  json_decref(chat);
  lls_api_fail(error, 503, NULL, NULL, "out of memory");
  return NULL;
}

void lls_response_rename(struct lls_api_error *error)
{
  static const char *const names[][2] = {{"messages", "input"},
                                         {"max_completion_tokens", "max_output_tokens"},
                                         {"response_format", "text"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(error->param, names[i][0]) == 0)
      snprintf(error->param, sizeof error->param, "%s", names[i][1]);
}

/* ---- the store --------------------------------------------------------------------- */

static bool is_to_be_kept(const struct lls_generation *generation)
{
  return lls_response_input(generation->state) != NULL;
}

static const char *continued_by(const struct lls_generation *generation)
{
  return lls_response_previous(generation->state);
}

static bool is_in_background(const struct lls_generation *generation)
{
  return lls_response_is_background(generation->state);
}

static void say_not_stored(json_t *response)
{
  json_object_set_new(response, "store", json_false());
}

static const struct lls_dialect_memory memory = {
    .is_on = lls_response_memory_is_on,
    .needs = lls_response_needs,
    .load = lls_response_memory_ask,
    .wants = is_to_be_kept,
    .check = lls_response_memory_check,
    .continues = continued_by,
    .part = lls_response_of,
    .store = lls_response_memory_put,
    .say_not_stored = say_not_stored,
    .detaches = is_in_background,
    .detach = lls_background_take,
};

static const struct lls_body_member members[] = {
    {"input", "string|array", true},
    {"instructions", "string", false},
    {"max_output_tokens", "integer", false},
    {"text", "object", false},
    {"tools", "array", false},
    {"tool_choice", "string|object", false},
    {"previous_response_id", "string", false},
    {"conversation", "string|object", false},
    {"background", "boolean", false},
    {"truncation", "string", false},
    {"include", "array", false},
    {"reasoning", "object", false},
    {"store", "boolean", false},
    {"metadata", "object", false},
    {"top_logprobs", "integer", false},
    {"messages", NULL, false},
    {"n", NULL, false},
    {"logprobs", NULL, false},
    {"max_tokens", NULL, false},
    {"max_completion_tokens", NULL, false},
    {"stream_options", NULL, false},
    {NULL, NULL, false}};

const struct lls_dialect lls_responses = {
    .id_prefix = "resp_",
    .members = members,
    .params_of = LLS_CHAT,
    .is_chat = true,
    .gathers = true,
    .batch_path = "/v1/responses",
    .framing = &lls_framing_named,
    .memory = &memory,
    .translate = as_chat,
    .rename = lls_response_rename,
    .fit_prompts = lls_response_fit,
    .read_prompts = lls_chat_read_prompts,
    .whole = lls_response_whole,
    .chunk = lls_response_chunk,
    .progress = lls_response_progress,
    .end = lls_response_end,
    .failure = lls_response_failure,
    .error = lls_api_error_json,
    .free_state = lls_response_free,
};

/* ---- counting ---------------------------------------------------------------------- */

static json_t *count(const struct lls_generation *generation)
{
  return json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens",
                   (json_int_t)lls_generation_usage(generation).prompt);
}

/* POST /v1/responses/input_tokens. */
const struct lls_dialect lls_response_counts = {
    .id_prefix = "resp_",
    .members = members,
    .params_of = LLS_CHAT,
    .is_chat = true,
    .memory = &memory,
    .translate = as_chat,
    .rename = lls_response_rename,
    .fit_prompts = lls_response_fit,
    .read_prompts = lls_chat_read_prompts,
    .count = count,
    .error = lls_api_error_json,
    .free_state = lls_response_free,
};
