/* SPDX-License-Identifier: Apache-2.0 */
/* Parses calls from their mark to their end, except the inside of objects; see
 * tool_parser_internal.h. */
#include <string.h>

#include "text/tools/tool_parser_internal.h"

static void skip_space(struct lls_tool_parser *parser)
{
  while (parser->at < parser->held.length &&
         lls_tool_is_space(parser->held.data[parser->at]))
    parser->at++;
}

bool lls_tool_step_call(struct lls_tool_parser *parser)
{
  skip_space(parser);
  if (parser->at == parser->held.length)
    return false;
  char byte = parser->held.data[parser->at];
  enum lls_tool_shape shape = parser->options.format->shape;
  if (byte == '[' && !parser->in_list) {
    parser->in_list = true;
    parser->at++;
    return true;
  }
  if (byte == '{') {
    parser->object = (struct lls_tool_object){0};
    parser->mode = LLS_TOOL_IN_OBJECT;
    return true;
  }
  /* Mistral's newer format has the same mark as its older one */
  bool named =
      shape != LLS_TOOL_JSON || strcmp(parser->options.format->name, "mistral") == 0;
  if ((parser->in_list && shape != LLS_TOOL_LOOSE) || !named)
    return lls_tool_give_up(parser);
  parser->mode = LLS_TOOL_IN_NAME;
  return true;
}

/* Finds the name at the end of a text that ends where the arguments begin. */
static const char *find_name(const struct lls_tool_format *format, const char *text,
                             size_t *n)
{
  const char *begin = format->name_begin;
  const char *found = begin != NULL ? memmem(text, *n, begin, strlen(begin)) : NULL;
  if (found != NULL) {
    *n -= (size_t)(found - text) + strlen(begin);
    text = found + strlen(begin);
  }
  *n = lls_tool_name_length(text, *n);
  return text;
}

/* NAMED: reads up to name_end. */
static bool step_named(struct lls_tool_parser *parser)
{
  const struct lls_tool_format *format = parser->options.format;
  const char *text = parser->held.data + parser->at;
  const char *mark = format->name_end != NULL ? format->name_end : "[ARGS]";
  size_t n = parser->held.length - parser->at, length = lls_tool_name_length(text, n);
  const char *end;
  int near = lls_tool_find_near(text, n, mark, LLS_TOOL_NAME_BYTES, &end);
  bool other = length < n && format->name_begin == NULL && text[length] != mark[0];
  if (near == 0 && !other)
    return false;
  if (near < 0 || other)
    return lls_tool_give_up(parser);
  size_t name_length = (size_t)(end - text);
  const char *name = find_name(format, text, &name_length);
  bool content = format->not_a_name != NULL &&
                 name_length == strlen(format->not_a_name) &&
                 memcmp(name, format->not_a_name, name_length) == 0;
  if (!content && !lls_tool_begin_call(parser, name, name_length))
    return lls_tool_give_up(parser);
  parser->at = (size_t)(end - parser->held.data) + strlen(mark);
  lls_tool_take(parser);
  parser->scan = (struct lls_json_scan){0};
  parser->mode = content ? LLS_TOOL_IN_CONTENT : LLS_TOOL_IN_ARGUMENTS;
  return true;
}

/* Moves *end behind a mark that follows it at some distance. Returns like
 * lls_tool_find_near. */
static int pass_header(const char *mark, const char *text, size_t n, size_t *end)
{
  const char *found;
  int near = lls_tool_find_near(text + *end, n - *end, mark, LLS_TOOL_NAME_BYTES, &found);
  if (near > 0)
    *end = (size_t)(found - text) + strlen(mark);
  return near;
}

/* KEYED, TAGGED, LOOSE: returns -1, 0 or 1 like lls_tool_begins; *end is where the
 * arguments begin. */
static int read_keyed_name(const struct lls_tool_format *format, const char *text,
                           size_t n, size_t *name, size_t *length, size_t *end)
{
  *name = format->name_begin != NULL ? strlen(format->name_begin) : 0;
  int begins = *name > 0 ? lls_tool_begins(text, n, format->name_begin) : 1;
  if (begins <= 0)
    return begins;
  *length = lls_tool_name_length(text + *name, n - *name);
  *end = *name + *length;
  if (*end >= LLS_TOOL_NAME_BYTES)
    return -1;
  if (*end == n)
    return 0;
  if (format->name_end == NULL)
    return 1;
  begins = lls_tool_begins(text + *end, n - *end, format->name_end);
  *end += strlen(format->name_end);
  return begins > 0 && format->name_over != NULL
             ? pass_header(format->name_over, text, n, end)
             : begins;
}

static bool step_keyed(struct lls_tool_parser *parser)
{
  const char *text = parser->held.data + parser->at;
  size_t name = 0, length = 0, end = 0;
  int read = read_keyed_name(parser->options.format, text,
                             parser->held.length - parser->at, &name, &length, &end);
  if (read == 0)
    return false;
  if (read < 0 || !lls_tool_begin_call(parser, text + name, length)) {
    parser->at += parser->bare; /* skips the mark, which would be found again */
    return lls_tool_give_up(parser);
  }
  parser->at += end;
  lls_tool_take(parser);
  parser->mode = LLS_TOOL_IN_KEYS;
  if (parser->options.format->shape == LLS_TOOL_LOOSE)
    lls_tool_begin_loose(parser);
  else if (parser->options.format->shape == LLS_TOOL_TAGGED)
    parser->mode = LLS_TOOL_IN_TAGS;
  return true;
}

bool lls_tool_step_name(struct lls_tool_parser *parser)
{
  enum lls_tool_shape shape = parser->options.format->shape;
  bool keyed =
      shape == LLS_TOOL_KEYED || shape == LLS_TOOL_TAGGED || shape == LLS_TOOL_LOOSE;
  return keyed ? step_keyed(parser) : step_named(parser);
}

bool lls_tool_step_arguments(struct lls_tool_parser *parser)
{
  if (!parser->has_arguments) {
    skip_space(parser);
    lls_tool_take(parser);
    if (parser->held.length == 0)
      return false;
    if (parser->held.data[0] != '{') {
      lls_tool_end_call(parser);
      return true;
    }
  }
  enum lls_json_scan_result result = LLS_JSON_SCAN_MORE;
  while (parser->at < parser->held.length && result == LLS_JSON_SCAN_MORE)
    result = lls_json_scan(&parser->scan, parser->held.data[parser->at++]);
  if (result == LLS_JSON_SCAN_BAD)
    parser->at--;
  lls_tool_emit_arguments(parser, parser->held.data, parser->at);
  lls_tool_take(parser);
  if (result == LLS_JSON_SCAN_BAD)
    return lls_tool_give_up(parser);
  if (result == LLS_JSON_SCAN_DONE)
    lls_tool_end_call(parser);
  return result == LLS_JSON_SCAN_DONE;
}

/* Returns true if the byte can begin another call without a mark. */
static bool is_next(struct lls_tool_parser *parser, char byte)
{
  const struct lls_tool_format *format = parser->options.format;
  bool object = format->shape == LLS_TOOL_JSON && byte == '{';
  bool separator = format->shape == LLS_TOOL_JSON && (byte == ',' || byte == ';');
  if (parser->in_list ? byte == ',' : separator && format->bare) {
    parser->at++;
    return true;
  }
  return !parser->in_list && object;
}

bool lls_tool_step_after(struct lls_tool_parser *parser)
{
  const struct lls_tool_format *format = parser->options.format;
  skip_space(parser);
  const char *rest = parser->held.data + parser->at;
  size_t n = parser->held.length - parser->at;
  if (n == 0)
    return false;
  if (parser->in_list && *rest == ']') {
    parser->in_list = false;
    parser->at++;
    lls_tool_take(parser);
    return true;
  }
  int closes = format->close != NULL ? lls_tool_begins(rest, n, format->close) : -1;
  int opens = format->lasting ? lls_tool_begins(rest, n, format->name_begin) : -1;
  if (closes > 0) {
    parser->at += strlen(format->close);
    parser->mode = LLS_TOOL_IN_CONTENT;
    lls_tool_take(parser);
  } else if (opens > 0 || (closes < 0 && is_next(parser, *rest))) {
    parser->mode = LLS_TOOL_AT_CALL;
  } else if (closes < 0 && opens < 0) {
    return lls_tool_give_up(parser);
  }
  return closes > 0 || opens > 0 || parser->mode != LLS_TOOL_AFTER_CALL;
}
