/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts tools and tool_choice to those of a chat; see messages.h. A tool that the
 * provider's own servers run, or whose schema only its models know (web_search, bash),
 * can't be called here: it is left out, and its type named among the parameters without
 * effect, so that agents that send it with others work.
 */
#include "core/api/anthropic/messages.h"

#include <stdio.h>
#include <string.h>

#include "core/api/api_params.h"
#include "text/tools/tool_parser.h"

#define NOTE_BYTES 96

static int bad_tool(struct lls_api_error *error, size_t index, const char *why)
{
  return lls_api_fail(error, 400, NULL, "tools", "tools.%zu %s", index, why);
}

static void note_foreign(const json_t *tool, struct lls_unknown_names *unknown)
{
  char note[NOTE_BYTES];
  snprintf(note, sizeof note, "tools.%s",
           json_string_value(json_object_get(tool, "type")));
  lls_unknown_add(unknown, note);
}

/* Returns the tool as a chat has it. */
static json_t *chat_tool(const json_t *tool)
{
  static const char *const names[][2] = {{"name", "name"},
                                         {"description", "description"},
                                         {"input_schema", "parameters"},
                                         {"strict", "strict"}};
  json_t *function = json_object();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    json_t *value = json_object_get(tool, names[i][0]);
    if (value != NULL && !json_is_null(value))
      json_object_set(function, names[i][1], value);
  }
  return json_pack("{s:s, s:o}", "type", "function", "function", function);
}

static int add_tool(const json_t *tool, size_t index, json_t *out,
                    struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  const json_t *type = json_object_get(tool, "type");
  const json_t *name = json_object_get(tool, "name");
  size_t length = json_string_length(name);
  if (!json_is_object(tool))
    return bad_tool(error, index, "must be an object");
  bool own = type == NULL || json_is_null(type) || lls_messages_is(tool, "custom");
  if (!own && !json_is_string(type))
    return bad_tool(error, index, "must have a \"type\" that is a string");
  if (!own) {
    note_foreign(tool, unknown);
    return 0;
  }
  if (length == 0 || lls_tool_name_length(json_string_value(name), length) != length)
    return bad_tool(error, index,
                    "must have a \"name\" of letters, digits, and _ - . alone");
  if (!json_is_object(json_object_get(tool, "input_schema")))
    return bad_tool(error, index, "must have an \"input_schema\" that is an object");
  lls_unknown_add_members(unknown, tool, "tools",
                          "type name description input_schema strict cache_control");
  json_array_append_new(out, chat_tool(tool));
  return 0;
}

static int bad_choice(const json_t *choice, struct lls_api_error *error)
{
  char shown[64];
  return lls_api_fail(error, 400, NULL, "tool_choice",
                      "tool_choice must be {\"type\": \"auto\"}, \"any\" or \"none\" in "
                      "the same way, or {\"type\": \"tool\", \"name\": ...}, not %s",
                      lls_json_excerpt(choice, shown, sizeof shown));
}

static int add_choice(const json_t *choice, json_t *chat, struct lls_api_error *error)
{
  static const char *const words[][2] = {
      {"auto", "auto"}, {"any", "required"}, {"none", "none"}};
  const json_t *alone = json_object_get(choice, "disable_parallel_tool_use");
  json_t *name = json_object_get(choice, "name"), *made = NULL;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (lls_messages_is(choice, words[i][0]))
      made = json_string(words[i][1]);
  if (lls_messages_is(choice, "tool") && json_is_string(name))
    made = json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name);
  if (made == NULL)
    return bad_choice(choice, error);
  json_object_set_new(chat, "tool_choice", made);
  if (alone != NULL && !json_is_null(alone) && !json_is_boolean(alone))
    return lls_api_fail(error, 400, NULL, "tool_choice",
                        "tool_choice.disable_parallel_tool_use must be true or false");
  if (json_is_true(alone))
    json_object_set_new(chat, "parallel_tool_calls", json_false());
  return 0;
}

int lls_messages_tools(const json_t *body, json_t *chat,
                       struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  size_t i;
  int status = 0;
  json_t *tool, *tools = json_object_get(body, "tools");
  const json_t *choice = json_object_get(body, "tool_choice");
  if (tools != NULL && !json_is_array(tools) && !json_is_null(tools))
    return lls_api_fail(error, 400, NULL, "tools", "tools must be an array of tools");
  json_t *out = json_array();
  json_array_foreach(tools, i, tool)
  {
    status = status == 0 ? add_tool(tool, i, out, unknown, error) : status;
  }
  if (json_array_size(out) > 0)
    json_object_set(chat, "tools", out);
  bool only_foreign = json_array_size(tools) > 0 && json_array_size(out) == 0;
  json_decref(out);
  if (status != 0 || choice == NULL || json_is_null(choice))
    return status;
  /* without the foreign tools there is nothing left to choose among */
  if (only_foreign && lls_messages_is(choice, "auto"))
    return 0;
  return add_choice(choice, chat, error);
}
