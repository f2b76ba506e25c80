/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of code points in a regular expression: escapes and bracket expressions. */
#include "text/grammar/regex_tree.h"

#include "text/base/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* ---- \d \w \s ---- */

/* ECMA's white space without U+FEFF, which Python's re does not include. */
static const struct lls_grammar_range spaces[] = {
    {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},
    {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
    {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};
static const struct lls_grammar_range digits[] = {{'0', '9'}};
static const struct lls_grammar_range words[] = {
    {'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};

static void add_all(struct lls_regex *regex, const struct lls_grammar_range *ranges,
                    size_t n, bool complement)
{
  uint32_t from = regex->n_ranges;
  for (size_t i = 0; i < n; i++)
    lls_regex_add_range(regex, ranges[i].first, ranges[i].last);
  if (complement)
    lls_regex_complement(regex, from);
}

static bool shorthand(struct lls_regex *regex, char letter)
{
  switch (letter) {
  case 'd':
  case 'D':
    add_all(regex, digits, 1, letter == 'D');
    return true;
  case 'w':
  case 'W':
    add_all(regex, words, sizeof words / sizeof words[0], letter == 'W');
    return true;
  case 's':
  case 'S':
    add_all(regex, spaces, sizeof spaces / sizeof spaces[0], letter == 'S');
    return true;
  default:
    return false;
  }
}

/* ---- \p{Lu} ---- */

static const struct {
  const char *name, *shown;
} long_names[] = {
    {"Letter", "L"},
    {"Lowercase_Letter", "Ll"},
    {"Uppercase_Letter", "Lu"},
    {"Mark", "M"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"Punctuation", "P"},
    {"Symbol", "S"},
    {"Separator", "Z"},
};

/* Appends every code point of a general category of one letter or two, from all of
 * Unicode. The tree caches the ranges under the category's name. */
static uint32_t find_category(struct lls_regex *regex, const char *category)
{
  uint32_t from = regex->n_ranges;
  for (int32_t point = 0; point <= 0x10FFFF && !regex->failed; point++) {
    const char *is = utf8proc_category_string(point);
    if (is[0] != category[0] || (category[1] != '\0' && is[1] != category[1]))
      continue;
    uint32_t p = (uint32_t)point;
    if (regex->n_ranges > from && regex->ranges[regex->n_ranges - 1].last + 1 == p)
      regex->ranges[regex->n_ranges - 1].last = p;
    else
      lls_regex_add_range(regex, p, p);
  }
  uint32_t n = regex->n_ranges - from;
  regex->n_ranges = from;
  if (n == 0 || regex->failed)
    return LLS_GRAMMAR_NONE;
  uint32_t node = lls_grammar_class(regex->tree, regex->ranges + from, n);
  lls_grammar_keep_class(regex->tree, category, node);
  return node;
}

static bool add_category(struct lls_regex *regex, const char *category)
{
  uint32_t node = lls_grammar_known_class(regex->tree, category);
  if (node == LLS_GRAMMAR_NONE)
    node = find_category(regex, category);
  if (node == LLS_GRAMMAR_NONE)
    return false;
  struct lls_grammar_node all = lls_grammar_node_at(regex->tree, node);
  add_all(regex, all.ranges, all.n, false);
  return !regex->failed;
}

static bool property(struct lls_regex *regex, bool complement)
{
  uint32_t from = regex->n_ranges;
  const char *open = regex->text + regex->at;
  const char *close = memchr(open, '}', regex->n - regex->at);
  char name[24] = "";
  if (regex->at < regex->n && *open == '{' && close != NULL &&
      (size_t)(close - open) <= sizeof name)
    memcpy(name, open + 1, (size_t)(close - open) - 1);
  for (size_t i = 0; i < sizeof long_names / sizeof long_names[0]; i++)
    if (strcmp(name, long_names[i].name) == 0)
      strcpy(name, long_names[i].shown);
  if (name[0] == '\0' || strlen(name) > 2 || !add_category(regex, name)) {
    lls_regex_fail(regex,
                   "\\p is supported with a general category, as \\p{L} or \\p{Nd}");
    return false;
  }
  regex->at += (size_t)(close - open) + 1;
  if (complement)
    lls_regex_complement(regex, from);
  return !regex->failed;
}

/* ---- single code points ---- */

/* Reads between `least` and `most` hex digits. */
static bool take_hex(struct lls_regex *regex, unsigned least, unsigned most,
                     uint32_t *point)
{
  static const char hex[] = "0123456789abcdefABCDEF";
  unsigned n = 0;
  uint32_t value = 0;
  for (; n < most && regex->at < regex->n; n++, regex->at++) {
    const char *digit = memchr(hex, regex->text[regex->at], sizeof hex - 1);
    if (digit == NULL)
      break;
    uint32_t worth = (uint32_t)(digit - hex);
    value = value * 16 + (worth < 16 ? worth : worth - 6);
  }
  *point = value;
  return n >= least;
}

static bool take_byte(struct lls_regex *regex, char byte)
{
  bool is = regex->at < regex->n && regex->text[regex->at] == byte;
  regex->at += is;
  return is;
}

/* Reads the code point after \u: {H...}, or four digits, or a surrogate pair as two \u
 * of four digits. */
static bool unicode(struct lls_regex *regex, uint32_t *point)
{
  uint32_t low;
  if (take_byte(regex, '{'))
    return take_hex(regex, 1, 6, point) && take_byte(regex, '}') && *point <= 0x10FFFF;
  if (!take_hex(regex, 4, 4, point))
    return false;
  if (*point < 0xD800 || *point > 0xDFFF)
    return true;
  if (*point > 0xDBFF || !take_byte(regex, '\\') || !take_byte(regex, 'u') ||
      !take_hex(regex, 4, 4, &low) || low < 0xDC00 || low > 0xDFFF)
    return false;
  *point = 0x10000 + ((*point - 0xD800) << 10) + (low - 0xDC00);
  return true;
}

/* Reads \cX, \xHH or \uHHHH. Returns false if it is none of them, or malformed. */
static bool by_number(struct lls_regex *regex, char letter, uint32_t *point)
{
  if (letter == 'x')
    return take_hex(regex, 2, 2, point);
  if (letter == 'u')
    return unicode(regex, point);
  if (letter != 'c' || regex->at == regex->n)
    return false;
  *point = (unsigned char)regex->text[regex->at++] & 31;
  return true;
}

static bool control(char letter, bool in_class, uint32_t *point)
{
  static const char letters[] = "tnvfr0ab", values[] = "\t\n\v\f\r\0\a\b";
  const char *found = memchr(letters, letter, in_class ? 8 : 7);
  if (found != NULL)
    *point = (uint32_t)values[found - letters];
  return found != NULL;
}

static bool is_letter_or_digit(uint32_t c)
{
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool lls_regex_escape(struct lls_regex *regex, bool in_class, uint32_t *point,
                      bool *is_point)
{
  *is_point = false;
  if (regex->at == regex->n) {
    lls_regex_fail(regex, "a \\ at its end");
    return false;
  }
  uint32_t first = lls_regex_take(regex);
  char letter = first < 0x80 ? (char)first : 0;
  if (shorthand(regex, letter))
    return !regex->failed;
  if (letter == 'p' || letter == 'P')
    return property(regex, letter == 'P');
  if (letter == 'b' && !in_class)
    lls_regex_fail(regex, "word boundaries (\\b) are not supported");
  else if (letter == 'B')
    lls_regex_fail(regex, "word boundaries (\\B) are not supported");
  else if ((letter >= '1' && letter <= '9') || letter == 'k')
    lls_regex_fail(regex, "back references are not supported");
  else if (!control(letter, in_class, point) && !by_number(regex, letter, point)) {
    *point = first;
    if (is_letter_or_digit(first))
      lls_regex_fail(regex, "an escape that is not known");
  }
  *is_point = true;
  lls_regex_add_range(regex, *point, *point);
  return !regex->failed;
}

/* ---- brackets ---- */

/* Reads one item of a bracket expression: a code point, or a set of them. */
static bool item(struct lls_regex *regex, uint32_t *point, bool *is_point)
{
  if (regex->at == regex->n) {
    lls_regex_fail(regex, "a [ without its ]");
    return false;
  }
  if (take_byte(regex, '\\'))
    return lls_regex_escape(regex, true, point, is_point);
  *point = lls_regex_take(regex);
  *is_point = true;
  lls_regex_add_range(regex, *point, *point);
  return !regex->failed;
}

/* Reads the rest of the range that an item begins; a - before the ] is a literal. */
static bool range(struct lls_regex *regex, uint32_t first)
{
  uint32_t last;
  bool is_point;
  size_t dash = regex->at;
  if (!take_byte(regex, '-'))
    return true;
  if (regex->at < regex->n && regex->text[regex->at] == ']') {
    regex->at = dash;
    return true;
  }
  if (!item(regex, &last, &is_point))
    return false;
  if (!is_point) { /* [a-\d]: the dash is a literal */
    lls_regex_add_range(regex, '-', '-');
    return !regex->failed;
  }
  if (last < first) {
    lls_regex_fail(regex, "a range whose first is more than its last");
    return false;
  }
  regex->ranges[regex->n_ranges - 1].first = first;
  return true;
}

bool lls_regex_bracket(struct lls_regex *regex)
{
  uint32_t point, from = regex->n_ranges;
  bool is_point, complement = take_byte(regex, '^');
  if (regex->at < regex->n && regex->text[regex->at] == ']') {
    lls_regex_fail(regex, "brackets without anything in them; a ] is written \\]");
    return false;
  }
  while (!take_byte(regex, ']'))
    if (!item(regex, &point, &is_point) || (is_point && !range(regex, point)))
      return false;
  if (complement)
    lls_regex_complement(regex, from);
  return !regex->failed;
}
