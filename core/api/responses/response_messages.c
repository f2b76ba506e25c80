/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the instructions and input items of /v1/responses to a chat's messages; see
 * responses.h. */
#include <string.h>

#include "core/api/responses/responses.h"

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

/* Converts a part with text of any type to a chat's part. Other parts pass unchanged: the
 * chat refuses them. */
static json_t *chat_part(json_t *part)
{
  json_t *text = json_object_get(part, has_type(part, "refusal") ? "refusal" : "text");
  if (json_is_string(text))
    return json_pack("{s:s, s:O}", "type", "text", "text", text);
  return json_incref(part);
}

static json_t *chat_content(json_t *content)
{
  size_t i;
  json_t *part;
  if (!json_is_array(content))
    return json_incref(content);
  json_t *parts = json_array();
  json_array_foreach(content, i, part)
  {
    json_array_append_new(parts, chat_part(part));
  }
  return parts;
}

static int add_message(json_t *item, json_t *messages)
{
  json_t *role = json_object_get(item, "role");
  json_t *content = json_object_get(item, "content");
  json_t *message = json_object();
  if (role != NULL)
    json_object_set(message, "role", role);
  if (content != NULL)
    json_object_set_new(message, "content", chat_content(content));
  json_array_append_new(messages, message);
  return 0;
}

/* Returns the tool_calls of the last message if that is the assistant's, else of a new
 * assistant message: the calls of one turn belong to one message. */
static json_t *calls_of_turn(json_t *messages)
{
  size_t n = json_array_size(messages);
  json_t *last = n > 0 ? json_array_get(messages, n - 1) : NULL;
  const char *role = json_string_value(json_object_get(last, "role"));
  if (role == NULL || strcmp(role, "assistant") != 0) {
    last = json_pack("{s:s, s:n}", "role", "assistant", "content");
    json_array_append_new(messages, last);
  }
  json_t *calls = json_object_get(last, "tool_calls");
  if (calls == NULL) {
    calls = json_array();
    json_object_set_new(last, "tool_calls", calls);
  }
  return calls;
}

/* Adds a call, with `arguments` as JSON text, of an item that has its id and name. */
static void put_call(const json_t *item, json_t *arguments, json_t *messages)
{
  json_array_append_new(calls_of_turn(messages),
                        json_pack("{s:O, s:s, s:{s:O, s:O}}", "id",
                                  json_object_get(item, "call_id"), "type", "function",
                                  "function", "name", json_object_get(item, "name"),
                                  "arguments", arguments));
}

/* Adds a function_call, or a custom_tool_call: a call of the function that stands for the
 * tool. `member` names the member of the item that has the arguments. */
static int add_call(json_t *item, const char *member, json_t *messages,
                    struct lls_api_error *error)
{
  json_t *given = json_object_get(item, member);
  if (!json_is_string(json_object_get(item, "call_id")) ||
      !json_is_string(json_object_get(item, "name")) || !json_is_string(given))
    return lls_api_fail(error, 400, NULL, "input",
                        "'input' has a %s without the strings \"call_id\", \"name\" "
                        "and \"%s\"",
                        json_string_value(json_object_get(item, "type")), member);
  json_t *arguments = has_type(item, "function_call") ? json_incref(given)
                                                      : lls_response_arguments(given);
  put_call(item, arguments, messages);
  json_decref(arguments);
  return 0;
}

static int add_output(json_t *item, json_t *messages, struct lls_api_error *error)
{
  json_t *id = json_object_get(item, "call_id");
  if (!json_is_string(id))
    return lls_api_fail(error, 400, NULL, "input",
                        "'input' has a %s without a \"call_id\"",
                        json_string_value(json_object_get(item, "type")));
  json_array_append_new(
      messages, json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id,
                          "content", chat_content(json_object_get(item, "output"))));
  return 0;
}

/* Adds the summary of a compaction of this server. */
static int add_summary(json_t *item, json_t *messages, struct lls_api_error *error)
{
  static const char mark[] = LLS_COMPACTION;
  const char *text = json_string_value(json_object_get(item, "encrypted_content"));
  if (text == NULL || strncmp(text, mark, sizeof mark - 1) != 0)
    return lls_api_fail(error, 400, NULL, "input",
                        "'input' has a compaction that is not of this server: its "
                        "\"encrypted_content\" can't be read");
  json_t *content =
      json_sprintf("Summary of the conversation so far:\n%s", text + sizeof mark - 1);
  json_array_append_new(messages,
                        json_pack("{s:s, s:o}", "role", "user", "content", content));
  return 0;
}

static int add_item(json_t *item, json_t *messages, struct lls_api_error *error)
{
  char shown[48];
  json_t *type = json_object_get(item, "type");
  if (!json_is_object(item))
    return bad(error, "input", "must be a string or an array of items");
  if (type == NULL || has_type(item, "message"))
    return add_message(item, messages);
  if (has_type(item, "function_call"))
    return add_call(item, "arguments", messages, error);
  if (has_type(item, "custom_tool_call"))
    return add_call(item, "input", messages, error);
  if (has_type(item, "function_call_output") || has_type(item, "custom_tool_call_output"))
    return add_output(item, messages, error);
  if (has_type(item, "compaction"))
    return add_summary(item, messages, error);
  /* chat templates omit the reasoning of earlier turns */
  if (has_type(item, "reasoning"))
    return 0;
  return lls_api_fail(error, 400, "unsupported_content", "input",
                      "'input' has an item of type %s; message, function_call, "
                      "custom_tool_call, their outputs and reasoning are supported",
                      lls_json_excerpt(type, shown, sizeof shown));
}

static int add_input(json_t *body, json_t *messages, struct lls_api_error *error)
{
  size_t i;
  json_t *item, *input = json_object_get(body, "input");
  if (json_is_string(input))
    return json_array_append_new(
        messages, json_pack("{s:s, s:O}", "role", "user", "content", input));
  if (json_array_size(input) == 0)
    return bad(error, "input", "must be a string or an array of items");
  json_array_foreach(input, i, item)
  {
    if (add_item(item, messages, error) != 0)
      return -1;
  }
  return 0;
}

int lls_response_resolve(json_t *body, const struct lls_past *past,
                         struct lls_api_error *error)
{
  size_t i;
  json_t *item, *whole = json_array(), *input = json_object_get(body, "input");
  json_array_foreach(input, i, item)
  {
    json_t *id = lls_response_reference(item);
    if (id != NULL && past->why_none != NULL) {
      json_decref(whole);
      return lls_api_fail(error, 400, "unsupported_content", "input",
                          "'input' has an item_reference, but %s; send the item itself",
                          past->why_none);
    }
    json_t *named = json_object_get(past->found, "named");
    json_array_append(whole,
                      id != NULL ? json_object_get(named, json_string_value(id)) : item);
  }
  if (json_is_array(input))
    json_object_set(body, "input", whole);
  json_decref(whole);
  return 0;
}

/* Adds stored items, which were checked before they were stored. */
static int add_past(const struct lls_past *past, json_t *messages,
                    struct lls_api_error *error)
{
  size_t i;
  json_t *item;
  json_array_foreach(json_object_get(past->found, "items"), i, item)
  {
    if (add_item(item, messages, error) != 0)
      return -1;
  }
  return 0;
}

json_t *lls_response_messages(json_t *body, const struct lls_past *past,
                              struct lls_api_error *error)
{
  json_t *messages = json_array(), *first = json_object_get(body, "instructions");
  if (json_is_string(first))
    json_array_append_new(messages,
                          json_pack("{s:s, s:O}", "role", "system", "content", first));
  else if (is_given(first) && bad(error, "instructions", "must be a string") != 0)
    goto fail;
  if (add_past(past, messages, error) == 0 && add_input(body, messages, error) == 0)
    return messages;
fail:
  json_decref(messages);
  return NULL;
}
