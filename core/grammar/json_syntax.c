/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of JSON texts (RFC 8259), and pieces of it; see json_syntax.h. */
#include "core/grammar/json_syntax.h"

#include "core/tokenizer/utf8.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(ARRAY) ((uint32_t)(sizeof(ARRAY) / sizeof((ARRAY)[0])))

static const struct lls_grammar_range hex[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
static const struct lls_grammar_range every[] = {{0, 0x10FFFF}};

/* ---- rows and choices ---- */

uint32_t lls_json_row(struct lls_json_syntax *json, const uint32_t *parts, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (parts[i] == json->nothing)
      return json->nothing;
  return lls_grammar_sequence(json->tree, parts, n);
}

uint32_t lls_json_one_of(struct lls_json_syntax *json, const uint32_t *parts, uint32_t n)
{
  uint32_t few[16], *kept = n <= COUNT(few) ? few : malloc(n * sizeof *kept), m = 0;
  if (kept == NULL)
    return lls_grammar_fail(json->tree, "no memory for the grammar");
  for (uint32_t i = 0; i < n; i++)
    if (parts[i] != json->nothing)
      kept[m++] = parts[i];
  uint32_t node = m == 0 ? json->nothing : lls_grammar_choice(json->tree, kept, m);
  if (kept != few)
    free(kept);
  return node;
}

uint32_t lls_json_maybe(struct lls_json_syntax *json, uint32_t part)
{
  return part == json->nothing ? json->empty : lls_grammar_repeat(json->tree, part, 0, 1);
}

uint32_t lls_json_bytes(struct lls_json_syntax *json, const char *bytes)
{
  return lls_grammar_literal(json->tree, bytes, strlen(bytes));
}

uint32_t lls_json_list(struct lls_json_syntax *json, uint32_t part, uint32_t min,
                       uint32_t max)
{
  if (min > max || (part == json->nothing && min > 0))
    return json->nothing;
  if (max == 0 || part == json->nothing)
    return json->empty;
  uint32_t next = LLS_JSON_ROW(json, lls_json_bytes(json, ","), json->space, part);
  uint32_t more = max == LLS_GRAMMAR_UNBOUNDED ? max : max - 1;
  uint32_t some = LLS_JSON_ROW(
      json, part, lls_grammar_repeat(json->tree, next, min > 0 ? min - 1 : 0, more));
  return min > 0 ? some : lls_json_maybe(json, some);
}

/* ---- characters of strings ---- */

static bool has(const struct lls_grammar_range *ranges, uint32_t n, uint32_t point)
{
  for (uint32_t i = 0; i < n; i++)
    if (ranges[i].first <= point && point <= ranges[i].last)
      return true;
  return false;
}

/* The short escape of a character, or 0. */
static char short_escape(uint32_t point)
{
  static const char escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (size_t i = 0; i + 1 < sizeof escapes; i += 2)
    if ((uint32_t)escapes[i] == point)
      return escapes[i + 1];
  return 0;
}

/* The escapes, after a backslash, of those characters that cannot stand for themselves.
 */
static uint32_t escapes_of(struct lls_grammar_tree *tree,
                           const struct lls_grammar_range *ranges, uint32_t n)
{
  struct lls_grammar_range shorts[7];
  uint32_t parts[33], n_shorts = 0, n_parts = 0, controls = 0;
  for (uint32_t point = 0; point <= '\\'; point++) {
    if (short_escape(point) != 0 && has(ranges, n, point))
      shorts[n_shorts++] = (struct lls_grammar_range){(uint32_t)short_escape(point),
                                                      (uint32_t)short_escape(point)};
    controls += point < ' ' && has(ranges, n, point);
  }
  if (n_shorts > 0)
    parts[n_parts++] = lls_grammar_class(tree, shorts, n_shorts);
  if (controls == ' ') {
    uint32_t all[] = {
        lls_grammar_literal(tree, "u00", 3),
        lls_grammar_class(tree, (struct lls_grammar_range[]){{'0', '1'}}, 1),
        lls_grammar_class(tree, hex, COUNT(hex))};
    parts[n_parts++] = lls_grammar_sequence(tree, all, COUNT(all));
  }
  for (uint32_t point = 0; point < ' ' && controls < ' '; point++)
    if (short_escape(point) == 0 && has(ranges, n, point)) {
      static const char digits[] = "0123456789abcdef";
      char text[] = {'u', '0', '0', digits[point >> 4], digits[point & 15]};
      parts[n_parts++] = lls_grammar_literal(tree, text, sizeof text);
    }
  return n_parts == 0 ? LLS_GRAMMAR_NONE : lls_grammar_choice(tree, parts, n_parts);
}

/* The ranges without ", \ and control characters; `out` has room for n + 3. */
static uint32_t unescaped(const struct lls_grammar_range *ranges, uint32_t n,
                          struct lls_grammar_range *out)
{
  static const struct lls_grammar_range clear[] = {
      {' ', '!'}, {'#', '['}, {']', 0x10FFFF}};
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < COUNT(clear); k++) {
      uint32_t first =
          ranges[i].first > clear[k].first ? ranges[i].first : clear[k].first;
      uint32_t last = ranges[i].last < clear[k].last ? ranges[i].last : clear[k].last;
      if (first <= last)
        out[m++] = (struct lls_grammar_range){first, last};
    }
  return m;
}

uint32_t lls_json_class(struct lls_grammar_tree *tree,
                        const struct lls_grammar_range *ranges, uint32_t n)
{
  struct lls_grammar_range *clear = calloc((size_t)n * 3 + 1, sizeof *clear);
  if (clear == NULL)
    return lls_grammar_fail(tree, "no memory for the grammar");
  uint32_t n_clear = unescaped(ranges, n, clear);
  uint32_t plain = lls_grammar_class(tree, clear, n_clear);
  free(clear);
  uint32_t escapes = escapes_of(tree, ranges, n);
  if (escapes == LLS_GRAMMAR_NONE)
    return plain;
  uint32_t escaped[] = {lls_grammar_literal(tree, "\\", 1), escapes};
  uint32_t both[] = {plain, lls_grammar_sequence(tree, escaped, 2)};
  return n_clear == 0 ? both[1] : lls_grammar_choice(tree, both, 2);
}

uint32_t lls_json_class_but(struct lls_grammar_tree *tree,
                            const struct lls_grammar_range *ranges, uint32_t n)
{
  uint32_t others = lls_grammar_class_but(tree, ranges, n);
  if (others == LLS_GRAMMAR_NONE)
    return others;
  struct lls_grammar_node node = lls_grammar_node_at(tree, others);
  struct lls_grammar_range *copy = malloc((node.n + 1) * sizeof *copy);
  if (copy == NULL)
    return lls_grammar_fail(tree, "no memory for the grammar");
  if (node.n > 0)
    memcpy(copy, node.ranges, node.n * sizeof *copy); /* the tree moves as it grows */
  uint32_t spelt = lls_json_class(tree, copy, node.n);
  free(copy);
  return spelt;
}

/* Any code point by its four hex digits: two of them where it is above U+FFFF. A half of
 * such a pair stands for no code point. */
static uint32_t unicode_escape(struct lls_grammar_tree *tree)
{
  static const struct lls_grammar_range not_d[] = {
      {'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}};
  static const struct lls_grammar_range d[] = {{'D', 'D'}, {'d', 'd'}};
  static const struct lls_grammar_range low[] = {{'0', '7'}};
  static const struct lls_grammar_range high_half[] = {
      {'8', '9'}, {'A', 'B'}, {'a', 'b'}};
  static const struct lls_grammar_range low_half[] = {{'C', 'F'}, {'c', 'f'}};
  uint32_t digit = lls_grammar_class(tree, hex, COUNT(hex)),
           is_d = lls_grammar_class(tree, d, COUNT(d));
  uint32_t two = lls_grammar_repeat(tree, digit, 2, 2);
  uint32_t u = lls_grammar_literal(tree, "u", 1);
  uint32_t most[] = {u, lls_grammar_class(tree, not_d, COUNT(not_d)), digit, two};
  uint32_t below[] = {u, is_d, lls_grammar_class(tree, low, COUNT(low)), two};
  uint32_t pair[] = {u,
                     is_d,
                     lls_grammar_class(tree, high_half, COUNT(high_half)),
                     two,
                     lls_grammar_literal(tree, "\\u", 2),
                     is_d,
                     lls_grammar_class(tree, low_half, COUNT(low_half)),
                     two};
  uint32_t any[] = {lls_grammar_sequence(tree, most, COUNT(most)),
                    lls_grammar_sequence(tree, below, COUNT(below)),
                    lls_grammar_sequence(tree, pair, COUNT(pair))};
  return lls_grammar_choice(tree, any, COUNT(any));
}

static uint32_t any_character(struct lls_grammar_tree *tree)
{
  static const struct lls_grammar_range clear[] = {
      {' ', '!'}, {'#', '['}, {']', 0x10FFFF}};
  static const struct lls_grammar_range shorts[] = {{'"', '"'}, {'/', '/'}, {'\\', '\\'},
                                                    {'b', 'b'}, {'f', 'f'}, {'n', 'n'},
                                                    {'r', 'r'}, {'t', 't'}};
  uint32_t escapes[] = {lls_grammar_class(tree, shorts, COUNT(shorts)),
                        unicode_escape(tree)};
  uint32_t escaped[] = {lls_grammar_literal(tree, "\\", 1),
                        lls_grammar_choice(tree, escapes, 2)};
  uint32_t any[] = {lls_grammar_class(tree, clear, COUNT(clear)),
                    lls_grammar_sequence(tree, escaped, 2)};
  return lls_grammar_choice(tree, any, 2);
}

/* ---- any JSON ---- */

static uint32_t make_space(struct lls_grammar_tree *tree)
{
  static const struct lls_grammar_range blanks[] = {{' ', ' '}, {'\t', '\t'}};
  uint32_t line[] = {
      lls_grammar_literal(tree, "\n", 1),
      lls_grammar_repeat(tree, lls_grammar_class(tree, blanks, 2), 0, LLS_JSON_INDENT)};
  uint32_t kinds[] = {lls_grammar_literal(tree, "", 0), lls_grammar_literal(tree, " ", 1),
                      lls_grammar_sequence(tree, line, 2)};
  return lls_grammar_choice(tree, kinds, COUNT(kinds));
}

static void make_numbers(struct lls_json_syntax *json)
{
  static const struct lls_grammar_range sign[] = {{'+', '+'}, {'-', '-'}};
  static const struct lls_grammar_range e[] = {{'E', 'E'}, {'e', 'e'}};
  struct lls_grammar_tree *tree = json->tree;
  json->digit = lls_grammar_class(tree, (struct lls_grammar_range[]){{'0', '9'}}, 1);
  json->digits = lls_grammar_rule(tree, "digits"); /* once, wherever numbers are */
  lls_grammar_define(tree, json->digits,
                     lls_grammar_repeat(tree, json->digit, 0, LLS_JSON_DIGITS - 1));
  uint32_t some = LLS_JSON_ROW(json, json->digit, json->digits);
  uint32_t above_0 = lls_grammar_class(tree, (struct lls_grammar_range[]){{'1', '9'}}, 1);
  uint32_t whole[] = {lls_json_bytes(json, "0"),
                      LLS_JSON_ROW(json, above_0, json->digits)};
  json->integer = LLS_JSON_ROW(json, lls_json_maybe(json, lls_json_bytes(json, "-")),
                               lls_grammar_choice(tree, whole, 2));
  uint32_t fraction = LLS_JSON_ROW(json, lls_json_bytes(json, "."), some);
  uint32_t exponent =
      LLS_JSON_ROW(json, lls_grammar_class(tree, e, 2),
                   lls_json_maybe(json, lls_grammar_class(tree, sign, 2)),
                   lls_grammar_repeat(tree, json->digit, 1, LLS_JSON_EXPONENT));
  json->number = LLS_JSON_ROW(json, json->integer, lls_json_maybe(json, fraction),
                              lls_json_maybe(json, exponent));
}

static void make_values(struct lls_json_syntax *json)
{
  struct lls_grammar_tree *tree = json->tree;
  uint32_t value = lls_grammar_rule(tree, "a JSON value");
  uint32_t object = lls_grammar_rule(tree, "a JSON object");
  uint32_t array = lls_grammar_rule(tree, "a JSON array");
  uint32_t member =
      LLS_JSON_ROW(json, json->string, lls_json_bytes(json, ":"), json->space, value);
  uint32_t members = lls_json_list(json, member, 0, LLS_GRAMMAR_UNBOUNDED);
  uint32_t items = lls_json_list(json, value, 0, LLS_GRAMMAR_UNBOUNDED);
  lls_grammar_define(tree, object,
                     LLS_JSON_ROW(json, lls_json_bytes(json, "{"), json->space, members,
                                  json->space, lls_json_bytes(json, "}")));
  lls_grammar_define(tree, array,
                     LLS_JSON_ROW(json, lls_json_bytes(json, "["), json->space, items,
                                  json->space, lls_json_bytes(json, "]")));
  uint32_t kinds[] = {object,       array,         json->string,
                      json->number, json->boolean, json->null};
  lls_grammar_define(tree, value, lls_grammar_choice(tree, kinds, COUNT(kinds)));
  json->value = value;
  json->object = object;
  json->array = array;
}

void lls_json_syntax_init(struct lls_json_syntax *json, struct lls_grammar_tree *tree)
{
  *json = (struct lls_json_syntax){.tree = tree};
  json->nothing = lls_grammar_choice(tree, NULL, 0);
  json->empty = lls_grammar_literal(tree, "", 0);
  json->space = make_space(tree);
  json->quote = lls_json_bytes(json, "\"");
  json->character = any_character(tree);
  json->plain = lls_json_class(tree, every, 1);
  json->string = LLS_JSON_ROW(
      json, json->quote,
      lls_grammar_repeat(tree, json->character, 0, LLS_GRAMMAR_UNBOUNDED), json->quote);
  uint32_t truth[] = {lls_json_bytes(json, "true"), lls_json_bytes(json, "false")};
  json->boolean = lls_grammar_choice(tree, truth, 2);
  json->null = lls_json_bytes(json, "null");
  make_numbers(json);
  make_values(json);
}

/* ---- constants ---- */

#define MOST_WHOLE 1e15 /* below, a double has all digits of an integer */

/* 2.0 is 2 as well: JSON Schema tells numbers by what they are. */
static uint32_t whole_or_written(struct lls_json_syntax *json, const json_t *value,
                                 uint32_t written)
{
  double is = json_real_value(value);
  char whole[32];
  if (!json_is_real(value) || fabs(is) >= MOST_WHOLE || is != floor(is))
    return written;
  snprintf(whole, sizeof whole, "%.0f", is == 0 ? 0 : is);
  uint32_t both[] = {written, lls_json_bytes(json, whole)};
  return lls_grammar_choice(json->tree, both, 2);
}

/* A number, string or literal name. */
static uint32_t scalar(struct lls_json_syntax *json, const json_t *value)
{
  /* 15 digits are what people write; 17 are what every double can be told by */
  for (size_t digits = 15;; digits++) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
    if (text == NULL)
      return lls_grammar_fail(json->tree, "no memory for the grammar");
    bool exact = digits == 17 || !json_is_real(value) ||
                 strtod(text, NULL) == json_real_value(value);
    uint32_t node = exact ? lls_json_bytes(json, text) : LLS_GRAMMAR_NONE;
    free(text);
    if (exact)
      return whole_or_written(json, value, node);
  }
}

uint32_t lls_json_name(struct lls_json_syntax *json, const char *name)
{
  json_t *string = json_string(name);
  if (string == NULL)
    return lls_grammar_fail(json->tree, "no memory for the grammar");
  uint32_t node =
      LLS_JSON_ROW(json, scalar(json, string), lls_json_bytes(json, ":"), json->space);
  json_decref(string);
  return node;
}

/* Every item after the first with a comma before it. */
static uint32_t append_item(struct lls_json_syntax *json, uint32_t list, uint32_t item)
{
  if (list == LLS_GRAMMAR_NONE)
    return item;
  return LLS_JSON_ROW(json, list, lls_json_bytes(json, ","), json->space, item);
}

uint32_t lls_json_constant(struct lls_json_syntax *json, const json_t *value)
{
  uint32_t list = LLS_GRAMMAR_NONE;
  size_t index;
  const char *key;
  json_t *item;
  if (json_is_array(value))
    json_array_foreach((json_t *)value, index, item)
    {
      list = append_item(json, list, lls_json_constant(json, item));
    }
  else if (json_is_object(value))
    json_object_foreach((json_t *)value, key, item)
    {
      list = append_item(
          json, list,
          LLS_JSON_ROW(json, lls_json_name(json, key), lls_json_constant(json, item)));
    }
  else
    return scalar(json, value);
  return LLS_JSON_ROW(json, lls_json_bytes(json, json_is_array(value) ? "[" : "{"),
                      json->space, list == LLS_GRAMMAR_NONE ? json->empty : list,
                      json->space,
                      lls_json_bytes(json, json_is_array(value) ? "]" : "}"));
}

/* ---- strings that are none of some ---- */

static int compare_texts(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All that may follow after a prefix that all n texts have, and its last `at` bytes. */
static uint32_t but(struct lls_json_syntax *json, const char *const *texts, uint32_t n,
                    size_t at)
{
  struct lls_grammar_tree *tree = json->tree;
  struct lls_grammar_range *firsts = calloc(n, sizeof *firsts);
  uint32_t *parts = calloc((size_t)n + 2, sizeof *parts), n_parts = 0, n_firsts = 0;
  uint32_t node = LLS_GRAMMAR_NONE;
  if (firsts == NULL || parts == NULL) {
    lls_grammar_fail(tree, "no memory for the grammar");
    goto done;
  }
  uint32_t from = 0;
  while (from < n && texts[from][at] == '\0')
    from++;
  if (from == 0)
    parts[n_parts++] = json->empty;
  for (uint32_t to; from < n; from = to) {
    size_t length = lls_utf8_length(texts[from] + at);
    uint32_t first = (uint32_t)lls_utf8_char(texts[from] + at);
    for (to = from + 1; to < n && strncmp(texts[to] + at, texts[from] + at, length) == 0;)
      to++;
    firsts[n_firsts++] = (struct lls_grammar_range){first, first};
    parts[n_parts++] = LLS_JSON_ROW(json, lls_json_class(tree, &firsts[n_firsts - 1], 1),
                                    but(json, texts + from, to - from, at + length));
  }
  parts[n_parts++] =
      LLS_JSON_ROW(json, lls_json_class_but(tree, firsts, n_firsts),
                   lls_grammar_repeat(tree, json->plain, 0, LLS_GRAMMAR_UNBOUNDED));
  node = lls_json_one_of(json, parts, n_parts);
done:
  free(firsts);
  free(parts);
  return node;
}

uint32_t lls_json_string_but(struct lls_json_syntax *json, const char *const *texts,
                             uint32_t n)
{
  if (n == 0)
    return json->string;
  for (uint32_t i = 0; i < n; i++)
    if (strlen(texts[i]) > LLS_JSON_NAME_MAX)
      return lls_grammar_fail(json->tree, "a name of more than %d bytes",
                              LLS_JSON_NAME_MAX);
  const char **sorted = malloc(n * sizeof *sorted);
  if (sorted == NULL)
    return lls_grammar_fail(json->tree, "no memory for the grammar");
  memcpy(sorted, texts, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, compare_texts);
  uint32_t node = LLS_JSON_ROW(json, json->quote, but(json, sorted, n, 0), json->quote);
  free(sorted);
  return node;
}
