/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the lengths of an expression without anchors, and bounds them.
 *
 * A grammar has no intersection, so a bound must be built into the expression. Usually
 * only one repetition of a class varies in a branch, and changing its bounds is enough.
 */
#include "text/grammar/regex_tree.h"

#define ENDLESS LLS_REGEX_ENDLESS

static uint64_t bounded(uint64_t length)
{
  return length < ENDLESS ? length : ENDLESS;
}

static uint64_t times(uint64_t length, uint32_t count)
{
  if (length == 0 || count == 0)
    return 0;
  if (count == LLS_GRAMMAR_UNBOUNDED || length > ENDLESS / count)
    return ENDLESS;
  return length * count;
}

struct lls_regex_length lls_regex_length_of(const struct lls_regex *regex, uint32_t at)
{
  const struct lls_regex_node *node = &regex->nodes[at];
  struct lls_regex_length all = {0, 0};
  if (node->kind == LLS_REGEX_CLASS)
    return (struct lls_regex_length){1, 1};
  for (uint32_t part = node->part; part != LLS_REGEX_END;
       part = regex->nodes[part].next) {
    struct lls_regex_length one = lls_regex_length_of(regex, part);
    if (node->kind != LLS_REGEX_CHOICE)
      all = (struct lls_regex_length){bounded(all.min + one.min),
                                      bounded(all.max + one.max)};
    else if (part == node->part)
      all = one;
    else
      all = (struct lls_regex_length){one.min < all.min ? one.min : all.min,
                                      one.max > all.max ? one.max : all.max};
  }
  if (node->kind == LLS_REGEX_REPEAT)
    all = (struct lls_regex_length){times(all.min, node->min), times(all.max, node->max)};
  return all;
}

static bool bound(struct lls_regex *regex, uint32_t at, struct lls_regex_length wanted);

/* Returns the only part of a sequence whose length varies, and sets *others to the
 * total length of the other parts; LLS_REGEX_END if several parts vary, or none. */
static uint32_t varying_part(const struct lls_regex *regex, uint32_t at, uint64_t *others)
{
  uint32_t found = LLS_REGEX_END;
  *others = 0;
  for (uint32_t part = regex->nodes[at].part; part != LLS_REGEX_END;
       part = regex->nodes[part].next) {
    struct lls_regex_length one = lls_regex_length_of(regex, part);
    if (one.min == one.max)
      *others = bounded(*others + one.min);
    else if (found != LLS_REGEX_END)
      return LLS_REGEX_END;
    else
      found = part;
  }
  return found;
}

static uint64_t less(uint64_t length, uint64_t by)
{
  return length == ENDLESS ? ENDLESS : length > by ? length - by : 0;
}

/* ---- a sequence in which several parts vary ---- */

#define MOST_NODES 20000
#define MOST_WAYS  16 /* lengths of one part; each gets a copy of the sequence */

static uint32_t copy_of(struct lls_regex *regex, uint32_t at);

/* Copies the sibling parts from `first` on. */
static uint32_t copy_parts(struct lls_regex *regex, uint32_t first)
{
  uint32_t copied = LLS_REGEX_END, last = LLS_REGEX_END;
  for (uint32_t part = first; part != LLS_REGEX_END; part = regex->nodes[part].next) {
    uint32_t one = copy_of(regex, part);
    if (one == LLS_REGEX_END)
      return one;
    if (last == LLS_REGEX_END)
      copied = one;
    else
      regex->nodes[last].next = one;
    last = one;
  }
  return copied;
}

/* Copies a node; the copy refers to the same ranges. */
static uint32_t copy_of(struct lls_regex *regex, uint32_t at)
{
  uint32_t copy = lls_regex_add(regex, regex->nodes[at].kind);
  if (copy == LLS_REGEX_END)
    return copy;
  uint32_t part = copy_parts(regex, regex->nodes[at].part);
  regex->nodes[copy] = regex->nodes[at];
  regex->nodes[copy].part = part;
  regex->nodes[copy].next = LLS_REGEX_END;
  return regex->failed ? LLS_REGEX_END : copy;
}

/* Finds the part with the most lengths among those that vary, and returns the first other
 * one. LLS_REGEX_END: fewer than two vary. */
static uint32_t other_part(const struct lls_regex *regex, uint32_t at)
{
  uint32_t widest = LLS_REGEX_END, other = LLS_REGEX_END;
  uint64_t most = 0;
  for (uint32_t part = regex->nodes[at].part; part != LLS_REGEX_END;
       part = regex->nodes[part].next) {
    struct lls_regex_length one = lls_regex_length_of(regex, part);
    if (one.max - one.min <= most && one.max != one.min)
      other = part;
    if (one.max - one.min > most) {
      other = widest != LLS_REGEX_END ? widest : other;
      widest = part;
      most = one.max - one.min;
    }
  }
  return other;
}

static uint32_t place_of(const struct lls_regex *regex, uint32_t at, uint32_t part)
{
  uint32_t n = 0;
  for (uint32_t i = regex->nodes[at].part; i != part; i = regex->nodes[i].next)
    n++;
  return n;
}

static uint32_t part_at(const struct lls_regex *regex, uint32_t at, uint32_t place)
{
  uint32_t part = regex->nodes[at].part;
  while (place-- > 0)
    part = regex->nodes[part].next;
  return part;
}

/* Returns false if no match of the node has this length. */
static bool may_have(const struct lls_regex *regex, uint32_t at, uint64_t length)
{
  struct lls_regex_length is = lls_regex_length_of(regex, at);
  bool any = regex->nodes[at].kind != LLS_REGEX_CHOICE;
  for (uint32_t part = any ? LLS_REGEX_END : regex->nodes[at].part; part != LLS_REGEX_END;
       part = regex->nodes[part].next)
    any |= may_have(regex, part, length);
  return any && is.min <= length && length <= is.max;
}

/* Turns the sequence into a choice over the lengths of one part, and bounds each
 * branch. */
static bool spread(struct lls_regex *regex, uint32_t at, struct lls_regex_length wanted)
{
  uint32_t other = other_part(regex, at), place, ways = LLS_REGEX_END;
  if (other == LLS_REGEX_END)
    return false;
  struct lls_regex_length is = lls_regex_length_of(regex, other);
  if (is.max - is.min >= MOST_WAYS)
    return false;
  place = place_of(regex, at, other);
  for (uint64_t length = is.min; length <= is.max; length++) {
    if (!may_have(regex, other, length))
      continue;
    uint32_t way = regex->n_nodes > MOST_NODES ? LLS_REGEX_END : copy_of(regex, at);
    if (way == LLS_REGEX_END ||
        !bound(regex, part_at(regex, way, place),
               (struct lls_regex_length){length, length}) ||
        !bound(regex, way, wanted))
      return false;
    regex->nodes[way].next = ways;
    ways = way;
  }
  regex->nodes[at].kind = LLS_REGEX_CHOICE;
  regex->nodes[at].part = ways;
  return true;
}

static bool bound_sequence(struct lls_regex *regex, uint32_t at,
                           struct lls_regex_length wanted)
{
  uint64_t others;
  uint32_t part = varying_part(regex, at, &others);
  if (part == LLS_REGEX_END)
    return spread(regex, at, wanted);
  if (others > wanted.max)
    return false;
  return bound(
      regex, part,
      (struct lls_regex_length){less(wanted.min, others), less(wanted.max, others)});
}

/* Bounds a repetition of a part with one fixed length. */
static bool bound_repeat(struct lls_regex *regex, uint32_t at,
                         struct lls_regex_length wanted)
{
  struct lls_regex_node *node = &regex->nodes[at];
  struct lls_regex_length one = lls_regex_length_of(regex, node->part);
  if (one.min != one.max || one.min == 0)
    return false;
  uint64_t min = (wanted.min + one.min - 1) / one.min;
  uint64_t max = wanted.max == ENDLESS ? LLS_GRAMMAR_UNBOUNDED : wanted.max / one.min;
  min = min > node->min ? min : node->min;
  max = max < node->max ? max : node->max;
  if (min > max || min >= LLS_GRAMMAR_UNBOUNDED)
    return false;
  node->min = (uint32_t)min;
  node->max = (uint32_t)max;
  return true;
}

/* Bounds each branch, and drops branches without a match of a wanted length. */
static bool bound_choice(struct lls_regex *regex, uint32_t at,
                         struct lls_regex_length wanted)
{
  uint32_t kept = LLS_REGEX_END, next;
  for (uint32_t part = regex->nodes[at].part; part != LLS_REGEX_END; part = next) {
    struct lls_regex_length is = lls_regex_length_of(regex, part);
    next = regex->nodes[part].next;
    if (is.min > wanted.max || is.max < wanted.min)
      continue;
    if (!bound(regex, part, wanted))
      return false;
    regex->nodes[part].next = kept;
    kept = part;
  }
  regex->nodes[at].part = kept;
  return kept != LLS_REGEX_END;
}

static bool bound(struct lls_regex *regex, uint32_t at, struct lls_regex_length wanted)
{
  struct lls_regex_length is = lls_regex_length_of(regex, at);
  if (is.min >= wanted.min && is.max <= wanted.max)
    return true;
  switch (regex->nodes[at].kind) {
  case LLS_REGEX_SEQUENCE:
    return bound_sequence(regex, at, wanted);
  case LLS_REGEX_REPEAT:
    return bound_repeat(regex, at, wanted);
  case LLS_REGEX_CHOICE:
    return bound_choice(regex, at, wanted);
  default:
    return false;
  }
}

bool lls_regex_bound(struct lls_regex *regex, uint32_t root, uint32_t min, uint32_t max)
{
  return bound(
      regex, root,
      (struct lls_regex_length){min, max == LLS_GRAMMAR_UNBOUNDED ? ENDLESS : max});
}
