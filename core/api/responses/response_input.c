/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the input of /v1/responses to the form that is stored and returned: every item
 * has an id, a type and its content in parts; see responses.h. */
#include <stdio.h>
#include <string.h>

#include "core/base/json_memory.h"
#include "core/base/json_parse.h"
#include "core/api/responses/responses.h"

json_t *lls_response_reference(const json_t *item)
{
  const char *type = json_string_value(json_object_get(item, "type"));
  json_t *id = json_object_get(item, "id");
  bool refers = type != NULL && strcmp(type, "item_reference") == 0;
  return refers && json_is_string(id) ? id : NULL;
}

json_t *lls_response_references(const json_t *body)
{
  size_t i;
  json_t *item, *ids = json_array();
  json_array_foreach(json_object_get(body, "input"), i, item)
  {
    json_t *id = lls_response_reference(item);
    if (id != NULL)
      json_array_append(ids, id);
  }
  return ids;
}

const char *lls_response_conversation(const json_t *body)
{
  const json_t *given = json_object_get(body, "conversation");
  return json_string_value(json_is_object(given) ? json_object_get(given, "id") : given);
}

bool lls_response_needs(const json_t *body)
{
  json_t *ids = lls_response_references(body);
  bool needs = json_is_string(json_object_get(body, "previous_response_id")) ||
               lls_response_conversation(body) != NULL || json_array_size(ids) > 0;
  json_decref(ids);
  return needs;
}

static void set_id(json_t *item, const char *prefix)
{
  char fresh[LLS_ID_BYTES], id[48];
  if (json_is_string(json_object_get(item, "id")))
    return;
  lls_api_new_id(fresh);
  snprintf(id, sizeof id, "%s_%s", prefix, fresh);
  json_object_set_new(item, "id", json_string(id));
}

/* Turns content that is a text into a list with one part. The assistant's text becomes
 * output_text. */
static void split_content(json_t *item)
{
  json_t *content = json_object_get(item, "content");
  const char *role = json_string_value(json_object_get(item, "role"));
  if (!json_is_string(content))
    return;
  json_t *part = role != NULL && strcmp(role, "assistant") == 0
                     ? json_pack("{s:s, s:O, s:[], s:[]}", "type", "output_text", "text",
                                 content, "annotations", "logprobs")
                     : json_pack("{s:s, s:O}", "type", "input_text", "text", content);
  json_object_set_new(item, "content", json_pack("[o]", part));
}

static json_t *stored_item(const json_t *given)
{
  static const char *const prefixes[][2] = {{"message", "msg"},
                                            {"function_call", "fc"},
                                            {"function_call_output", "fco"},
                                            {"custom_tool_call", "ctc"},
                                            {"custom_tool_call_output", "ctco"},
                                            {"reasoning", "rs"},
                                            {"compaction", "cmp"}};
  json_t *item = json_copy((json_t *)given);
  if (json_object_get(item, "type") == NULL)
    lls_json_put(&item, "type", json_string("message"));
  const char *type = json_string_value(json_object_get(item, "type"));
  if (type == NULL)
    return item;
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
    if (strcmp(type, prefixes[i][0]) == 0)
      set_id(item, prefixes[i][1]);
  if (strcmp(type, "message") == 0)
    split_content(item);
  if (json_object_get(item, "status") == NULL && strcmp(type, "reasoning") != 0)
    json_object_set_new(item, "status", json_string("completed"));
  return item;
}

json_t *lls_response_parse_items(const char *text)
{
  return text != NULL ? lls_json_parse_string(text, JSON_ALLOW_NUL, NULL) : NULL;
}

char *lls_response_input_text(const json_t *input)
{
  size_t i;
  json_t *given, *items = json_array();
  if (json_is_string(input))
    json_array_append_new(items,
                          json_pack("{s:s, s:O}", "role", "user", "content", input));
  json_array_foreach(input, i, given)
  {
    json_array_append(items, given);
  }
  json_array_foreach(items, i, given)
  {
    json_array_set_new(items, i, stored_item(given));
  }
  char *text = lls_json_text(items, JSON_COMPACT);
  json_decref(items);
  return text;
}
