/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths of what an expression without anchors matches, and holding it to some.
 *
 * A grammar has no intersection. But mostly one repetition of a class is all that varies
 * in a branch, and other bounds of it are what is wanted.
 */
#include "core/grammar/regex_tree.h"

struct length {
  uint64_t min, max; /* code points; ENDLESS */
};

#define ENDLESS (UINT64_C(1) << 40)

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

static struct length length_of(const struct lls_regex *regex, uint32_t at)
{
  const struct lls_regex_node *node = &regex->nodes[at];
  struct length all = {0, 0};
  if (node->kind == LLS_REGEX_CLASS)
    return (struct length){1, 1};
  for (uint32_t part = node->part; part != LLS_REGEX_END;
       part = regex->nodes[part].next) {
    struct length one = length_of(regex, part);
    if (node->kind != LLS_REGEX_CHOICE)
      all = (struct length){bounded(all.min + one.min), bounded(all.max + one.max)};
    else if (part == node->part)
      all = one;
    else
      all = (struct length){one.min < all.min ? one.min : all.min,
                            one.max > all.max ? one.max : all.max};
  }
  if (node->kind == LLS_REGEX_REPEAT)
    all = (struct length){times(all.min, node->min), times(all.max, node->max)};
  return all;
}

static bool bound(struct lls_regex *regex, uint32_t at, struct length wanted);

/* The one part of a sequence whose length varies, with the length of the others. */
static uint32_t varying_part(const struct lls_regex *regex, uint32_t at, uint64_t *others)
{
  uint32_t found = LLS_REGEX_END;
  *others = 0;
  for (uint32_t part = regex->nodes[at].part; part != LLS_REGEX_END;
       part = regex->nodes[part].next) {
    struct length one = length_of(regex, part);
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

static bool bound_sequence(struct lls_regex *regex, uint32_t at, struct length wanted)
{
  uint64_t others;
  uint32_t part = varying_part(regex, at, &others);
  if (part == LLS_REGEX_END || others > wanted.max)
    return false;
  return bound(regex, part,
               (struct length){less(wanted.min, others), less(wanted.max, others)});
}

/* A repetition of something of one length. */
static bool bound_repeat(struct lls_regex *regex, uint32_t at, struct length wanted)
{
  struct lls_regex_node *node = &regex->nodes[at];
  struct length one = length_of(regex, node->part);
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

static bool bound(struct lls_regex *regex, uint32_t at, struct length wanted)
{
  struct length is = length_of(regex, at);
  if (is.min >= wanted.min && is.max <= wanted.max)
    return true;
  switch (regex->nodes[at].kind) {
  case LLS_REGEX_SEQUENCE:
    return bound_sequence(regex, at, wanted);
  case LLS_REGEX_REPEAT:
    return bound_repeat(regex, at, wanted);
  case LLS_REGEX_CHOICE:
    for (uint32_t part = regex->nodes[at].part; part != LLS_REGEX_END;
         part = regex->nodes[part].next)
      if (!bound(regex, part, wanted))
        return false;
    return true;
  default:
    return false;
  }
}

bool lls_regex_bound(struct lls_regex *regex, uint32_t root, uint32_t min, uint32_t max)
{
  return bound(regex, root,
               (struct length){min, max == LLS_GRAMMAR_UNBOUNDED ? ENDLESS : max});
}
