/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of JSON texts (RFC 8259), and its pieces; see json_syntax.h. */
#include "text/grammar/json_syntax.h"

#include "core/base/json_parse.h"
#include "text/grammar/json_escape.h"
#include "text/base/utf8.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(ARRAY) ((uint32_t)(sizeof(ARRAY) / sizeof((ARRAY)[0])))

static const struct lls_grammar_range every[] = {{0, 0x10FFFF}};

/* ---- sequences and choices ---- */

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
  json->digits = lls_grammar_rule(tree, "digits"); /* one rule for all uses in numbers */
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
  json->character = lls_json_class(tree, every, 1);
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

#define MOST_WHOLE 1e15 /* below this, a double holds all digits of an integer */

/* 2.0 also matches 2: JSON Schema compares numbers by value. */
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

/* Returns true for an integer that core/base/json_parse.h has rounded, or a real of
 * that size. Reals that people write with an exponent, such as 1e300, are larger than
 * any integer here. */
static bool may_be_rounded(const json_t *value)
{
  double size = fabs(json_real_value(value));
  return json_is_real(value) && size >= 0x1p63 &&
         (size < 1e40 || size >= LLS_JSON_LARGEST);
}

/* The node of a number, a string, true, false or null. */
static uint32_t scalar(struct lls_json_syntax *json, const json_t *value)
{
  if (may_be_rounded(value))
    return lls_grammar_fail(json->tree, "a constant of 2^63 or more ('const', 'enum') is "
                                        "not supported, since its digits are not kept");
  /* people write at most 15 digits; 17 identify every double */
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

/* Appends an item, with a comma before it unless it is the first. */
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

/* ---- strings that equal none of several texts ---- */

static int compare_texts(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Everything that may follow the last `at` bytes of a prefix that all n texts share. */
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
    parts[n_parts++] =
        LLS_JSON_ROW(json, lls_json_class_beside(tree, &firsts[n_firsts - 1], 1, true),
                     but(json, texts + from, to - from, at + length));
  }
  parts[n_parts++] =
      LLS_JSON_ROW(json, lls_json_class_but(tree, firsts, n_firsts),
                   lls_grammar_repeat(tree, json->character, 0, LLS_GRAMMAR_UNBOUNDED));
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
