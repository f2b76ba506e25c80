/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds the length of an expression if no grammar can have all of its matches up to
 * that length. The variable parts share the length, parts that vary little getting
 * theirs first: some short matches are lost, and none is too long.
 */
#include "text/grammar/regex_tree.h"

#define FEW 3 /* repetitions that get a share each; more repetitions share these */

static bool narrow(struct lls_regex *regex, uint32_t at, uint64_t max);

static uint64_t span(const struct lls_regex *regex, uint32_t at)
{
  struct lls_regex_length is = lls_regex_length_of(regex, at);
  return is.max - is.min;
}

/* The number of shares of a part: one per repetition, at most FEW. */
static uint64_t weight_of(const struct lls_regex *regex, uint32_t at)
{
  const struct lls_regex_node *node = &regex->nodes[at];
  if (node->kind != LLS_REGEX_REPEAT || node->max <= 1 ||
      regex->nodes[node->part].kind == LLS_REGEX_CLASS)
    return 1;
  return node->max < FEW ? node->max : FEW;
}

/* Returns the length of one share, so that parts which vary less than their shares
 * leave the remainder to the parts which vary more. */
static uint64_t share_of(const struct lls_regex *regex, uint32_t first, uint64_t spare)
{
  uint64_t share = 0;
  for (bool changed = true; changed;) {
    uint64_t left = spare, n = 0;
    for (uint32_t part = first; part != LLS_REGEX_END; part = regex->nodes[part].next) {
      uint64_t varies = span(regex, part), weight = weight_of(regex, part);
      if (varies <= share * weight)
        left -= varies;
      else
        n += weight;
    }
    changed = n > 0 && left / n > share;
    share = changed ? left / n : share;
  }
  return share;
}

static bool narrow_sequence(struct lls_regex *regex, uint32_t at, uint64_t max)
{
  uint32_t first = regex->nodes[at].part;
  uint64_t share = share_of(regex, first, max - lls_regex_length_of(regex, at).min);
  for (uint32_t part = first; part != LLS_REGEX_END; part = regex->nodes[part].next) {
    uint64_t may_vary = share * weight_of(regex, part);
    if (span(regex, part) > may_vary &&
        !narrow(regex, part, lls_regex_length_of(regex, part).min + may_vary))
      return false;
  }
  return true;
}

/* Narrows each branch, and drops branches that are too long at their shortest. */
static bool narrow_choice(struct lls_regex *regex, uint32_t at, uint64_t max)
{
  uint32_t kept = LLS_REGEX_END, next;
  for (uint32_t part = regex->nodes[at].part; part != LLS_REGEX_END; part = next) {
    next = regex->nodes[part].next;
    if (!narrow(regex, part, max))
      continue;
    regex->nodes[part].next = kept;
    kept = part;
  }
  regex->nodes[at].part = kept;
  return kept != LLS_REGEX_END;
}

static bool narrow_repeat(struct lls_regex *regex, uint32_t at, uint64_t max)
{
  struct lls_regex_node *node = &regex->nodes[at];
  struct lls_regex_length one = lls_regex_length_of(regex, node->part);
  uint64_t times = one.max == 0 ? node->max : max / one.max;
  uint64_t fewest = node->min > FEW ? node->min : FEW;
  if (fewest > node->max)
    fewest = node->max;
  if (times >= fewest) {
    node->max = times < node->max ? (uint32_t)times : node->max;
    return true;
  }
  if (one.min > 0 && fewest > max / one.min)
    fewest = max / one.min;
  node->max = (uint32_t)fewest;
  return node->max >= node->min &&
         (fewest == 0 || narrow(regex, node->part, max / fewest));
}

static bool narrow(struct lls_regex *regex, uint32_t at, uint64_t max)
{
  struct lls_regex_length is = lls_regex_length_of(regex, at);
  if (is.max <= max)
    return true;
  if (is.min > max)
    return false;
  switch (regex->nodes[at].kind) {
  case LLS_REGEX_SEQUENCE:
    return narrow_sequence(regex, at, max);
  case LLS_REGEX_CHOICE:
    return narrow_choice(regex, at, max);
  default:
    return narrow_repeat(regex, at, max);
  }
}

bool lls_regex_narrow(struct lls_regex *regex, uint32_t root, uint32_t min, uint32_t max)
{
  return (max == LLS_GRAMMAR_UNBOUNDED || narrow(regex, root, max)) &&
         lls_regex_length_of(regex, root).min >= min;
}
