/* SPDX-License-Identifier: Apache-2.0 */
/* See json_escape.h; RFC 8259, section 7. */
#include "text/grammar/json_escape.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(ARRAY) ((uint32_t)(sizeof(ARRAY) / sizeof((ARRAY)[0])))

/* Code points that need no escape: all except ", \ and control characters. */
static const struct lls_grammar_range clear_ones[] = {
    {' ', '!'}, {'#', '['}, {']', 0x10FFFF}};

static bool has(const struct lls_grammar_range *ranges, uint32_t n, uint32_t point)
{
  for (uint32_t i = 0; i < n; i++)
    if (ranges[i].first <= point && point <= ranges[i].last)
      return true;
  return false;
}

bool lls_json_needs_escape(const struct lls_grammar_range *ranges, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (ranges[i].first < ' ')
      return true;
  return has(ranges, n, '"') || has(ranges, n, '\\');
}

/* ---- \uXXXX ------------------------------------------------------------------------ */

/* Hex digits of an escape: the number of bits that each contributes, and the values
 * that the bits are added to. The fourth digit of a low surrogate is preceded by its
 * \ud. */
struct digits {
  uint8_t n, bits[6], base[6];
};

static const struct digits four = {4, {4, 4, 4, 4}, {0}};
static const struct digits pair = {6, {2, 4, 4, 2, 4, 4}, {8, 0, 0, 12, 0, 0}};
#define PAIR_SECOND 3

static uint32_t letter_d(struct lls_grammar_tree *tree)
{
  static const struct lls_grammar_range d[] = {{'D', 'D'}, {'d', 'd'}};
  return lls_grammar_class(tree, d, COUNT(d));
}

/* A hex digit from first to last, in upper and lower case. */
static uint32_t hex(struct lls_grammar_tree *tree, uint32_t first, uint32_t last)
{
  struct lls_grammar_range ranges[3];
  uint32_t n = 0, letter = first > 10 ? first : 10;
  if (first < 10)
    ranges[n++] = (struct lls_grammar_range){'0' + first, '0' + (last < 9 ? last : 9)};
  if (last >= 10) {
    ranges[n++] = (struct lls_grammar_range){'A' + letter - 10, 'A' + last - 10};
    ranges[n++] = (struct lls_grammar_range){'a' + letter - 10, 'a' + last - 10};
  }
  return lls_grammar_class(tree, ranges, n);
}

static uint32_t spell(struct lls_grammar_tree *tree, const struct digits *d, uint32_t at,
                      uint32_t first, uint32_t last);

/* The digit at index `at` in a range, followed by digits for the bits from first to
 * last. */
static uint32_t row(struct lls_grammar_tree *tree, const struct digits *d, uint32_t at,
                    const struct lls_grammar_range *digit, uint32_t first, uint32_t last)
{
  uint32_t parts[4], n = 0;
  if (d == &pair && at == PAIR_SECOND) {
    parts[n++] = lls_grammar_literal(tree, "\\u", 2);
    parts[n++] = letter_d(tree);
  }
  parts[n++] = hex(tree, d->base[at] + digit->first, d->base[at] + digit->last);
  if (at + 1 < d->n)
    parts[n++] = spell(tree, d, at + 1, first, last);
  return lls_grammar_sequence(tree, parts, n);
}

/* The digits from index `at` on for the values from first to last. */
static uint32_t spell(struct lls_grammar_tree *tree, const struct digits *d, uint32_t at,
                      uint32_t first, uint32_t last)
{
  uint32_t shift = 0, parts[3], n = 0;
  for (uint32_t i = at + 1; i < d->n; i++)
    shift += d->bits[i];
  uint32_t rest = (1u << shift) - 1;
  struct lls_grammar_range all = {first >> shift, last >> shift}, one = {0};
  if (all.first == all.last)
    return row(tree, d, at, &all, first & rest, last & rest);
  if ((first & rest) != 0) {
    one = (struct lls_grammar_range){all.first, all.first};
    parts[n++] = row(tree, d, at, &one, first & rest, rest);
    all.first++;
  }
  if ((last & rest) != rest) {
    one = (struct lls_grammar_range){all.last, all.last};
    parts[n++] = row(tree, d, at, &one, 0, last & rest);
    all.last--;
  }
  if (all.first <= all.last)
    parts[n++] = row(tree, d, at, &all, 0, rest);
  return lls_grammar_choice(tree, parts, n);
}

/* Adds the code points of `range` from first to last; those of surrogate pairs are
 * counted from U+10000. */
static void add_part(struct lls_grammar_tree *tree, const struct lls_grammar_range *range,
                     uint32_t first, uint32_t last, uint32_t *parts, uint32_t *n)
{
  uint32_t from = range->first > first ? range->first : first;
  uint32_t to = range->last < last ? range->last : last;
  if (from > to)
    return;
  if (first < 0x10000) {
    parts[(*n)++] = spell(tree, &four, 0, from, to);
    return;
  }
  uint32_t both[] = {letter_d(tree), spell(tree, &pair, 0, from - first, to - first)};
  parts[(*n)++] = lls_grammar_sequence(tree, both, 2);
}

/* The rest of \uXXXX after the backslash, for one of the code points. Half a surrogate
 * pair is no code point. */
static uint32_t unicode(struct lls_grammar_tree *tree,
                        const struct lls_grammar_range *ranges, uint32_t n)
{
  uint32_t *parts = malloc(((size_t)n * 3 + 1) * sizeof *parts), n_parts = 0;
  if (parts == NULL)
    return lls_grammar_fail(tree, "no memory for the grammar");
  for (uint32_t i = 0; i < n; i++) {
    add_part(tree, &ranges[i], 0, 0xD7FF, parts, &n_parts);
    add_part(tree, &ranges[i], 0xE000, 0xFFFF, parts, &n_parts);
    add_part(tree, &ranges[i], 0x10000, 0x10FFFF, parts, &n_parts);
  }
  uint32_t both[] = {lls_grammar_literal(tree, "u", 1),
                     lls_grammar_choice(tree, parts, n_parts)};
  free(parts);
  return lls_grammar_sequence(tree, both, 2);
}

/* ---- classes ----------------------------------------------------------------------- */

/* Writes the characters of the short escapes for these code points. Returns their
 * number. */
static uint32_t short_escapes(const struct lls_grammar_range *ranges, uint32_t n,
                              struct lls_grammar_range out[8])
{
  static const char escapes[] = "\"\"\\\\//\bb\ff\nn\rr\tt";
  uint32_t m = 0;
  for (size_t i = 0; i + 1 < sizeof escapes; i += 2)
    if (has(ranges, n, (uint32_t)escapes[i]))
      out[m++] =
          (struct lls_grammar_range){(uint32_t)escapes[i + 1], (uint32_t)escapes[i + 1]};
  return m;
}

/* A backslash and the escapes that may follow it; LLS_GRAMMAR_NONE if there are none. */
static uint32_t escaped(struct lls_grammar_tree *tree,
                        const struct lls_grammar_range *ranges, uint32_t n)
{
  struct lls_grammar_range shorts[8];
  uint32_t parts[2], n_parts = 0, n_shorts = short_escapes(ranges, n, shorts);
  if (n_shorts > 0)
    parts[n_parts++] = lls_grammar_class(tree, shorts, n_shorts);
  if (n > 0 && n <= LLS_JSON_ESCAPED_RANGES)
    parts[n_parts++] = unicode(tree, ranges, n);
  if (n_parts == 0)
    return LLS_GRAMMAR_NONE;
  uint32_t both[] = {lls_grammar_literal(tree, "\\", 1),
                     lls_grammar_choice(tree, parts, n_parts)};
  return lls_grammar_sequence(tree, both, 2);
}

/* The ranges without the code points that need an escape; `out` has room for 3 n. */
static uint32_t unescaped(const struct lls_grammar_range *ranges, uint32_t n,
                          struct lls_grammar_range *out)
{
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < COUNT(clear_ones); k++) {
      const struct lls_grammar_range *clear = &clear_ones[k];
      uint32_t first = ranges[i].first > clear->first ? ranges[i].first : clear->first;
      uint32_t last = ranges[i].last < clear->last ? ranges[i].last : clear->last;
      if (first <= last)
        out[m++] = (struct lls_grammar_range){first, last};
    }
  return m;
}

uint32_t lls_json_class_beside(struct lls_grammar_tree *tree,
                               const struct lls_grammar_range *ranges, uint32_t n,
                               bool backslash)
{
  struct lls_grammar_range *clear = calloc((size_t)n * 3 + 1, sizeof *clear);
  if (clear == NULL)
    return lls_grammar_fail(tree, "no memory for the grammar");
  uint32_t n_clear = unescaped(ranges, n, clear);
  uint32_t plain = lls_grammar_class(tree, clear, n_clear);
  free(clear);
  uint32_t escapes = backslash || lls_json_needs_escape(ranges, n)
                         ? escaped(tree, ranges, n)
                         : LLS_GRAMMAR_NONE;
  if (escapes == LLS_GRAMMAR_NONE)
    return plain;
  uint32_t both[] = {plain, escapes};
  return n_clear == 0 ? escapes : lls_grammar_choice(tree, both, 2);
}

uint32_t lls_json_class(struct lls_grammar_tree *tree,
                        const struct lls_grammar_range *ranges, uint32_t n)
{
  return lls_json_class_beside(tree, ranges, n, false);
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
    memcpy(copy, node.ranges, node.n * sizeof *copy); /* spelling adds nodes, which may
                                                       * move the tree's arrays */
  uint32_t spelt = lls_json_class_beside(tree, copy, node.n, true);
  free(copy);
  return spelt;
}
