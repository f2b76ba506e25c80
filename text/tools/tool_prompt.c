/* SPDX-License-Identifier: Apache-2.0 */
/* Writes descriptions, calls and results of tools as text; see tool_prompt.h. */
#include "text/tools/tool_prompt.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/json_memory.h"
#include "core/base/text.h"

static bool has_role(const json_t *message, const char *role)
{
  const char *found = json_string_value(json_object_get(message, "role"));
  return found != NULL && strcmp(found, role) == 0;
}

bool lls_tool_prompt_has_calls(const json_t *messages)
{
  size_t i;
  const json_t *message;
  json_array_foreach((json_t *)messages, i, message)
  {
    if (has_role(message, "tool") ||
        json_array_size(json_object_get(message, "tool_calls")) > 0)
      return true;
  }
  return false;
}

static void put_string(struct lls_text *out, const json_t *string)
{
  lls_text_append(out, json_string_value(string), json_string_length(string));
}

static void put_json(struct lls_text *out, const json_t *value)
{
  char *text = json_dumps(value, JSON_ENCODE_ANY);
  out->failed |= text == NULL;
  lls_text_puts(out, text != NULL ? text : "");
  free(text);
}

/* Returns a new JSON string of the text, which is freed; NULL if out of memory, which is
 * noted: the messages then lack a part, so that the caller must not use them. */
static json_t *string_of(struct lls_text *text)
{
  if (text->failed)
    lls_json_note_shortage();
  json_t *string = text->failed
                       ? NULL
                       : json_stringn(text->length > 0 ? text->data : "", text->length);
  lls_text_free(text);
  return string;
}

/* ---- the system message ------------------------------------------------------------ */

static json_t *describe(const struct lls_tool_syntax *syntax, const json_t *tools)
{
  size_t i;
  const json_t *tool;
  struct lls_text out = {0};
  lls_text_puts(&out, "You can call functions. These are there, each as JSON:\n");
  json_array_foreach((json_t *)tools, i, tool)
  {
    put_json(&out, json_object_get(tool, "function"));
    lls_text_puts(&out, "\n");
  }
  lls_text_printf(&out,
                  "To call one, answer with nothing but its name and its arguments, a "
                  "JSON object, in this form:\n%s%sNAME%s{\"ARGUMENT\": VALUE}%s%s\n"
                  "The next message has the result. Where no function helps, answer as "
                  "usual.",
                  syntax->begin, syntax->before, syntax->middle, syntax->after,
                  syntax->end);
  return string_of(&out);
}

/* Prepends a text to a message's content. */
static void put_before(json_t *message, const json_t *text)
{
  const json_t *content = json_object_get(message, "content");
  struct lls_text out = {0};
  put_string(&out, text);
  if (json_string_length(content) > 0) {
    lls_text_puts(&out, "\n\n");
    put_string(&out, content);
  }
  json_object_set_new(message, "content", string_of(&out));
}

/* Adds the description at the end of the system message; if the template does not show
 * one, at the beginning of the first user message. */
static void add_description(const struct lls_tool_dialect *dialect, json_t *messages,
                            json_t *description)
{
  json_t *first = json_array_get(messages, 0);
  bool system = has_role(first, "system");
  if (system) {
    json_t *said = json_incref(json_object_get(first, "content"));
    json_object_set(first, "content", description);
    put_before(first, said);
    json_decref(said);
  } else if (dialect->shows_system) {
    json_array_insert_new(
        messages, 0, json_pack("{s:s, s:O}", "role", "system", "content", description));
  } else {
    size_t i = 0;
    while (i < json_array_size(messages) &&
           !has_role(json_array_get(messages, i), "user"))
      i++;
    if (i < json_array_size(messages))
      put_before(json_array_get(messages, i), description);
  }
}

/* ---- calls and results ------------------------------------------------------------- */

static void put_arguments(struct lls_text *out, const json_t *arguments)
{
  if (json_is_string(arguments) && json_string_length(arguments) > 0)
    put_string(out, arguments);
  else if (json_is_object(arguments))
    put_json(out, arguments);
  else
    lls_text_puts(out, "{}");
}

/* Appends calls to the content, in the syntax in which the model would have written
 * them. */
static void write_calls(const struct lls_tool_syntax *syntax, json_t *message)
{
  size_t i;
  const json_t *call, *calls = json_object_get(message, "tool_calls");
  const json_t *content = json_object_get(message, "content");
  struct lls_text out = {0};
  put_string(&out, content);
  if (json_string_length(content) > 0)
    lls_text_puts(&out, "\n");
  lls_text_puts(&out, syntax->begin);
  json_array_foreach((json_t *)calls, i, call)
  {
    const json_t *function = json_object_get(call, "function");
    if (i > 0 && syntax->between != NULL)
      lls_text_puts(&out, syntax->between);
    lls_text_puts(&out, syntax->before);
    put_string(&out, json_object_get(function, "name"));
    lls_text_puts(&out, syntax->middle);
    put_arguments(&out, json_object_get(function, "arguments"));
    lls_text_puts(&out, syntax->after);
  }
  lls_text_puts(&out, syntax->end);
  json_object_set_new(message, "content", string_of(&out));
  json_object_del(message, "tool_calls");
}

/* Appends a result, or a user message after results, to a single user message:
 * templates expect the roles to alternate. */
static void add_turn(json_t *out, json_t *message, bool *open)
{
  bool result = has_role(message, "tool"), user = has_role(message, "user");
  struct lls_text text = {0};
  json_t *last = json_array_get(out, json_array_size(out) - 1);
  if (!result && !(user && *open)) {
    json_array_append(out, message);
    *open = false;
    return;
  }
  if (*open) {
    put_string(&text, json_object_get(last, "content"));
    lls_text_puts(&text, "\n");
  }
  lls_text_puts(&text, result ? "<tool_response>\n" : "");
  put_string(&text, json_object_get(message, "content"));
  lls_text_puts(&text, result ? "\n</tool_response>" : "");
  json_t *content = string_of(&text);
  if (*open)
    json_object_set_new(last, "content", content);
  else
    json_array_append_new(out,
                          json_pack("{s:s, s:o}", "role", "user", "content", content));
  *open = result;
}

json_t *lls_tool_prompt(const struct lls_tool_dialect *dialect, const json_t *messages,
                        const json_t *tools)
{
  size_t i;
  const struct lls_tool_syntax *syntax =
      &lls_tool_format_written(dialect->format)->syntax;
  json_t *message, *out = json_array(), *copy = json_deep_copy(messages);
  bool open = false; /* the last message of `out` has results */
  json_array_foreach(copy, i, message)
  {
    if (!dialect->hides_calls) {
      json_array_append(out, message);
      continue;
    }
    if (json_array_size(json_object_get(message, "tool_calls")) > 0)
      write_calls(syntax, message);
    add_turn(out, message, &open);
  }
  json_decref(copy);
  if (json_array_size(tools) > 0 && dialect->hides_tools) {
    json_t *description = describe(syntax, tools);
    add_description(dialect, out, description);
    json_decref(description);
  }
  return out;
}
