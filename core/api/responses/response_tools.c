/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools of /v1/responses as a chat's. A custom tool takes free text instead of JSON:
 * the chat has a function with one string for it, and a call's string becomes the text.
 * Tools of other types would run elsewhere, such as web_search: they are left out and
 * reported, so that agents that always send them can use the rest.
 */
#include "core/api/responses/responses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json_cost.h"

#define MEMBER      "input" /* of the function's arguments: the custom tool's text */
#define LONGEST_CUT 6       /* bytes of JSON's longest escape sequence */

static const char *word_of(const json_t *object, const char *name)
{
  const char *word = json_string_value(json_object_get(object, name));
  return word != NULL ? word : "";
}

static bool has_type(const json_t *object, const char *type)
{
  return strcmp(word_of(object, "type"), type) == 0;
}

/* Wraps a flat tool or choice in an object under its type's name, as chats have it. */
static json_t *wrapped(json_t *flat)
{
  json_t *inner = json_copy(flat);
  json_object_del(inner, "type");
  return json_pack("{s:s, s:o}", "type", "function", "function", inner);
}

/* ---- custom tools ------------------------------------------------------------------ */

bool lls_response_is_custom(const json_t *tools, const json_t *name)
{
  size_t i;
  const json_t *tool;
  json_array_foreach((json_t *)tools, i, tool)
  {
    if (has_type(tool, "custom") && json_equal(json_object_get(tool, "name"), name))
      return true;
  }
  return false;
}

/* Returns the schema of the text. A regular expression becomes the pattern that calls
 * keep to; a Lark grammar can't be enforced within a JSON string, and is shown. */
static json_t *input_schema(const json_t *format)
{
  json_t *schema = json_pack("{s:s}", "type", "string");
  const char *definition = word_of(format, "definition");
  if (!has_type(format, "grammar"))
    return schema;
  if (strcmp(word_of(format, "syntax"), "regex") == 0)
    json_object_set_new(schema, "pattern", json_sprintf("^(?:%s)$", definition));
  else
    json_object_set_new(schema, "description",
                        json_sprintf("Text of this Lark grammar:\n%s", definition));
  return schema;
}

static int check_format(const json_t *format, size_t index, struct lls_api_error *error)
{
  const char *syntax = word_of(format, "syntax");
  bool known = has_type(format, "text") ||
               (has_type(format, "grammar") &&
                json_is_string(json_object_get(format, "definition")) &&
                (strcmp(syntax, "lark") == 0 || strcmp(syntax, "regex") == 0));
  if (format == NULL || json_is_null(format) || known)
    return 0;
  return lls_api_fail(error, 400, NULL, "tools",
                      "tools[%zu].format must be {\"type\": \"text\"} or {\"type\": "
                      "\"grammar\", \"syntax\": \"lark\" or \"regex\", \"definition\": a "
                      "string}",
                      index);
}

/* Returns the function that stands for a custom tool, or NULL with *error set. */
static json_t *function_of(json_t *tool, size_t index, struct lls_unknown_names *unknown,
                           struct lls_api_error *error)
{
  const json_t *format = json_object_get(tool, "format");
  if (check_format(format, index, error) != 0)
    return NULL;
  bool regex = strcmp(word_of(format, "syntax"), "regex") == 0;
  if (has_type(format, "grammar") && !regex)
    lls_unknown_add(unknown, "tools.format");
  json_t *parameters =
      json_pack("{s:s, s:{s:o}, s:[s], s:b}", "type", "object", "properties", MEMBER,
                input_schema(format), "required", MEMBER, "additionalProperties", 0);
  json_t *function =
      json_pack("{s:O?, s:O?, s:o}", "name", json_object_get(tool, "name"), "description",
                json_object_get(tool, "description"), "parameters", parameters);
  if (regex)
    json_object_set_new(function, "strict", json_true());
  return json_pack("{s:s, s:o}", "type", "function", "function", function);
}

json_t *lls_response_arguments(json_t *input)
{
  json_t *object = json_pack("{s:O}", MEMBER, input), *text = NULL;
  char *written = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
  if (written != NULL)
    text = json_string(written);
  free(written);
  json_decref(object);
  return text;
}

/* Returns the string in a function's arguments, or NULL if they have none. */
static json_t *member_of(const char *text, size_t length)
{
  json_t *object = lls_json_load(text, length, JSON_ALLOW_NUL, NULL);
  json_t *member = json_object_get(object, MEMBER);
  json_t *input = json_is_string(member) ? json_incref(member) : NULL;
  json_decref(object);
  return input;
}

/* Without a constraint a model may write other arguments than the schema's: they are
 * the text then. Arguments that the length limit has cut are closed first, before an
 * escape sequence that is not whole. */
json_t *lls_response_custom_input(const char *text, size_t length)
{
  json_t *input = member_of(text, length);
  for (size_t cut = 0; input == NULL && cut <= LONGEST_CUT && cut < length; cut++) {
    struct lls_text closed = {0};
    lls_text_append(&closed, text, length - cut);
    lls_text_puts(&closed, "\"}");
    if (!closed.failed)
      input = member_of(closed.data, closed.length);
    lls_text_free(&closed);
  }
  return input != NULL ? input : json_stringn(length > 0 ? text : "", length);
}

/* ---- tool_choice ------------------------------------------------------------------- */

/* Returns true if the list of allowed_tools names the tool. */
static bool allows(const json_t *list, const json_t *tool)
{
  size_t i;
  const json_t *named;
  json_array_foreach((json_t *)list, i, named)
  {
    if (json_equal(json_object_get(named, "name"), json_object_get(tool, "name")))
      return true;
  }
  return false;
}

/* Removes the tools that allowed_tools does not name. */
static int keep_allowed(const json_t *choice, json_t *tools, struct lls_api_error *error)
{
  const char *mode = word_of(choice, "mode");
  const json_t *list = json_object_get(choice, "tools");
  if ((strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0) ||
      !json_is_array(list))
    return lls_api_fail(error, 400, NULL, "tool_choice",
                        "'tool_choice' of type allowed_tools must have a \"mode\", auto "
                        "or required, and \"tools\", an array");
  for (size_t i = json_array_size(tools); i > 0; i--)
    if (!allows(list, json_object_get(json_array_get(tools, i - 1), "function")))
      json_array_remove(tools, i - 1);
  return 0;
}

/* Returns the chat's tool_choice, a new reference; or NULL with *error set. Removes
 * tools that must not be called. */
static json_t *chat_choice(json_t *choice, json_t *tools, struct lls_api_error *error)
{
  char shown[48];
  if (has_type(choice, "allowed_tools"))
    return keep_allowed(choice, tools, error) == 0
               ? json_incref(json_object_get(choice, "mode"))
               : NULL;
  if (has_type(choice, "function") || has_type(choice, "custom"))
    return wrapped(choice);
  if (!json_is_object(choice))
    return json_incref(choice);
  lls_api_fail(error, 400, "unsupported_parameter", "tool_choice",
               "'tool_choice' wants a tool of type %s: this server calls functions and "
               "custom tools only",
               lls_json_excerpt(json_object_get(choice, "type"), shown, sizeof shown));
  return NULL;
}

/* A choice that can be met without tools is dropped with them. */
static int add_choice(json_t *choice, json_t *tools, json_t *chat,
                      struct lls_api_error *error)
{
  if (choice == NULL || json_is_null(choice))
    return 0;
  json_t *made = chat_choice(choice, tools, error);
  if (made == NULL)
    return -1;
  const char *word = json_string_value(made);
  bool idle = word != NULL && strcmp(word, "required") != 0;
  if (json_array_size(tools) > 0 || !idle)
    json_object_set(chat, "tool_choice", made);
  json_decref(made);
  return 0;
}

/* ---- tools ------------------------------------------------------------------------- */

/* Reports a tool that is left out, by its type. */
static void leave_out(const json_t *tool, struct lls_unknown_names *unknown)
{
  char name[64];
  snprintf(name, sizeof name, "tools.%.48s", word_of(tool, "type"));
  lls_unknown_add(unknown, name);
}

/* Adds a tool to `kept`, and to `out` in a chat's form, unless it is left out. */
static int add_tool(json_t *tool, size_t index, json_t *kept, json_t *out,
                    struct lls_unknown_names *unknown, struct lls_api_error *error)
{
  if (word_of(tool, "type")[0] == '\0')
    return lls_api_fail(error, 400, NULL, "tools",
                        "tools[%zu] must be an object with a \"type\", such as function",
                        index);
  bool function = has_type(tool, "function");
  if (!function && !has_type(tool, "custom")) {
    leave_out(tool, unknown);
    return 0;
  }
  json_t *made = function ? wrapped(tool) : function_of(tool, index, unknown, error);
  if (made == NULL)
    return -1;
  json_array_append(kept, tool);
  json_array_append_new(out, made);
  return 0;
}

int lls_response_add_tools(json_t *body, json_t *chat, struct lls_unknown_names *unknown,
                           struct lls_api_error *error)
{
  size_t i;
  json_t *tool, *tools = json_object_get(body, "tools");
  json_t *kept = json_array(), *out = json_array();
  int status = 0;
  json_array_foreach(tools, i, tool)
  {
    status = status != 0 ? status : add_tool(tool, i, kept, out, unknown, error);
  }
  if (status == 0)
    status = add_choice(json_object_get(body, "tool_choice"), out, chat, error);
  if (status == 0 && json_array_size(out) > 0)
    json_object_set(chat, "tools", out);
  if (json_array_size(kept) < i && status == 0)
    json_object_set(body, "tools", kept); /* what the answer repeats */
  json_decref(kept);
  json_decref(out);
  return status;
}
