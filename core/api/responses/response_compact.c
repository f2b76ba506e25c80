/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/responses/compact: makes a conversation shorter, for a client whose context is
 * full. The model is asked for a summary of the conversation; the answer has the user's
 * messages as they were, and the summary as an item of type compaction. Sent back as
 * input, that item becomes a message of the user (response_messages.c).
 */
#include "core/api/responses/responses.h"

#include <stdio.h>
#include <string.h>

#include "core/api/chat.h"
#include "core/api/chat_answer.h"
#include "core/api/responses/response_memory.h"
#include "core/base/json_memory.h"

#define REQUEST                                                                          \
  "Summarise the conversation so far for somebody who continues it without having read " \
  "it. Name what was asked for, what has been done and found out, decisions with their " \
  "reasons, names of files and values in full, and what is still to be done. Write the " \
  "summary only."

static bool is_users(const json_t *item)
{
  const char *role = json_string_value(json_object_get(item, "role"));
  return role != NULL && strcmp(role, "user") == 0;
}

static void keep_users(json_t *kept, const json_t *items)
{
  size_t i;
  json_t *item;
  json_array_foreach((json_t *)items, i, item)
  {
    if (is_users(item))
      json_array_append(kept, item);
  }
}

/* Returns the user's messages of the conversation, a new reference. */
static json_t *users_of(const json_t *body, const struct lls_past *past)
{
  json_t *kept = json_array();
  const json_t *input = json_object_get(body, "input");
  keep_users(kept, json_object_get(past->found, "items"));
  if (json_is_string(input))
    json_array_append_new(
        kept, json_pack("{s:s, s:O}", "role", "user", "content", (json_t *)input));
  else
    keep_users(kept, input);
  return kept;
}

/* Returns the members of the body that a chat has, too. */
static json_t *rest_of(const json_t *body)
{
  static const char *const names[] = {"model",      "class",        "user",
                                      "cache_salt", "priority",     "seed",
                                      "slo",        "service_tier", "temperature"};
  json_t *chat = json_object();
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    json_t *given = json_object_get(body, names[i]);
    if (given != NULL)
      json_object_set(chat, names[i], given);
  }
  return chat;
}

static void note_ignored(const json_t *body, const json_t *chat,
                         struct lls_unknown_names *unknown)
{
  static const char *const read[] = {"input", "instructions", "previous_response_id",
                                     "conversation", NULL};
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)body, name, value)
  {
    size_t i = 0;
    while (read[i] != NULL && strcmp(read[i], name) != 0)
      i++;
    if (read[i] == NULL && json_object_get(chat, name) == NULL && !json_is_null(value))
      lls_unknown_add(unknown, name);
  }
}

static json_t *as_chat(json_t *body, const struct lls_past *past, void **state,
                       struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  json_t *messages = NULL;
  if (lls_response_check_past(body, past, error) == 0 &&
      lls_response_resolve(body, past, error) == 0)
    messages = lls_response_messages(body, past, error);
  if (messages == NULL)
    return NULL;
  json_t *chat = rest_of(body);
  note_ignored(body, chat, unknown);
  json_array_append_new(messages,
                        json_pack("{s:s, s:s}", "role", "user", "content", REQUEST));
  json_object_set_new(chat, "messages", messages);
  *state = users_of(body, past);
  return chat;
}

/* Returns the item that stands for the conversation. */
static json_t *compaction(const struct lls_generation *generation)
{
  json_t *message = lls_chat_answer_message(&generation->choices[0]);
  const char *text = json_string_value(json_object_get(message, "content"));
  json_t *item = NULL;
  if (message != NULL)
    item = json_pack("{s:s, s:o, s:o}", "type", "compaction", "id",
                     json_sprintf("cmp_%s", generation->id), "encrypted_content",
                     json_sprintf(LLS_COMPACTION "%s", text != NULL ? text : ""));
  json_decref(message);
  return item;
}

static json_t *whole(const struct lls_generation *generation)
{
  struct lls_usage n = lls_generation_usage(generation);
  char *text = lls_response_input_text(generation->state);
  json_t *output = lls_response_parse_items(text);
  json_t *item = compaction(generation);
  free(text);
  if (output == NULL || item == NULL) {
    json_decref(output);
    json_decref(item);
    return NULL;
  }
  json_array_append_new(output, item);
  return json_pack(
      "{s:s, s:s, s:I, s:o, s:{s:I, s:{s:I}, s:I, s:{s:I}, s:I}}", "id", generation->id,
      "object", "response.compaction", "created_at", (json_int_t)generation->created_s,
      "output", output, "usage", "input_tokens", (json_int_t)n.prompt,
      "input_tokens_details", "cached_tokens", (json_int_t)n.cached, "output_tokens",
      (json_int_t)n.completion, "output_tokens_details", "reasoning_tokens",
      (json_int_t)n.reasoning, "total_tokens", (json_int_t)(n.prompt + n.completion));
}

static void free_state(void *state)
{
  json_decref(state);
}

static bool is_kept(const struct lls_generation *generation)
{
  (void)generation;
  return false;
}

/* Past items are loaded as for a response; the answer is not stored. */
static const struct lls_dialect_memory memory = {
    .is_on = lls_response_memory_is_on,
    .needs = lls_response_needs,
    .load = lls_response_memory_ask,
    .wants = is_kept,
    .detaches = is_kept,
};

static const struct lls_body_member members[] = {
    {"model", "string", false},
    {"input", "string|array", false},
    {"instructions", "string", false},
    {"previous_response_id", "string", false},
    {"conversation", "string|object", false},
    {"class", "string", false},
    {"user", "string", false},
    {"cache_salt", "string", false},
    {"priority", "integer", false},
    {"seed", "integer", false},
    {"slo", "object", false},
    {"service_tier", "string", false},
    {"temperature", "number", false},
    {NULL, NULL, false}};

const struct lls_dialect lls_response_compact = {
    .id_prefix = "resp_",
    .members = members,
    .alone = true,
    .params_of = LLS_CHAT,
    .is_chat = true,
    .memory = &memory,
    .translate = as_chat,
    .rename = lls_response_rename,
    .read_prompts = lls_chat_read_prompts,
    .whole = whole,
    .error = lls_api_error_json,
    .free_state = free_state,
};
