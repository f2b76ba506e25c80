/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the system prompt and the messages of a body to those of a chat; see
 * messages.h. */
#include "core/api/anthropic/messages.h"

#include <stdio.h>
#include <string.h>

#define PLACE_BYTES 64

struct input {
  json_t *messages; /* the chat's */
  struct lls_api_error *error;
  size_t index;            /* of the message being read */
  char place[PLACE_BYTES]; /* path of the block that is read, for errors */
};

static int bad(struct input *in, const char *why)
{
  return lls_api_fail(in->error, 400, NULL, "messages", "%s %s", in->place, why);
}

static int bad_type(struct input *in, const json_t *block, const char *types)
{
  char shown[48];
  const json_t *type = json_object_get(block, "type");
  return lls_api_fail(in->error, 400, "unsupported_content", "messages",
                      "%s has the type %s: here the server reads blocks of type %s "
                      "(its model reads text only)",
                      in->place, lls_json_excerpt(type, shown, sizeof shown), types);
}

static void set_place(struct input *in, size_t block)
{
  snprintf(in->place, sizeof in->place, "messages.%zu.content.%zu", in->index, block);
}

/* Returns the text of a text block, borrowed; or NULL with the error set. */
static json_t *text_of(struct input *in, const json_t *block, const char *types)
{
  json_t *text = json_object_get(block, "text");
  if (json_is_object(block) && !lls_messages_is(block, "text"))
    bad_type(in, block, types);
  else if (!json_is_string(text))
    bad(in, "must be an object such as {\"type\": \"text\", \"text\": a string}");
  else
    return text;
  return NULL;
}

static void add_part(json_t *parts, json_t *text)
{
  json_array_append_new(parts, json_pack("{s:s, s:O}", "type", "text", "text", text));
}

static void add_message(struct input *in, const char *role, json_t *content)
{
  json_array_append_new(in->messages,
                        json_pack("{s:s, s:o}", "role", role, "content", content));
}

/* Adds the texts gathered so far as a message; takes the parts over. */
static void add_texts(struct input *in, const char *role, json_t *parts)
{
  if (json_array_size(parts) > 0)
    add_message(in, role, parts);
  else
    json_decref(parts);
}

/* ---- the system -------------------------------------------------------------------- */

/* Returns true for a line that Claude Code adds for its provider's accounts. It changes
 * with each request, so that no prompt would begin with a cached one. */
static bool is_billing(const json_t *text)
{
  static const char start[] = "x-anthropic-billing-header:";
  return strncmp(json_string_value(text), start, sizeof start - 1) == 0;
}

static int add_system(struct input *in, const json_t *system)
{
  size_t i;
  json_t *block;
  if (json_is_string(system))
    add_message(in, "system", json_incref((json_t *)system));
  if (system == NULL || json_is_null(system) || json_is_string(system))
    return 0;
  if (!json_is_array(system))
    return lls_api_fail(in->error, 400, NULL, "system",
                        "system must be a string or an array of text blocks");
  json_t *parts = json_array();
  json_array_foreach((json_t *)system, i, block)
  {
    snprintf(in->place, sizeof in->place, "system.%zu", i);
    json_t *text = text_of(in, block, "text");
    if (text == NULL) {
      json_decref(parts);
      return -1;
    }
    if (!is_billing(text))
      add_part(parts, text);
  }
  add_texts(in, "system", parts);
  return 0;
}

/* ---- users and tools --------------------------------------------------------------- */

static int add_blocks(struct input *in, const json_t *blocks, json_t *parts)
{
  size_t i;
  json_t *block;
  json_array_foreach((json_t *)blocks, i, block)
  {
    json_t *text = text_of(in, block, "text");
    if (text == NULL)
      return -1;
    add_part(parts, text);
  }
  return 0;
}

/* Adds the content of a tool's result. The text of an error begins with "Error:", since
 * chats have no other place for it. */
static int add_result_parts(struct input *in, const json_t *result, json_t *parts)
{
  json_t *content = json_object_get(result, "content");
  if (json_is_true(json_object_get(result, "is_error")))
    json_array_append_new(parts,
                          json_pack("{s:s, s:s}", "type", "text", "text", "Error:"));
  if (json_is_array(content))
    return add_blocks(in, content, parts);
  if (json_is_string(content))
    add_part(parts, content);
  else if (content != NULL && !json_is_null(content))
    return bad(in, "has a content that is neither a string nor an array of blocks");
  return 0;
}

static int add_result(struct input *in, const json_t *block)
{
  json_t *id = json_object_get(block, "tool_use_id");
  if (!json_is_string(id))
    return bad(in, "is a tool_result without a string \"tool_use_id\"");
  json_t *parts = json_array();
  json_array_append_new(in->messages, json_pack("{s:s, s:O, s:O}", "role", "tool",
                                                "tool_call_id", id, "content", parts));
  int status = add_result_parts(in, block, parts);
  json_decref(parts);
  return status;
}

static int add_user(struct input *in, const char *role, const json_t *content)
{
  size_t i;
  json_t *block, *parts = json_array();
  if (json_array_size(content) == 0)
    add_message(in, role, json_string(""));
  json_array_foreach((json_t *)content, i, block)
  {
    set_place(in, i);
    bool is_result = lls_messages_is(block, "tool_result") && strcmp(role, "user") == 0;
    if (is_result) {
      add_texts(in, role, parts);
      parts = json_array();
    }
    json_t *text = is_result ? NULL : text_of(in, block, "text and tool_result");
    if (is_result ? add_result(in, block) != 0 : text == NULL) {
      json_decref(parts);
      return -1;
    }
    if (text != NULL)
      add_part(parts, text);
  }
  add_texts(in, role, parts);
  return 0;
}

/* ---- the assistant ----------------------------------------------------------------- */

struct turn {
  struct lls_text content, thinking;
  json_t *calls;
};

static void append(struct lls_text *to, const json_t *text)
{
  lls_text_append(to, json_string_value(text), json_string_length(text));
}

static int take_call(struct input *in, const json_t *block, struct turn *turn)
{
  json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name");
  json_t *given = json_object_get(block, "input");
  if (!json_is_string(id) || !json_is_string(name) || !json_is_object(given))
    return bad(in, "is a tool_use without the strings \"id\" and \"name\" and the object "
                   "\"input\"");
  json_array_append_new(turn->calls, json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id,
                                               "type", "function", "function", "name",
                                               name, "arguments", given));
  return 0;
}

static int take_thinking(struct input *in, const json_t *block, struct turn *turn)
{
  json_t *text = json_object_get(block, "thinking");
  if (!json_is_string(text))
    return bad(in, "is a thinking block without the string \"thinking\"");
  switch (lls_thinking_check(text, json_object_get(block, "signature"))) {
  case LLS_THINKING_OURS:
    append(&turn->thinking, text);
    return 0;
  case LLS_THINKING_CHANGED:
    return bad(in, "is a thinking block whose text does not match its signature: send "
                   "such blocks back as they came, or leave them out");
  default:
    return 0;
  }
}

static int take_block(struct input *in, const json_t *block, struct turn *turn)
{
  if (lls_messages_is(block, "tool_use"))
    return take_call(in, block, turn);
  if (lls_messages_is(block, "thinking"))
    return take_thinking(in, block, turn);
  if (lls_messages_is(block, "redacted_thinking")) /* another server's */
    return 0;
  const json_t *text = text_of(in, block, "text, tool_use and thinking");
  if (text == NULL)
    return -1;
  append(&turn->content, text);
  return 0;
}

static json_t *string_of(const struct lls_text *text)
{
  return json_stringn(text->length > 0 ? text->data : "", text->length);
}

static int add_assistant(struct input *in, const json_t *content)
{
  size_t i;
  json_t *block;
  int status = 0;
  struct turn turn = {.calls = json_array()};
  json_array_foreach((json_t *)content, i, block)
  {
    set_place(in, i);
    status = status == 0 ? take_block(in, block, &turn) : status;
  }
  if (status == 0 && (turn.content.failed || turn.thinking.failed))
    status = lls_api_fail(in->error, 503, NULL, NULL, "out of memory");
  if (status == 0) {
    json_t *message =
        json_pack("{s:s, s:o}", "role", "assistant", "content", string_of(&turn.content));
    if (turn.thinking.length > 0)
      json_object_set_new(message, "reasoning_content", string_of(&turn.thinking));
    if (json_array_size(turn.calls) > 0)
      json_object_set(message, "tool_calls", turn.calls);
    json_array_append_new(in->messages, message);
  }
  json_decref(turn.calls);
  lls_text_free(&turn.content);
  lls_text_free(&turn.thinking);
  return status;
}

/* ---- the whole --------------------------------------------------------------------- */

static int add_turn(struct input *in, const json_t *message)
{
  const char *role = json_string_value(json_object_get(message, "role"));
  json_t *content = json_object_get(message, "content");
  snprintf(in->place, sizeof in->place, "messages.%zu", in->index);
  if (role == NULL || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 &&
                       strcmp(role, "system") != 0))
    return bad(in, "must have the role \"user\" or \"assistant\"");
  if (json_is_string(content)) {
    add_message(in, role, json_incref(content));
    return 0;
  }
  if (!json_is_array(content))
    return bad(in, "must have a content that is a string or an array of blocks");
  return strcmp(role, "assistant") == 0 ? add_assistant(in, content)
                                        : add_user(in, role, content);
}

static int add_messages(struct input *in, const json_t *messages)
{
  json_t *message;
  if (json_array_size(messages) == 0)
    return lls_api_fail(in->error, 400, NULL, "messages",
                        "messages must be an array of at least one message");
  json_array_foreach((json_t *)messages, in->index, message)
  {
    if (add_turn(in, message) != 0)
      return -1;
  }
  return 0;
}

json_t *lls_messages_input(const json_t *body, struct lls_api_error *error)
{
  struct input in = {.messages = json_array(), .error = error};
  if (add_system(&in, json_object_get(body, "system")) == 0 &&
      add_messages(&in, json_object_get(body, "messages")) == 0)
    return in.messages;
  json_decref(in.messages);
  return NULL;
}
