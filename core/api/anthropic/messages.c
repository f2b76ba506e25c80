/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/messages: converts the request to a chat; see messages.h. */
#include "core/api/anthropic/messages.h"

#include <stdio.h>
#include <string.h>

#include "core/api/chat.h"

static int bad(struct lls_api_error *error, const char *param, const char *why)
{
  return lls_api_fail(error, 400, NULL, param, "%s %s", param, why);
}

static bool is_given(const json_t *value)
{
  return value != NULL && !json_is_null(value);
}

/* ---- parameters -------------------------------------------------------------------- */

/* Members that are converted, or refused, or that only chats have. The others are read as
 * a chat's: temperature, top_k, stream, and this server's own such as class and slo. */
static const char *const own[] = {
    "system",       "messages",      "stop_sequences",     "tools",    "tool_choice",
    "thinking",     "output_config", "output_format",      "metadata", "cache_control",
    "service_tier", "mcp_servers",   "parallel_tool_calls"};
/* The last ones have no effect, since a message is one answer without details. */
static const char *const of_chats[] = {"n",
                                       "n_predict",
                                       "max_new_tokens",
                                       "max_completion_tokens",
                                       "stop",
                                       "stream_options",
                                       "include_reasoning",
                                       "logprobs",
                                       "echo",
                                       "top_logprobs",
                                       "prompt_logprobs",
                                       "return_token_ids",
                                       "user",
                                       "documents",
                                       "functions",
                                       "return_tokens_as_token_ids",
                                       "add_generation_prompt",
                                       "continue_final_message",
                                       "timings_per_token",
                                       "return_progress",
                                       "logprob_token_ids"};

static json_t *rest_of(const json_t *body, struct lls_unknown_names *unknown)
{
  json_t *chat = json_copy((json_t *)body);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    json_object_del(chat, own[i]);
  for (size_t i = 0; i < sizeof of_chats / sizeof *of_chats; i++) {
    if (is_given(json_object_get(body, of_chats[i])))
      lls_unknown_add(unknown, of_chats[i]);
    json_object_del(chat, of_chats[i]);
  }
  return chat;
}

static int check_limit(const json_t *body, bool is_counted, struct lls_api_error *error)
{
  int64_t n;
  const json_t *most = json_object_get(body, "max_tokens");
  if (is_counted && !is_given(most))
    return 0;
  if (!lls_json_integer(most, &n) || n < 1)
    return bad(error, "max_tokens", "must be given, as an integer of at least 1");
  return 0;
}

static int add_stops(const json_t *body, json_t *chat, struct lls_api_error *error)
{
  size_t i;
  json_t *stop, *stops = json_object_get(body, "stop_sequences");
  if (!is_given(stops))
    return 0;
  bool sound = json_is_array(stops) && json_array_size(stops) <= 16;
  json_array_foreach(stops, i, stop)
  {
    size_t length = json_string_length(stop);
    sound = sound && json_is_string(stop) && length > 0 && length <= 1024;
  }
  if (!sound)
    return bad(error, "stop_sequences",
               "must be an array of at most 16 strings, each of 1 to 1024 bytes");
  if (i > 0)
    json_object_set(chat, "stop", stops);
  return 0;
}

/* Tells the template whether to think, and hides the thoughts of a model that thinks
 * anyway: without `thinking` clients expect an answer whose first block is its text. */
static int add_thinking(const json_t *body, json_t *chat, struct lls_api_error *error)
{
  int64_t n;
  const json_t *thinking = json_object_get(body, "thinking");
  const json_t *budget = json_object_get(thinking, "budget_tokens");
  const char *shown = json_string_value(json_object_get(thinking, "display"));
  bool off = !is_given(thinking) || lls_messages_is(thinking, "disabled");
  bool on = lls_messages_is(thinking, "enabled") || lls_messages_is(thinking, "adaptive");
  if (!off && !on)
    return bad(error, "thinking",
               "must have the type \"enabled\", \"adaptive\" or \"disabled\"");
  if (is_given(budget) && (!lls_json_integer(budget, &n) || n < 1))
    return bad(error, "thinking.budget_tokens", "must be an integer of at least 1");
  if (on && is_given(budget))
    json_object_set(chat, "thinking_token_budget", (json_t *)budget);
  if (off || (shown != NULL && strcmp(shown, "omitted") == 0))
    json_object_set_new(chat, "include_reasoning", json_false());
  json_t *given = json_object_get(chat, "chat_template_kwargs");
  json_t *variables = json_pack("{s:b, s:b}", "enable_thinking", on, "thinking", on);
  if (json_is_object(given))
    json_object_update(variables, given);
  if (is_given(given) && !json_is_object(given))
    json_decref(variables); /* the chat refuses chat_template_kwargs */
  else
    json_object_set_new(chat, "chat_template_kwargs", variables);
  return 0;
}

static int add_format(const json_t *format, json_t *chat, struct lls_api_error *error)
{
  json_t *schema = json_object_get(format, "schema");
  if (!is_given(format))
    return 0;
  if (!lls_messages_is(format, "json_schema") || !is_given(schema))
    return bad(error, "output_config.format",
               "must be {\"type\": \"json_schema\", \"schema\": ...}");
  json_object_set_new(chat, "response_format",
                      json_pack("{s:s, s:{s:s, s:b, s:O}}", "type", "json_schema",
                                "json_schema", "name", "output", "strict", 1, "schema",
                                schema));
  return 0;
}

/* Reads the answer's format, also under its former name, and the effort, which templates
 * know as reasoning_effort. */
static int add_output(const json_t *body, json_t *chat, struct lls_api_error *error)
{
  const json_t *config = json_object_get(body, "output_config");
  json_t *effort = json_object_get(config, "effort");
  if (is_given(config) && !json_is_object(config))
    return bad(error, "output_config", "must be an object");
  if (is_given(effort) && !json_is_string(effort))
    return bad(error, "output_config.effort", "must be a string");
  if (is_given(effort))
    json_object_set(chat, "reasoning_effort", effort);
  if (add_format(json_object_get(body, "output_format"), chat, error) != 0)
    return -1;
  return add_format(json_object_get(config, "format"), chat, error);
}

static int add_user(const json_t *body, json_t *chat, struct lls_unknown_names *unknown,
                    struct lls_api_error *error)
{
  const char *name;
  json_t *value, *metadata = json_object_get(body, "metadata");
  json_t *user = json_object_get(metadata, "user_id");
  if (is_given(metadata) && !json_is_object(metadata))
    return bad(error, "metadata", "must be an object");
  if (is_given(user) && !json_is_string(user))
    return bad(error, "metadata.user_id", "must be a string");
  if (is_given(user))
    json_object_set(chat, "user", user);
  /* agents put the id of their session in it */
  if (is_given(user) && !is_given(json_object_get(chat, "prompt_cache_key")))
    json_object_set(chat, "prompt_cache_key", user);
  json_object_foreach(metadata, name, value)
  {
    char note[96];
    snprintf(note, sizeof note, "metadata.%s", name);
    if (value != user && is_given(value))
      lls_unknown_add(unknown, note);
  }
  return 0;
}

static int add_tier(const json_t *body, json_t *chat, struct lls_api_error *error)
{
  const json_t *tier = json_object_get(body, "service_tier");
  const char *word = json_string_value(tier);
  if (!is_given(tier))
    return 0;
  if (word == NULL || (strcmp(word, "auto") != 0 && strcmp(word, "standard_only") != 0))
    return bad(error, "service_tier", "must be \"auto\" or \"standard_only\"");
  json_object_set_new(chat, "service_tier",
                      json_string(word[0] == 'a' ? "auto" : "default"));
  return 0;
}

/* Refuses tools that the server would call itself. */
static int check_servers(const json_t *body, struct lls_api_error *error)
{
  if (json_array_size(json_object_get(body, "mcp_servers")) == 0)
    return 0;
  return lls_api_fail(error, 400, "unsupported_parameter", "mcp_servers",
                      "mcp_servers is not supported: this server calls no other ones; "
                      "the client can, and send their tools as tools");
}

/* ---- the conversation -------------------------------------------------------------- */

/* Lets the answer continue the last message if it is the assistant's. */
static int add_messages(const json_t *body, json_t *chat, struct lls_api_error *error)
{
  json_t *messages = lls_messages_input(body, error);
  if (messages == NULL)
    return -1;
  size_t n = json_array_size(messages);
  const json_t *last = json_array_get(messages, n - 1);
  const char *role = json_string_value(json_object_get(last, "role"));
  bool calls = json_array_size(json_object_get(last, "tool_calls")) > 0;
  json_object_set_new(chat, "messages", messages);
  if (role == NULL || strcmp(role, "assistant") != 0)
    return 0;
  if (calls)
    return lls_api_fail(error, 400, NULL, "messages",
                        "messages ends with a tool_use: its tool_result must follow, in "
                        "a message of the user");
  json_object_set_new(chat, "continue_final_message", json_true());
  return 0;
}

/* Reports members of messages and their blocks that the model does not see. */
static void note_members(const json_t *body, struct lls_unknown_names *unknown)
{
  static const char *const places[][2] = {
      {"messages", "role content"},
      {"messages.content", "type text cache_control id name input tool_use_id content "
                           "is_error thinking signature data"},
      {"messages.content.content", "type text cache_control"},
      {"system", "type text cache_control"}};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    lls_unknown_add_at(unknown, body, places[i][0], places[i][1]);
}

static int fill(const json_t *body, json_t *chat, struct lls_unknown_names *unknown,
                struct lls_api_error *error)
{
  if (add_messages(body, chat, error) != 0 || add_stops(body, chat, error) != 0 ||
      lls_messages_tools(body, chat, unknown, error) != 0 ||
      add_thinking(body, chat, error) != 0 || add_output(body, chat, error) != 0 ||
      add_user(body, chat, unknown, error) != 0)
    return -1;
  note_members(body, unknown);
  const char *hint;
  if (lls_messages_hint(body, &hint, error) != 0)
    return -1;
  if (hint != NULL && !is_given(json_object_get(chat, "prompt_cache_retention")))
    json_object_set_new(chat, "prompt_cache_retention", json_string(hint));
  return add_tier(body, chat, error);
}

json_t *lls_messages_as_chat(const json_t *body, bool is_counted,
                             struct lls_unknown_names *unknown,
                             struct lls_api_error *error)
{
  if (check_limit(body, is_counted, error) != 0 || check_servers(body, error) != 0)
    return NULL;
  json_t *chat = rest_of(body, unknown);
  if (fill(body, chat, unknown, error) == 0)
    return chat;
  json_decref(chat);
  return NULL;
}

static json_t *translate(json_t *body, const struct lls_past *past, void **state,
                         struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  (void)past;
  json_t *chat = lls_messages_as_chat(body, false, unknown, error);
  if (chat == NULL)
    return NULL;
  *state = lls_message_create();
  if (*state != NULL)
    return chat;
  json_decref(chat);
  lls_api_fail(error, 503, NULL, NULL, "out of memory");
  return NULL;
}

/* An answer may be shorter than max_tokens where the context has no more room: agents ask
 * for more tokens than many a model's context has. */
static int read_prompts(const struct lls_api_config *config, const json_t *body,
                        const struct lls_api_params *params,
                        struct lls_api_prompt_list *prompts, struct lls_api_error *error)
{
  struct lls_api_params roomy = *params;
  roomy.max_tokens = LLS_ENDLESS;
  return lls_chat_read_prompts(config, body, &roomy, prompts, error);
}

/* ---- the dialect ------------------------------------------------------------------- */

static const struct lls_body_member members[] = {
    {"messages", "array", true},
    {"max_tokens", "integer", false},
    {"system", "string|array", false},
    {"stop_sequences", "array", false},
    {"tools", "array", false},
    {"tool_choice", "object", false},
    {"thinking", "object", false},
    {"output_config", "object", false},
    {"output_format", "object", false},
    {"metadata", "object", false},
    {"service_tier", "string", false},
    {"n", NULL, false},
    {"n_predict", NULL, false},
    {"max_new_tokens", NULL, false},
    {"max_completion_tokens", NULL, false},
    {"stop", NULL, false},
    {"stream_options", NULL, false},
    {"include_reasoning", NULL, false},
    {"logprobs", NULL, false},
    {"echo", NULL, false},
    {"top_logprobs", NULL, false},
    {"prompt_logprobs", NULL, false},
    {"return_token_ids", NULL, false},
    {"user", NULL, false},
    {"documents", NULL, false},
    {"return_tokens_as_token_ids", NULL, false},
    {"add_generation_prompt", NULL, false},
    {"continue_final_message", NULL, false},
    {"parallel_tool_calls", NULL, false},
    {"timings_per_token", NULL, false},
    {"return_progress", NULL, false},
    {"logprob_token_ids", NULL, false},
    {NULL, NULL, false}};

const struct lls_dialect lls_messages = {
    .id_prefix = "msg_",
    .members = members,
    .params_of = LLS_CHAT,
    .is_chat = true,
    .gathers = true,
    .id_header = "request-id",
    .framing = &lls_framing_named,
    .translate = translate,
    .read_prompts = read_prompts,
    .whole = lls_message_whole,
    .chunk = lls_message_chunk,
    .end = lls_message_end,
    .failure = lls_message_failure,
    .error = lls_messages_error,
    .status = lls_messages_status,
    .free_state = lls_message_free,
};
