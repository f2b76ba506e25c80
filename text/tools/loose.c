/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments that are nearly JSON, or Python's: keys without quotes, and strings between
 * marks. Gemma 4 writes {city:<|"|>Bern<|"|>,days:3}, LFM2 (city="Bern", days=3). They
 * are converted while they arrive, a string piece by piece.
 */
#include <string.h>

#include "text/tools/tool_parser_internal.h"

#define BARE_BYTES 256 /* most of a key or a number */

static void emit(struct lls_tool_parser *parser, const char *text)
{
  lls_tool_emit_arguments(parser, text, strlen(text));
}

/* Emits bytes of a string as JSON has them. */
static void emit_escaped(struct lls_tool_parser *parser, const char *bytes, size_t n)
{
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    unsigned char byte = (unsigned char)bytes[i];
    char code[] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
    if (byte == '\n')
      emit(parser, "\\n");
    else if (byte < 0x20)
      lls_tool_emit_arguments(parser, code, sizeof code);
    else if (byte == '"' || byte == '\\')
      lls_tool_emit_arguments(parser, (const char[]){'\\', (char)byte}, 2);
    else
      lls_tool_emit_arguments(parser, bytes + i, 1);
  }
}

static void pass(struct lls_tool_parser *parser, size_t n)
{
  parser->at += n;
  lls_tool_take(parser);
}

/* The mark that begins a string at the front of held: 1, 0 if it may, -1. */
static int string_begins(const struct lls_tool_parser *parser, const char **mark)
{
  const char *own = parser->options.format->value_begin;
  const char *const marks[] = {own != NULL ? own : "\"", "\"", "'"};
  int best = -1;
  for (size_t i = 0; i < 3 && best <= 0; i++) {
    int begins = lls_tool_begins(parser->held.data, parser->held.length, marks[i]);
    *mark = marks[i];
    best = begins > best ? begins : best;
  }
  return best;
}

/* ---- brackets --------------------------------------------------------------------- */

static bool in_object(const struct lls_tool_loose *l)
{
  return (l->objects >> (l->depth - 1) & 1) != 0;
}

static void open_bracket(struct lls_tool_parser *parser, bool object)
{
  struct lls_tool_loose *l = &parser->loose;
  uint64_t bit = UINT64_C(1) << l->depth++;
  l->objects = object ? l->objects | bit : l->objects & ~bit;
  l->first = true;
  l->place = object ? LLS_LOOSE_KEY : LLS_LOOSE_ELEMENT;
  emit(parser, object ? "{" : "[");
}

static bool close_bracket(struct lls_tool_parser *parser)
{
  struct lls_tool_loose *l = &parser->loose;
  emit(parser, in_object(l) ? "}" : "]");
  l->depth--;
  l->first = false;
  l->place = LLS_LOOSE_AFTER;
  if (l->depth == 0)
    lls_tool_end_call(parser);
  return true;
}

static bool is_close(char byte)
{
  return byte == '}' || byte == ')' || byte == ']';
}

/* ---- keys and values -------------------------------------------------------------- */

/* Finds the first of some bytes, within BARE_BYTES. Returns like lls_tool_begins. */
static int find_byte(const struct lls_tool_parser *parser, const char *bytes, size_t *at)
{
  size_t n = parser->held.length, most = n < BARE_BYTES ? n : BARE_BYTES;
  for (*at = 0; *at < most; ++*at)
    if (strchr(bytes, parser->held.data[*at]) != NULL)
      return 1;
  return n < BARE_BYTES ? 0 : -1;
}

static void emit_key(struct lls_tool_parser *parser, const char *key, size_t n)
{
  while (n > 0 && lls_tool_is_space(key[n - 1]))
    n--;
  emit(parser, parser->loose.first ? "\"" : ", \"");
  emit_escaped(parser, key, n);
  emit(parser, "\": ");
  parser->loose.first = false;
  parser->loose.place = LLS_LOOSE_VALUE;
}

/* Returns like lls_tool_begins; -1: there is no key. */
static int take_key(struct lls_tool_parser *parser)
{
  const char *mark, *text = parser->held.data, *end;
  size_t n = parser->held.length, at = 0;
  int quoted = string_begins(parser, &mark);
  if (quoted == 0)
    return 0;
  if (quoted < 0) {
    int found = find_byte(parser, ":=", &at);
    if (found > 0) {
      emit_key(parser, text, at);
      pass(parser, at + 1);
    }
    return found;
  }
  size_t begin = strlen(mark);
  int near = lls_tool_find_near(text + begin, n - begin, mark, BARE_BYTES, &end);
  if (near <= 0)
    return near;
  at = (size_t)(end - text) + begin;
  while (at < n && lls_tool_is_space(text[at]))
    at++;
  if (at == n)
    return 0;
  if (text[at] != ':' && text[at] != '=')
    return -1;
  emit_key(parser, text + begin, (size_t)(end - text) - begin);
  pass(parser, at + 1);
  return 1;
}

static bool is_literal(const char *text, size_t n)
{
  static const char *const words[] = {"true", "false", "null", "True", "False", "None"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strlen(words[i]) == n && memcmp(words[i], text, n) == 0)
      return true;
  bool number = n > 0 && strchr("-0123456789", text[0]) != NULL;
  for (size_t i = 0; number && i < n; i++)
    number = strchr("+-.eE0123456789", text[i]) != NULL;
  return number;
}

/* A number or a word, up to what follows a value. A word that JSON does not have is a
 * string without its marks. */
static int take_bare(struct lls_tool_parser *parser)
{
  size_t at;
  int found = find_byte(parser, ",}])", &at);
  if (found <= 0)
    return found;
  size_t n = at;
  while (n > 0 && lls_tool_is_space(parser->held.data[n - 1]))
    n--;
  if (n == 0)
    return -1;
  if (is_literal(parser->held.data, n)) {
    lls_tool_emit_arguments(parser, parser->held.data, n);
  } else {
    emit(parser, "\"");
    emit_escaped(parser, parser->held.data, n);
    emit(parser, "\"");
  }
  parser->loose.place = LLS_LOOSE_AFTER;
  parser->loose.first = false;
  pass(parser, at);
  return 1;
}

static int take_value(struct lls_tool_parser *parser)
{
  struct lls_tool_loose *l = &parser->loose;
  char byte = parser->held.data[0];
  if (l->place == LLS_LOOSE_ELEMENT && is_close(byte)) {
    pass(parser, 1);
    return close_bracket(parser);
  }
  const char *mark;
  int quoted = string_begins(parser, &mark);
  if (quoted == 0)
    return 0;
  bool bracket = byte == '{' || byte == '[' || byte == '(';
  if (bracket && l->depth == 64)
    return -1;
  if (l->place == LLS_LOOSE_ELEMENT && !l->first && (quoted > 0 || bracket))
    emit(parser, ", ");
  if (quoted > 0) {
    l->mark = mark;
    l->first = false;
    l->place = LLS_LOOSE_STRING;
    emit(parser, "\"");
    pass(parser, strlen(mark));
    return 1;
  }
  if (bracket) {
    pass(parser, 1);
    open_bracket(parser, byte == '{');
    return 1;
  }
  size_t at;
  if (l->place == LLS_LOOSE_ELEMENT && !l->first && find_byte(parser, ",}])", &at) > 0)
    emit(parser, ", ");
  return take_bare(parser);
}

/* ---- strings ---------------------------------------------------------------------- */

/* Takes an escaped byte of a string in quotes, of n bytes from the backslash on. */
static size_t take_escape(struct lls_tool_parser *parser, const char *text, size_t n)
{
  if (n < 2)
    return 0;
  const char *known = strchr("nrtbf/u\"\\", text[1]);
  if (known == NULL || text[1] == '\0')
    emit_escaped(parser, text + 1, 1);
  else
    lls_tool_emit_arguments(parser, text, 2);
  return 2;
}

static bool take_string(struct lls_tool_parser *parser)
{
  struct lls_tool_loose *l = &parser->loose;
  const char *text = parser->held.data;
  size_t n = parser->held.length, at = 0;
  bool quotes = l->mark[1] == '\0';
  int ends = -1;
  while (at < n && (ends = lls_tool_begins(text + at, n - at, l->mark)) < 0) {
    bool escape = quotes && text[at] == '\\';
    size_t taken = escape ? take_escape(parser, text + at, n - at) : 1;
    if (taken == 0)
      break;
    if (!escape)
      emit_escaped(parser, text + at, 1);
    at += taken;
  }
  if (ends > 0) {
    emit(parser, "\"");
    l->place = LLS_LOOSE_AFTER;
    at += strlen(l->mark);
  }
  pass(parser, at);
  return ends > 0;
}

/* ---- steps ------------------------------------------------------------------------ */

void lls_tool_begin_loose(struct lls_tool_parser *parser)
{
  parser->loose = (struct lls_tool_loose){0};
  parser->mode = LLS_TOOL_IN_LOOSE;
  open_bracket(parser, true);
}

static int step_between(struct lls_tool_parser *parser)
{
  struct lls_tool_loose *l = &parser->loose;
  char byte = parser->held.data[0];
  bool comma = byte == ',';
  if (l->place == LLS_LOOSE_AFTER || (l->place == LLS_LOOSE_KEY && is_close(byte))) {
    if (!comma && !is_close(byte))
      return -1;
    pass(parser, 1);
    if (!comma)
      return close_bracket(parser);
    l->place = in_object(l) ? LLS_LOOSE_KEY : LLS_LOOSE_ELEMENT;
    return 1;
  }
  return l->place == LLS_LOOSE_KEY ? take_key(parser) : take_value(parser);
}

bool lls_tool_step_loose(struct lls_tool_parser *parser)
{
  if (parser->loose.place == LLS_LOOSE_STRING)
    return take_string(parser);
  while (parser->at < parser->held.length &&
         lls_tool_is_space(parser->held.data[parser->at]))
    parser->at++;
  lls_tool_take(parser);
  if (parser->held.length == 0)
    return false;
  int rc = step_between(parser);
  return rc < 0 ? lls_tool_give_up(parser) : rc > 0;
}
