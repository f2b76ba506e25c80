/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tools and tool_choice; see params_internal.h. */
#include <string.h>

#include "core/api/params_internal.h"
#include "text/tools/tool_parser.h"

#define MAX_TOOLS 1024
#define MAX_NAME  256 /* bytes */

/* True for a name that every tool format can write without quoting, which includes all
 * names that OpenAI allows. */
static bool is_name(const json_t *name)
{
  size_t n = json_string_length(name);
  return json_is_string(name) && n > 0 && n <= MAX_NAME &&
         lls_tool_name_length(json_string_value(name), n) == n;
}

static int check_tool(const json_t *tool, size_t index, struct lls_api_error *error)
{
  const json_t *type = json_object_get(tool, "type");
  const json_t *function = json_object_get(tool, "function");
  const json_t *parameters = json_object_get(function, "parameters");
  bool known = type == NULL ||
               (json_is_string(type) && strcmp(json_string_value(type), "function") == 0);
  if (!json_is_object(tool) || !known || !json_is_object(function))
    return lls_api_fail(
        error, 400, NULL, "tools",
        "tools[%zu] must be {\"type\": \"function\", \"function\": {...}}", index);
  if (!is_name(json_object_get(function, "name")))
    return lls_api_fail(error, 400, NULL, "tools",
                        "tools[%zu].function.name must be a string of 1 to %d letters, "
                        "digits, and _ - .",
                        index, MAX_NAME);
  if (parameters != NULL && !json_is_object(parameters) && !json_is_null(parameters))
    return lls_api_fail(error, 400, NULL, "tools",
                        "tools[%zu].function.parameters must be an object: a JSON schema",
                        index);
  return 0;
}

int lls_param_tools(const json_t *value, const char *name,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error)
{
  size_t i;
  const json_t *tool;
  (void)context;
  if (!json_is_array(value) || json_array_size(value) > MAX_TOOLS)
    return lls_api_fail(error, 400, NULL, name,
                        "'%s' must be an array of at most %d tools", name, MAX_TOOLS);
  json_array_foreach((json_t *)value, i, tool)
  {
    if (check_tool(tool, i, error) != 0)
      return -1;
  }
  if (i > 0)
    out->tools.list = json_incref((json_t *)value);
  return 0;
}

static int read_named(const json_t *value, struct lls_api_tools *tools,
                      struct lls_api_error *error)
{
  char shown[64];
  const char *type = json_string_value(json_object_get(value, "type"));
  const json_t *name = json_object_get(json_object_get(value, "function"), "name");
  if (type == NULL || strcmp(type, "function") != 0 || !json_is_string(name))
    return lls_api_fail(error, 400, NULL, "tool_choice",
                        "'tool_choice' must be \"none\", \"auto\", \"required\", or "
                        "{\"type\": \"function\", \"function\": {\"name\": ...}}, not %s",
                        lls_json_excerpt(value, shown, sizeof shown));
  tools->choice = LLS_TOOL_CHOICE_NAMED;
  tools->named =
      lls_tool_find(tools->list, json_string_value(name), json_string_length(name));
  if (tools->list != NULL && tools->named == NULL)
    return lls_api_fail(error, 400, NULL, "tool_choice",
                        "'tool_choice' names %s, which is none of the 'tools'",
                        lls_json_excerpt(name, shown, sizeof shown));
  return 0;
}

static int read_choice(const json_t *value, struct lls_api_tools *tools,
                       struct lls_api_error *error)
{
  static const char *const words[] = {[LLS_TOOL_CHOICE_NONE] = "none",
                                      [LLS_TOOL_CHOICE_AUTO] = "auto",
                                      [LLS_TOOL_CHOICE_REQUIRED] = "required"};
  const char *word = json_string_value(value);
  for (unsigned i = 0; word != NULL && i < sizeof words / sizeof *words; i++) {
    if (strcmp(word, words[i]) != 0)
      continue;
    tools->choice = (enum lls_tool_choice)i;
    return 0;
  }
  return read_named(value, tools, error);
}

/* Called after the tools are read: the table of parameters has this order. */
int lls_param_tool_choice(const json_t *value, const char *name,
                          const struct lls_params_context *context,
                          struct lls_api_params *out, struct lls_api_error *error)
{
  (void)context;
  if (read_choice(value, &out->tools, error) != 0)
    return -1;
  if (out->tools.choice == LLS_TOOL_CHOICE_NONE || out->tools.list != NULL)
    return 0;
  return lls_api_fail(error, 400, NULL, name, "'%s' is only for requests with 'tools'",
                      name);
}
