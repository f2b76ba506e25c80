/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments between marks of their own, as Qwen3-Coder, GLM and MiniMax write them. They
 * are made JSON one by one: a string where the tool's schema says so, or where the text
 * is no JSON.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/json_parse.h"
#include "core/tools/tool_parser_internal.h"

/* True if the schema of the argument has room for strings only. */
static bool is_string(const json_t *schema)
{
  const json_t *type = json_object_get(schema, "type");
  return json_is_string(type) && strcmp(json_string_value(type), "string") == 0;
}

static const json_t *schema_of(const struct lls_tool_parser *parser, const json_t *key)
{
  const struct lls_tool_answer *answer = parser->answer;
  const char *name = answer->n_calls > 0 ? answer->calls[answer->n_calls - 1].name : "";
  const json_t *function = lls_tool_find(parser->options.tools, name, strlen(name));
  const json_t *parameters = json_object_get(function, "parameters");
  const char *text = json_string_value(key);
  return text != NULL ? json_object_get(json_object_get(parameters, "properties"), text)
                      : NULL;
}

static void emit_json(struct lls_tool_parser *parser, const json_t *value)
{
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  if (text != NULL)
    lls_tool_emit_arguments(parser, text, strlen(text));
  else
    parser->answer->failed = true;
  free(text);
}

static void emit_value(struct lls_tool_parser *parser, const json_t *schema,
                       const char *text, size_t n)
{
  json_t *value = is_string(schema)
                      ? NULL
                      : lls_json_parse(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
  struct lls_json_number wide;
  if (value != NULL && lls_json_find_wide(text, n, &wide)) {
    lls_tool_emit_arguments(parser, text, n); /* JSON as it is, with all digits */
    json_decref(value);
    return;
  }
  if (value == NULL)
    value = json_stringn(text, n);
  emit_json(parser, value);
  json_decref(value);
}

/* A line end at each side belongs to the marks. */
static void emit_argument(struct lls_tool_parser *parser, const char *key,
                          size_t key_length, const char *value, size_t n)
{
  json_t *name = json_stringn(key, key_length);
  if (n > 0 && *value == '\n') {
    value++;
    n--;
  }
  if (n > 0 && value[n - 1] == '\n')
    n--;
  lls_tool_emit_arguments(parser, parser->has_arguments ? ", " : "{",
                          parser->has_arguments ? 2 : 1);
  emit_json(parser, name);
  lls_tool_emit_arguments(parser, ": ", 2);
  emit_value(parser, schema_of(parser, name), value, n);
  json_decref(name);
}

static const char *find(const char *text, const char *end, const char *mark)
{
  return memmem(text, (size_t)(end - text), mark, strlen(mark));
}

/* At a key: -1 where it can be none, 0 where more is needed, 1 when it was taken. */
static int take_argument(struct lls_tool_parser *parser)
{
  const struct lls_tool_format *format = parser->options.format;
  const char *text = parser->held.data + parser->at;
  const char *end = parser->held.data + parser->held.length;
  const char *key = text + strlen(format->key_begin);
  const char *key_end, *begin;
  int near = lls_tool_find_near(key, (size_t)(end - key), format->key_end,
                                LLS_TOOL_NAME_BYTES, &key_end);
  if (near <= 0)
    return near;
  const char *value = key_end + strlen(format->key_end);
  const char *opens = format->value_begin;
  near = opens == NULL ? 1
                       : lls_tool_find_near(value, (size_t)(end - value), opens,
                                            LLS_TOOL_NAME_BYTES, &begin);
  if (near <= 0)
    return near;
  if (opens != NULL)
    value = begin + strlen(opens);
  const char *value_end = find(value, end, format->value_end);
  if (value_end == NULL)
    return 0;
  emit_argument(parser, key, (size_t)(key_end - key), value, (size_t)(value_end - value));
  parser->at += (size_t)(value_end - text) + strlen(format->value_end);
  lls_tool_take(parser);
  return 1;
}

static void end_arguments(struct lls_tool_parser *parser)
{
  if (parser->has_arguments)
    lls_tool_emit_arguments(parser, "}", 1);
}

bool lls_tool_step_keys(struct lls_tool_parser *parser)
{
  const struct lls_tool_format *format = parser->options.format;
  while (parser->at < parser->held.length &&
         lls_tool_is_space(parser->held.data[parser->at]))
    parser->at++;
  lls_tool_take(parser);
  const char *rest = parser->held.data;
  size_t n = parser->held.length;
  if (n == 0)
    return false;
  int ends = lls_tool_begins(rest, n, format->call_end);
  int key = lls_tool_begins(rest, n, format->key_begin);
  int taken = key > 0 ? take_argument(parser) : key;
  if (ends > 0) {
    end_arguments(parser);
    parser->at = strlen(format->call_end);
    lls_tool_take(parser);
    lls_tool_end_call(parser);
    return true;
  }
  if (ends < 0 && taken < 0) {
    end_arguments(parser);
    return lls_tool_give_up(parser);
  }
  return taken > 0;
}
