/* SPDX-License-Identifier: Apache-2.0 */
/* Determines the dialect from names and templates; see tool_dialect.h. */
#include "text/tools/tool_dialect.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/template.h"

int lls_tool_dialect_read(const char *tool_format, const char *reasoning_format,
                          struct lls_tool_dialect *out, const char **key,
                          struct lls_error *err)
{
  *out = (struct lls_tool_dialect){0};
  *key = "tool_format";
  if (strcmp(tool_format, "auto") != 0) {
    out->format = lls_tool_format_find(tool_format);
    if (out->format == NULL)
      return lls_fail(err, -EINVAL, "there is no format \"%s\": auto, or one of %s",
                      tool_format, LLS_TOOL_FORMAT_NAMES);
  }
  *key = "reasoning_format";
  out->keeps_reasoning = strcmp(reasoning_format, "none") == 0;
  if (out->keeps_reasoning || strcmp(reasoning_format, "auto") == 0)
    return 0;
  out->reasoning = lls_reasoning_format_find(reasoning_format);
  if (out->reasoning == NULL)
    return lls_fail(err, -EINVAL, "there is no format \"%s\": auto, none, or one of %s",
                    reasoning_format, LLS_REASONING_FORMAT_NAMES);
  return 0;
}

/* ---- arguments ------------------------------------------------------------------- */

/* Renders a conversation with a call whose arguments are {"needle": "hay"}. Returns
 * NULL if the template rejects it. */
static char *probe(const struct lls_chat_template *chat_template, bool as_text)
{
  size_t length;
  char *text = NULL;
  struct lls_error err = {0};
  json_t *arguments = as_text ? json_string("{\"needle\": \"hay\"}")
                              : json_pack("{s:s}", "needle", "hay");
  json_t *messages = json_pack(
      "[{s:s, s:s}, {s:s, s:s, s:[{s:s, s:s, s:{s:s, s:o}}]}]", "role", "user", "content",
      "x", "role", "assistant", "content", "", "tool_calls", "id", "call00001", "type",
      "function", "function", "name", "probe", "arguments", arguments);
  json_t *variables = json_pack(
      "{s:[{s:s, s:{s:s, s:s, s:{s:s, s:{}}}}]}", "tools", "type", "function", "function",
      "name", "probe", "description", "d", "parameters", "type", "object", "properties");
  if (messages == NULL || variables == NULL ||
      lls_chat_template_render(chat_template, messages, variables, false, 0, &text,
                               &length, &err) != 0)
    text = NULL;
  json_decref(messages);
  json_decref(variables);
  return text;
}

/* Determines whether calls are shown, and whether arguments must be text: that is so if
 * an object is printed in Python's syntax or not at all, and a text is printed
 * correctly. */
static void see_calls(struct lls_tool_dialect *dialect,
                      const struct lls_chat_template *chat_template)
{
  char *object = probe(chat_template, false);
  bool shown = object != NULL && strstr(object, "needle") != NULL;
  bool good = shown && strstr(object, "'needle'") == NULL;
  free(object);
  char *text = good ? NULL : probe(chat_template, true);
  dialect->text_arguments = text != NULL && strstr(text, "needle") != NULL;
  const char *source = lls_chat_template_source(chat_template, true);
  dialect->hides_calls =
      !shown && !dialect->text_arguments && strstr(source, "tool_calls") == NULL;
  free(text);
}

#define NEEDLE "needle_in_a_prompt"

/* Returns true if the template prints the needle in one of the messages; false if it
 * rejects them. */
static bool shows(const struct lls_chat_template *chat_template, json_t *messages,
                  json_t *variables)
{
  size_t length;
  char *text = NULL;
  struct lls_error err = {0};
  bool shown = messages != NULL && variables != NULL &&
               lls_chat_template_render(chat_template, messages, variables, true, 0,
                                        &text, &length, &err) == 0 &&
               memmem(text, length, NEEDLE, strlen(NEEDLE)) != NULL;
  free(text);
  json_decref(messages);
  json_decref(variables);
  return shown;
}

static bool shows_tools(const struct lls_chat_template *chat_template)
{
  return shows(chat_template, json_pack("[{s:s, s:s}]", "role", "user", "content", "x"),
               json_pack("{s:[{s:s, s:{s:s, s:s, s:{s:s, s:{s:{s:s, s:s}}, s:[s]}}}]}",
                         "tools", "type", "function", "function", "name", NEEDLE,
                         "description", "d", "parameters", "type", "object", "properties",
                         "a", "type", "string", "description", "d", "required", "a"));
}

static bool shows_system(const struct lls_chat_template *chat_template)
{
  return shows(chat_template,
               json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "system", "content", NEEDLE,
                         "role", "user", "content", "x"),
               json_object());
}

void lls_tool_dialect_complete(struct lls_tool_dialect *dialect,
                               const struct lls_chat_template *chat_template)
{
  const char *source =
      chat_template != NULL ? lls_chat_template_source(chat_template, true) : "";
  bool renders =
      chat_template != NULL && lls_chat_template_problem(chat_template) == NULL;
  dialect->hides_tools = renders && !shows_tools(chat_template);
  dialect->shows_system = renders && shows_system(chat_template);
  bool detects = dialect->format == NULL;
  if (detects)
    dialect->format = lls_tool_format_detect(source);
  if (detects && dialect->hides_tools && strcmp(dialect->format->name, "generic") == 0)
    dialect->format = lls_tool_format_find("hermes"); /* the format that tool_prompt.h
                                                       * shows */
  if (dialect->reasoning == NULL && !dialect->keeps_reasoning)
    dialect->reasoning = lls_reasoning_format_detect(source);
  if (renders)
    see_calls(dialect, chat_template);
}

bool lls_tool_dialect_opens_reasoning(const struct lls_tool_dialect *dialect,
                                      const char *prompt, size_t length)
{
  const char *open = dialect->reasoning != NULL ? dialect->reasoning->open : "";
  if (dialect->format != NULL && dialect->format->shape == LLS_TOOL_CHANNEL)
    open = LLS_TOOL_ANALYSIS LLS_TOOL_MESSAGE;
  size_t n = strlen(open);
  while (length > 0 && strchr(" \r\n\t", prompt[length - 1]) != NULL)
    length--;
  return n > 0 && length >= n && memcmp(prompt + length - n, open, n) == 0;
}
