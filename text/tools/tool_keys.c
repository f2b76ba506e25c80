/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments between marks of their own, as Qwen3-Coder, GLM and MiniMax write them.
 * They are converted to JSON one by one: to a string if the tool's schema allows a
 * string, or if the text is of no other type that the schema allows.
 *
 * A value may contain text that looks like a mark, and its end mark may be missing. So
 * a value ends at a mark after which the call continues correctly, or at the next key
 * that the tool has, or at the end of the call.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/json_parse.h"
#include "text/tools/tool_parser_internal.h"
#include "text/tools/tool_types.h"

const json_t *lls_tool_parameters(const struct lls_tool_parser *parser)
{
  const struct lls_tool_answer *answer = parser->answer;
  const char *name = answer->n_calls > 0 ? answer->calls[answer->n_calls - 1].name : "";
  const json_t *function = lls_tool_find(parser->options.tools, name, strlen(name));
  return json_object_get(function, "parameters");
}

/* ---- values ------------------------------------------------------------------------ */

static void emit_json(struct lls_tool_parser *parser, const json_t *value)
{
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  if (text != NULL)
    lls_tool_emit_arguments(parser, text, strlen(text));
  else
    parser->answer->failed = true;
  free(text);
}

/* Returns true if a JSON value is of one of these types. */
static bool fits(const json_t *value, unsigned types)
{
  bool number = json_is_number(value), boolean = json_is_boolean(value);
  bool structure = json_is_object(value) || json_is_array(value);
  return (number && (types & LLS_TOOL_TYPE_NUMBER) != 0) ||
         (boolean && (types & LLS_TOOL_TYPE_BOOLEAN) != 0) ||
         (json_is_null(value) && (types & LLS_TOOL_TYPE_NULL) != 0) ||
         (structure && (types & LLS_TOOL_TYPE_STRUCTURE) != 0) ||
         (json_is_string(value) && types == LLS_TOOL_TYPE_ANY);
}

/* Emits the text as JSON with its digits unchanged. Returns false if it is not JSON of
 * these types. */
static bool emit_as_json(struct lls_tool_parser *parser, unsigned types, const char *text,
                         size_t n)
{
  struct lls_json_repair repair = {0};
  struct lls_text good = {0};
  lls_json_repair(&repair, text, n, &good);
  lls_json_repair_end(&repair, &good);
  json_t *value = good.length > 0 ? lls_json_parse(good.data, good.length,
                                                   JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
                                  : NULL;
  bool emitted = value != NULL && fits(value, types);
  if (emitted)
    lls_tool_emit_arguments(parser, good.data, good.length);
  parser->answer->failed |= good.failed;
  json_decref(value);
  lls_text_free(&good);
  return emitted;
}

void lls_tool_emit_value(struct lls_tool_parser *parser, unsigned types, const char *text,
                         size_t n)
{
  bool any = types == LLS_TOOL_TYPE_ANY;
  unsigned others =
      any || (types & LLS_TOOL_TYPE_STRING) == 0 ? types : types & LLS_TOOL_TYPE_NULL;
  size_t from = 0, to = n;
  while (from < to && lls_tool_is_space(text[from]))
    from++;
  while (to > from && lls_tool_is_space(text[to - 1]))
    to--;
  if (others != 0 && emit_as_json(parser, others, text + from, to - from))
    return;
  json_t *value = json_stringn(text, n);
  emit_json(parser, value);
  json_decref(value);
}

/* A key and its value in the held text. */
struct argument {
  const char *key, *value, *end; /* end: of the value */
  size_t key_length;
  const char *said; /* text between key_end and value_begin: deepseek_v3.2's true or
                     * false, kimi_k3's type */
  size_t said_length;
  const char *next; /* after the value and its mark */
};

/* Returns the key as a JSON string; NULL if it is not UTF-8 or memory is short. */
static json_t *read_key(const struct lls_tool_parser *parser, const char *text,
                        size_t length)
{
  static const struct {
    const char *text;
    size_t length;
    char byte;
  } escapes[] = {{"&quot;", 6, '"'}, {"&amp;", 5, '&'}};
  char key[LLS_TOOL_NAME_BYTES];
  size_t n = 0;
  if (!parser->options.format->escaped || length > sizeof key)
    return json_stringn(text, length);
  for (size_t at = 0, taken; at < length; at += taken) {
    key[n] = text[at];
    taken = 1;
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
      if (length - at >= escapes[i].length &&
          memcmp(text + at, escapes[i].text, escapes[i].length) == 0) {
        key[n] = escapes[i].byte;
        taken = escapes[i].length;
      }
    n++;
  }
  return json_stringn(key, n);
}

static bool says(const struct argument *a, const char *word)
{
  return a->said_length == strlen(word) && memcmp(a->said, word, a->said_length) == 0;
}

static unsigned types_of(const struct lls_tool_parser *parser, const struct argument *a,
                         const json_t *name)
{
  const json_t *parameters = lls_tool_parameters(parser);
  const char *key = json_string_value(name);
  const json_t *schema =
      key != NULL ? json_object_get(json_object_get(parameters, "properties"), key)
                  : NULL;
  unsigned types = lls_tool_types(parameters, schema);
  if (says(a, "true") || says(a, "string"))
    return LLS_TOOL_TYPE_STRING;
  static const char *const others[] = {"false", "number", "boolean",
                                       "null",  "object", "array"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (says(a, others[i]))
      return types == LLS_TOOL_TYPE_ANY ? types : LLS_TOOL_TYPE_ANY & ~1u;
  return types;
}

/* A line break at either end of the value belongs to the marks, unless the format says
 * otherwise. */
static void emit_argument(struct lls_tool_parser *parser, const struct argument *a)
{
  json_t *name = read_key(parser, a->key, a->key_length);
  const char *value = a->value;
  size_t n = (size_t)(a->end - a->value);
  bool breaks = !parser->options.format->exact;
  if (breaks && n > 0 && *value == '\n') {
    value++;
    n--;
  }
  if (breaks && n > 0 && value[n - 1] == '\n')
    n--;
  lls_tool_emit_arguments(parser, parser->has_arguments ? ", " : "{",
                          parser->has_arguments ? 2 : 1);
  emit_json(parser, name);
  lls_tool_emit_arguments(parser, ": ", 2);
  lls_tool_emit_value(parser, types_of(parser, a, name), value, n);
  json_decref(name);
}

/* ---- the end of a value ---------------------------------------------------------- */

static const char *find(const char *text, const char *end, const char *mark)
{
  return memmem(text, (size_t)(end - text), mark, strlen(mark));
}

static const char *skip(const char *text, const char *end)
{
  while (text < end && lls_tool_is_space(*text))
    text++;
  return text;
}

/* Returns 1 if one of these marks (NULL: none) follows, 0 if it may, or -1. */
static int follows(const char *text, const char *end, const char *const *marks, size_t n)
{
  int best = -1;
  text = skip(text, end);
  for (size_t i = 0; i < n; i++) {
    int begins =
        marks[i] != NULL ? lls_tool_begins(text, (size_t)(end - text), marks[i]) : -1;
    best = begins > best ? begins : best;
  }
  return best;
}

/* After a value's end mark: returns whether the next key, or the end of the call,
 * follows. */
static int goes_on(const struct lls_tool_format *f, const char *text, const char *end)
{
  const char *const marks[] = {f->key_begin, f->call_end, f->close, f->open[0]};
  return follows(text, end, marks, 4);
}

/* After a call's end mark: returns whether the end of all calls, or the next call,
 * follows. */
static int is_past_call(const struct lls_tool_format *f, const char *text,
                        const char *end)
{
  const char *const marks[] = {f->close,      f->open[0],   f->open[1],
                               f->name_begin, f->around[0], f->around[1]};
  return follows(text, end, marks, 6);
}

/* At a key mark inside a value: returns 1 if the key is a parameter of the tool, 0 if
 * it is not known yet, or -1. */
static int is_key(const struct lls_tool_parser *parser, const char *text, const char *end)
{
  const struct lls_tool_format *f = parser->options.format;
  const char *key = text + strlen(f->key_begin), *key_end;
  int near = lls_tool_find_near(key, (size_t)(end - key), f->key_end, LLS_TOOL_NAME_BYTES,
                                &key_end);
  if (near <= 0)
    return near;
  json_t *name = read_key(parser, key, (size_t)(key_end - key));
  const json_t *properties = json_object_get(lls_tool_parameters(parser), "properties");
  bool known = json_is_string(name) &&
               json_object_get(properties, json_string_value(name)) != NULL;
  json_decref(name);
  return known ? 1 : -1;
}

static const char *earlier(const char *a, const char *b)
{
  return a == NULL || (b != NULL && b < a) ? b : a;
}

/* Finds the end of the value. Returns 1, or 0 if more text is needed. `over`: no more
 * text comes. */
static int find_end(const struct lls_tool_parser *parser, const char *end, bool over,
                    struct argument *a)
{
  const struct lls_tool_format *f = parser->options.format;
  for (const char *from = a->value, *at; from < end; from = at + 1) {
    const char *value_end = find(from, end, f->value_end);
    const char *key = find(from, end, f->key_begin);
    const char *call_end = find(from, end, f->call_end);
    at = earlier(value_end, earlier(key, call_end));
    if (at == NULL)
      break;
    const char *behind = at + strlen(at == value_end ? f->value_end : f->call_end);
    int ends = at == value_end ? goes_on(f, behind, end)
               : at == key     ? is_key(parser, at, end)
                               : is_past_call(f, behind, end);
    bool last = over && at != key && (ends == 0 || skip(behind, end) == end);
    if (ends == 0 && !over)
      return 0;
    if (ends <= 0 && !last)
      continue;
    a->end = at;
    a->next = at == value_end ? behind : at;
    return 1;
  }
  return 0;
}

/* ---- steps ------------------------------------------------------------------------- */

/* Takes an argument at a key mark. Returns 1 if it was taken, 0 if more text is needed,
 * -1 if there is no argument. */
static int take_argument(struct lls_tool_parser *parser, bool over)
{
  const struct lls_tool_format *format = parser->options.format;
  const char *text = parser->held.data + parser->at;
  const char *end = parser->held.data + parser->held.length;
  struct argument a = {.key = text + strlen(format->key_begin)};
  const char *key_end, *begin;
  int near = lls_tool_find_near(a.key, (size_t)(end - a.key), format->key_end,
                                LLS_TOOL_NAME_BYTES, &key_end);
  if (near <= 0)
    return near;
  a.key_length = (size_t)(key_end - a.key);
  a.value = key_end + strlen(format->key_end);
  const char *opens = format->value_begin;
  near = opens == NULL ? 1
                       : lls_tool_find_near(a.value, (size_t)(end - a.value), opens,
                                            LLS_TOOL_NAME_BYTES, &begin);
  if (near <= 0)
    return near;
  if (opens != NULL) {
    a.said = a.value;
    a.said_length = (size_t)(begin - a.value);
    a.value = begin + strlen(opens);
  }
  if (find_end(parser, end, over, &a) == 0)
    return 0;
  emit_argument(parser, &a);
  parser->at += (size_t)(a.next - text);
  lls_tool_take(parser);
  return 1;
}

static void end_arguments(struct lls_tool_parser *parser)
{
  if (parser->has_arguments)
    lls_tool_emit_arguments(parser, "}", 1);
}

static void take_space(struct lls_tool_parser *parser)
{
  while (parser->at < parser->held.length &&
         lls_tool_is_space(parser->held.data[parser->at]))
    parser->at++;
  lls_tool_take(parser);
}

/* Finds the end mark of a call, or, if that was omitted, of all calls. Returns like
 * lls_tool_begins. */
static int find_call_end(const struct lls_tool_parser *parser, size_t *length)
{
  const struct lls_tool_format *format = parser->options.format;
  const char *const marks[] = {format->call_end, format->close};
  int best = -1;
  for (size_t i = 0; i < 2 && best <= 0; i++) {
    int begins = marks[i] != NULL
                     ? lls_tool_begins(parser->held.data, parser->held.length, marks[i])
                     : -1;
    best = begins > best ? begins : best;
    *length = begins > 0 && i == 0 ? strlen(marks[i]) : 0;
  }
  return best;
}

bool lls_tool_step_keys(struct lls_tool_parser *parser)
{
  const struct lls_tool_format *format = parser->options.format;
  take_space(parser);
  const char *rest = parser->held.data;
  size_t n = parser->held.length, length = 0;
  if (n == 0)
    return false;
  int ends = find_call_end(parser, &length);
  int key = lls_tool_begins(rest, n, format->key_begin);
  int taken = key > 0 ? take_argument(parser, false) : key;
  if (ends > 0) {
    end_arguments(parser);
    parser->at = length; /* step_after handles the mark after all calls */
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

void lls_tool_finish_keys(struct lls_tool_parser *parser, bool cut)
{
  const char *begin = parser->options.format->key_begin;
  size_t length;
  take_space(parser);
  while (parser->held.length > 0 &&
         lls_tool_begins(parser->held.data, parser->held.length, begin) > 0 &&
         take_argument(parser, true) > 0)
    take_space(parser);
  if (cut || (parser->held.length > 0 && find_call_end(parser, &length) <= 0))
    return;
  lls_text_clear(&parser->held);
  end_arguments(parser);
}
