/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses {"name": ..., "arguments": ...}: the call is reported when its name is known,
 * and its arguments as they arrive. The members may come in any order, also inside a
 * member "function", and with unknown members between them.
 */
#include <string.h>

#include "core/base/json_parse.h"
#include "text/tools/tool_parser_internal.h"

static enum lls_tool_role role_of(const char *key, size_t n)
{
  static const struct {
    const char *key;
    enum lls_tool_role role;
  } roles[] = {
      {"name", LLS_TOOL_NAME},           {"tool_name", LLS_TOOL_NAME},
      {"arguments", LLS_TOOL_ARGUMENTS}, {"parameters", LLS_TOOL_ARGUMENTS},
      {"function", LLS_TOOL_WRAPPER},
  };
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
    if (n == strlen(roles[i].key) && memcmp(key, roles[i].key, n) == 0)
      return roles[i].role;
  return LLS_TOOL_OTHER;
}

/* Returns true if a call without a mark has a member that calls never have: the text is
 * then plain JSON. */
static bool is_strange(const struct lls_tool_parser *parser, const char *key, size_t n)
{
  static const char *const others[] = {"id", "type", "tool_call_id"};
  bool known = !parser->bare || parser->calling || parser->object.role != LLS_TOOL_OTHER;
  for (size_t i = 0; !known && i < sizeof others / sizeof *others; i++)
    known = n == strlen(others[i]) && memcmp(key, others[i], n) == 0;
  return !known;
}

/* Emits complete arguments. If they are a string, its content is the JSON. */
static void emit_whole(struct lls_tool_parser *parser, const char *bytes, size_t n)
{
  json_t *value = *bytes == '"'
                      ? lls_json_parse(bytes, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
                      : NULL;
  if (json_is_string(value))
    lls_tool_emit_arguments(parser, json_string_value(value), json_string_length(value));
  else if (n != 4 || memcmp(bytes, "null", 4) != 0)
    lls_tool_emit_arguments(parser, bytes, n);
  json_decref(value);
}

/* Stores a name. With a form, which may also have a member "name", an object without a
 * mark is a call only once arguments follow the name. */
static bool keep_name(struct lls_tool_parser *parser, const json_t *name)
{
  struct lls_tool_object *object = &parser->object;
  object->name = object->begin;
  object->name_end = parser->at;
  return object->arguments_end == 0 &&
         lls_tool_find(parser->options.tools, json_string_value(name),
                       json_string_length(name)) != NULL;
}

static bool begin_call(struct lls_tool_parser *parser, const char *quoted, size_t n)
{
  const struct lls_tool_object *object = &parser->object;
  json_t *name = lls_json_parse(quoted, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
  bool begun = json_is_string(name);
  if (begun && parser->bare && parser->options.form && object->name_end == 0)
    begun = keep_name(parser, name);
  else if (begun)
    begun =
        lls_tool_begin_call(parser, json_string_value(name), json_string_length(name));
  json_decref(name);
  if (begun && object->arguments_end > 0)
    emit_whole(parser, parser->held.data + object->arguments,
               object->arguments_end - object->arguments);
  return begun;
}

/* Handles the end of a value; `at` is after it. */
static bool end_value(struct lls_tool_parser *parser)
{
  struct lls_tool_object *object = &parser->object;
  const char *value = parser->held.data + object->begin;
  size_t n = parser->at - object->begin;
  bool name = object->role == LLS_TOOL_NAME || object->role == LLS_TOOL_WRAPPER;
  object->place = LLS_TOOL_AFTER_VALUE;
  if (name && !parser->calling)
    return begin_call(parser, value, n);
  if (object->role != LLS_TOOL_ARGUMENTS)
    return true;
  if (object->streamed)
    lls_tool_emit_arguments(parser, value, n);
  else if (parser->calling && !parser->has_arguments)
    emit_whole(parser, value, n);
  else if (!parser->calling) {
    object->arguments = object->begin;
    object->arguments_end = parser->at;
  }
  object->streamed = false;
  return true;
}

static bool begin_value(struct lls_tool_parser *parser, char byte)
{
  struct lls_tool_object *object = &parser->object;
  if (object->role == LLS_TOOL_WRAPPER && byte == '{' && object->depth == 0) {
    object->depth = 1;
    object->place = LLS_TOOL_BEFORE_KEY;
    parser->at++;
    return true;
  }
  if (object->role == LLS_TOOL_ARGUMENTS && object->name_end > 0 && !parser->calling &&
      (byte != '{' || !begin_call(parser, parser->held.data + object->name,
                                  object->name_end - object->name)))
    return false;
  object->place = LLS_TOOL_IN_VALUE;
  object->begin = parser->at;
  object->streamed = object->role == LLS_TOOL_ARGUMENTS && parser->calling &&
                     !parser->has_arguments && byte == '{';
  parser->scan = (struct lls_json_scan){0};
  return true;
}

static bool end_key(struct lls_tool_parser *parser)
{
  struct lls_tool_object *object = &parser->object;
  const char *key = parser->held.data + object->begin + 1;
  size_t n = parser->at - object->begin - 2;
  object->role = role_of(key, n);
  object->place = LLS_TOOL_BEFORE_COLON;
  if (parser->options.format->name_is_key && !parser->calling) {
    object->role = LLS_TOOL_ARGUMENTS;
    return begin_call(parser, key - 1, n + 2);
  }
  return !is_strange(parser, key, n);
}

/* Scans a byte of a key or a value. */
static bool scan_byte(struct lls_tool_parser *parser, char byte)
{
  enum lls_json_scan_result result = lls_json_scan(&parser->scan, byte);
  if (result == LLS_JSON_SCAN_BAD)
    return false;
  parser->at += result != LLS_JSON_SCAN_PAST;
  if (result == LLS_JSON_SCAN_MORE)
    return true;
  return parser->object.place == LLS_TOOL_IN_KEY ? end_key(parser) : end_value(parser);
}

/* Handles a closing brace: of the member "function", or of the call. */
static bool end_object(struct lls_tool_parser *parser)
{
  struct lls_tool_object *object = &parser->object;
  parser->at++;
  object->place = LLS_TOOL_AFTER_VALUE;
  if (object->depth > 0) {
    object->depth = 0;
    return true;
  }
  if (!parser->calling)
    return false;
  lls_tool_end_call(parser);
  return true;
}

/* Handles a byte between keys and values that is not white space. */
static bool pass_byte(struct lls_tool_parser *parser, char byte)
{
  static const struct {
    char byte;
    enum lls_tool_place next;
  } passes[] = {
      [LLS_TOOL_BEFORE_OBJECT] = {'{', LLS_TOOL_BEFORE_KEY},
      [LLS_TOOL_BEFORE_COLON] = {':', LLS_TOOL_BEFORE_VALUE},
      [LLS_TOOL_AFTER_VALUE] = {',', LLS_TOOL_BEFORE_KEY},
  };
  struct lls_tool_object *object = &parser->object;
  bool ends =
      object->place == LLS_TOOL_BEFORE_KEY || object->place == LLS_TOOL_AFTER_VALUE;
  if (byte == '}' && ends)
    return end_object(parser);
  if (object->place == LLS_TOOL_BEFORE_VALUE)
    return begin_value(parser, byte);
  if (object->place == LLS_TOOL_BEFORE_KEY) {
    object->begin = parser->at;
    object->place = LLS_TOOL_IN_KEY;
    parser->scan = (struct lls_json_scan){0};
    return byte == '"';
  }
  if (byte != passes[object->place].byte)
    return false;
  object->place = passes[object->place].next;
  parser->at++;
  return true;
}

/* Drops text of a reported call, except an incomplete key or value. */
static void forget(struct lls_tool_parser *parser)
{
  struct lls_tool_object *object = &parser->object;
  bool inside = object->place == LLS_TOOL_IN_KEY || object->place == LLS_TOOL_IN_VALUE;
  size_t kept = 0;
  if (inside && object->streamed)
    lls_tool_emit_arguments(parser, parser->held.data + object->begin,
                            parser->at - object->begin);
  else if (inside)
    kept = parser->at - object->begin;
  parser->at -= kept;
  lls_tool_take(parser);
  parser->at = kept;
  object->begin = 0;
}

bool lls_tool_step_object(struct lls_tool_parser *parser)
{
  struct lls_tool_object *object = &parser->object;
  while (parser->at < parser->held.length && parser->mode == LLS_TOOL_IN_OBJECT) {
    char byte = parser->held.data[parser->at];
    bool inside = object->place == LLS_TOOL_IN_KEY || object->place == LLS_TOOL_IN_VALUE;
    bool good = true;
    if (inside)
      good = scan_byte(parser, byte);
    else if (lls_tool_is_space(byte))
      parser->at++;
    else
      good = pass_byte(parser, byte);
    if (!good) {
      if (parser->calling)
        forget(parser);
      return lls_tool_give_up(parser);
    }
  }
  if (parser->calling)
    forget(parser);
  else if (parser->mode != LLS_TOOL_IN_OBJECT)
    lls_tool_take(parser);
  return parser->mode != LLS_TOOL_IN_OBJECT;
}
