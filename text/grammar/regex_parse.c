/* SPDX-License-Identifier: Apache-2.0 */
/* A recursive-descent parser from the text of a regular expression to its tree. */
#include "text/grammar/regex_tree.h"

#include "text/grammar/regex.h"
#include "text/base/utf8.h"

#include <string.h>

static bool is_next(const struct lls_regex *regex, const char *what)
{
  size_t length = strlen(what);
  return regex->n - regex->at >= length &&
         memcmp(regex->text + regex->at, what, length) == 0;
}

static bool take(struct lls_regex *regex, const char *what)
{
  if (!is_next(regex, what))
    return false;
  regex->at += strlen(what);
  return true;
}

/* ---- quantifiers ---- */

static bool take_count(struct lls_regex *regex, uint32_t *count)
{
  size_t from = regex->at;
  uint32_t value = 0;
  for (; regex->at < regex->n && regex->text[regex->at] >= '0' &&
         regex->text[regex->at] <= '9';
       regex->at++)
    if (value <= LLS_REGEX_REPEATS)
      value = value * 10 + (uint32_t)(regex->text[regex->at] - '0');
  *count = value;
  return regex->at > from;
}

/* Reads {m}, {m,}, {,n} or {m,n}; any other text after a { makes it a literal. */
static bool take_braces(struct lls_regex *regex, uint32_t *min, uint32_t *max)
{
  size_t from = regex->at;
  if (take(regex, "{")) {
    bool has_min = take_count(regex, min), has_comma = take(regex, ",");
    bool has_max = has_comma && take_count(regex, max);
    if (!has_min)
      *min = 0;
    if (!has_max)
      *max = has_comma ? LLS_GRAMMAR_UNBOUNDED : *min;
    if ((has_min || has_max) && take(regex, "}"))
      return true;
  }
  regex->at = from;
  return false;
}

static bool take_quantifier(struct lls_regex *regex, uint32_t *min, uint32_t *max)
{
  *min = is_next(regex, "+");
  *max = is_next(regex, "?") ? 1 : LLS_GRAMMAR_UNBOUNDED;
  return take(regex, "*") || take(regex, "+") || take(regex, "?") ||
         take_braces(regex, min, max);
}

/* Applies the quantifiers that follow an atom. Lazy ones match the same texts as greedy
 * ones. */
static uint32_t quantify(struct lls_regex *regex, uint32_t atom)
{
  uint32_t min, max;
  if (atom == LLS_REGEX_END || !take_quantifier(regex, &min, &max))
    return atom;
  if (min > LLS_REGEX_REPEATS ||
      (max != LLS_GRAMMAR_UNBOUNDED && max > LLS_REGEX_REPEATS))
    return lls_regex_fail(regex, "more than 65536 repetitions");
  if (min > max)
    return lls_regex_fail(regex, "a repetition whose least is more than its most");
  if (take(regex, "+"))
    return lls_regex_fail(regex, "possessive quantifiers are not supported");
  take(regex, "?");
  if (is_next(regex, "*") || is_next(regex, "+") || is_next(regex, "?"))
    return lls_regex_fail(regex, "nothing to repeat");
  uint32_t node = lls_regex_add(regex, LLS_REGEX_REPEAT);
  if (node != LLS_REGEX_END) {
    regex->nodes[node].part = atom;
    regex->nodes[node].min = min;
    regex->nodes[node].max = max;
  }
  return node;
}

/* ---- atoms ---- */

static uint32_t class_from(struct lls_regex *regex, uint32_t from)
{
  uint32_t node = regex->failed ? LLS_REGEX_END : lls_regex_add(regex, LLS_REGEX_CLASS);
  if (node != LLS_REGEX_END) {
    regex->nodes[node].range = from;
    regex->nodes[node].n_ranges = regex->n_ranges - from;
  }
  return node;
}

/* A dot: all code points except ECMA 262's line terminators. */
static uint32_t dot(struct lls_regex *regex)
{
  uint32_t from = regex->n_ranges;
  lls_regex_add_range(regex, '\n', '\n');
  lls_regex_add_range(regex, '\r', '\r');
  lls_regex_add_range(regex, 0x2028, 0x2029);
  lls_regex_complement(regex, from);
  return class_from(regex, from);
}

static uint32_t escape(struct lls_regex *regex)
{
  uint32_t point, from = regex->n_ranges;
  bool is_point;
  if (take(regex, "A"))
    return lls_regex_add(regex, LLS_REGEX_FIRST);
  if (take(regex, "Z") || take(regex, "z"))
    return lls_regex_add(regex, LLS_REGEX_LAST);
  if (!lls_regex_escape(regex, false, &point, &is_point))
    return LLS_REGEX_END;
  return class_from(regex, from);
}

static uint32_t choice(struct lls_regex *regex);

/* Reads the text after "(?". The name of a group is skipped. */
static bool take_group_kind(struct lls_regex *regex)
{
  if (!take(regex, "?") || take(regex, ":"))
    return true;
  if (is_next(regex, "=") || is_next(regex, "!") || is_next(regex, "<=") ||
      is_next(regex, "<!")) {
    lls_regex_fail(regex, "look-around is not supported");
    return false;
  }
  take(regex, "P");
  if (take(regex, "<")) {
    const char *end = memchr(regex->text + regex->at, '>', regex->n - regex->at);
    if (end != NULL) {
      regex->at = (size_t)(end - regex->text) + 1;
      return true;
    }
  }
  lls_regex_fail(regex, "a group that is neither (...), (?:...) nor (?<name>...): flags, "
                        "atomic groups, comments and references are not supported");
  return false;
}

static uint32_t group(struct lls_regex *regex)
{
  if (!take_group_kind(regex))
    return LLS_REGEX_END;
  if (++regex->depth > LLS_REGEX_DEPTH)
    return lls_regex_fail(regex, "too many groups inside each other");
  uint32_t node = choice(regex);
  regex->depth--;
  if (node != LLS_REGEX_END && !take(regex, ")"))
    return lls_regex_fail(regex, "a ( without its )");
  return node;
}

static uint32_t atom(struct lls_regex *regex)
{
  uint32_t from = regex->n_ranges;
  if (take(regex, "("))
    return group(regex);
  if (take(regex, "["))
    return lls_regex_bracket(regex) ? class_from(regex, from) : LLS_REGEX_END;
  if (take(regex, "."))
    return dot(regex);
  if (take(regex, "\\"))
    return escape(regex);
  if (take(regex, "^"))
    return lls_regex_add(regex, LLS_REGEX_FIRST);
  if (take(regex, "$"))
    return lls_regex_add(regex, LLS_REGEX_LAST);
  if (is_next(regex, "*") || is_next(regex, "+") || is_next(regex, "?"))
    return lls_regex_fail(regex, "nothing to repeat");
  uint32_t point = lls_regex_take(regex);
  lls_regex_add_range(regex, point, point);
  return class_from(regex, from);
}

/* ---- sequences and choices ---- */

static void append(struct lls_regex *regex, uint32_t parent, uint32_t *last,
                   uint32_t node)
{
  if (*last == LLS_REGEX_END)
    regex->nodes[parent].part = node;
  else
    regex->nodes[*last].next = node;
  *last = node;
}

static uint32_t sequence(struct lls_regex *regex)
{
  uint32_t last = LLS_REGEX_END, node = lls_regex_add(regex, LLS_REGEX_SEQUENCE);
  while (node != LLS_REGEX_END && regex->at < regex->n && !is_next(regex, "|") &&
         !is_next(regex, ")")) {
    uint32_t part = quantify(regex, atom(regex));
    if (part == LLS_REGEX_END || regex->failed)
      return LLS_REGEX_END;
    append(regex, node, &last, part);
  }
  return node;
}

static uint32_t choice(struct lls_regex *regex)
{
  uint32_t last = LLS_REGEX_END, node = lls_regex_add(regex, LLS_REGEX_CHOICE);
  do {
    uint32_t part = node == LLS_REGEX_END ? node : sequence(regex);
    if (part == LLS_REGEX_END)
      return part;
    append(regex, node, &last, part);
  } while (take(regex, "|"));
  return node;
}

uint32_t lls_regex_parse(struct lls_regex *regex, struct lls_grammar_tree *tree,
                         const char *text, size_t n, struct lls_error *err)
{
  *regex = (struct lls_regex){.tree = tree, .err = err, .text = text, .n = n};
  if (!lls_utf8_is_valid(text, n))
    return lls_regex_fail(regex, "its text is not UTF-8");
  uint32_t root = choice(regex);
  if (root != LLS_REGEX_END && regex->at < n)
    return lls_regex_fail(regex, "a ) without its (");
  return root;
}
