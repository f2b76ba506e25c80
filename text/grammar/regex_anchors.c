/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes anchors from an expression. Anchors restrict where in a text an expression
 * may match, but a grammar describes whole texts. So for each part both sides are
 * tracked: another part, the end of the text, or, if the expression may match anywhere,
 * more text, which an anchor removes. An anchor next to another part could only hold if
 * that part happens to be empty, and is refused.
 */
#include "text/grammar/regex_tree.h"

#include <stdlib.h>

enum side {
  SIDE_PART, /* another part of the expression */
  SIDE_END,  /* the beginning or end of the text */
  SIDE_OPEN, /* any amount of other text */
};

bool lls_regex_has_anchor(const struct lls_regex *regex, uint32_t at)
{
  const struct lls_regex_node *node = &regex->nodes[at];
  if (node->kind == LLS_REGEX_FIRST || node->kind == LLS_REGEX_LAST)
    return true;
  for (uint32_t part = node->part; part != LLS_REGEX_END; part = regex->nodes[part].next)
    if (lls_regex_has_anchor(regex, part))
      return true;
  return false;
}

/* A node that matches any text. */
static uint32_t anything(struct lls_regex *regex)
{
  uint32_t any = lls_regex_add(regex, LLS_REGEX_CLASS);
  uint32_t node = any == LLS_REGEX_END ? any : lls_regex_add(regex, LLS_REGEX_REPEAT);
  if (node == LLS_REGEX_END)
    return node;
  regex->nodes[any].range = regex->n_ranges;
  regex->nodes[any].n_ranges = 1;
  lls_regex_add_range(regex, 0, 0x10FFFF);
  regex->nodes[node].part = any;
  regex->nodes[node].max = LLS_GRAMMAR_UNBOUNDED;
  return node;
}

static bool resolve(struct lls_regex *regex, uint32_t at, enum side left,
                    enum side right);

static bool resolve_choice(struct lls_regex *regex, uint32_t at, enum side left,
                           enum side right)
{
  for (uint32_t part = regex->nodes[at].part; part != LLS_REGEX_END;
       part = regex->nodes[part].next)
    if (!resolve(regex, part, left, right))
      return false;
  return true;
}

/* Returns the parts of a sequence, with room for one more at both ends; NULL if out of
 * memory. */
static uint32_t *parts_of(struct lls_regex *regex, uint32_t at, uint32_t *n)
{
  *n = 0;
  for (uint32_t part = regex->nodes[at].part; part != LLS_REGEX_END;
       part = regex->nodes[part].next)
    ++*n;
  uint32_t *parts = malloc((*n + 2) * sizeof *parts), i = 1;
  if (parts == NULL)
    lls_regex_fail(regex, "no memory for it");
  for (uint32_t part = regex->nodes[at].part; parts != NULL && part != LLS_REGEX_END;
       part = regex->nodes[part].next)
    parts[i++] = part;
  return parts;
}

static void set_parts(struct lls_regex *regex, uint32_t at, const uint32_t *parts,
                      uint32_t from, uint32_t to)
{
  uint32_t next = LLS_REGEX_END;
  for (uint32_t i = to; i-- > from;) {
    if (parts[i] == LLS_REGEX_END)
      continue;
    regex->nodes[parts[i]].next = next;
    next = parts[i];
  }
  regex->nodes[at].part = next;
}

static bool is(const struct lls_regex *regex, uint32_t at, enum lls_regex_kind kind)
{
  return regex->nodes[at].kind == kind;
}

/* Returns true if any text must be added at the open side of `part`; false for a group,
 * which passes the open side to its branches. */
static bool takes_side(const struct lls_regex *regex, uint32_t part, enum side side)
{
  return side == SIDE_OPEN && !is(regex, part, LLS_REGEX_CHOICE);
}

static bool resolve_sequence(struct lls_regex *regex, uint32_t at, enum side left,
                             enum side right)
{
  uint32_t n, *parts = parts_of(regex, at, &n), from = 1, to = n + 1;
  bool resolved = parts != NULL;
  if (!resolved)
    return false;
  for (; from < to && left != SIDE_PART && is(regex, parts[from], LLS_REGEX_FIRST);
       from++)
    left = SIDE_END;
  for (; to > from && right != SIDE_PART && is(regex, parts[to - 1], LLS_REGEX_LAST);
       to--)
    right = SIDE_END;
  for (uint32_t i = from; i < to && resolved; i++)
    resolved = resolve(regex, parts[i], i == from ? left : SIDE_PART,
                       i == to - 1 ? right : SIDE_PART);
  bool before = from == to ? left == SIDE_OPEN || right == SIDE_OPEN
                           : takes_side(regex, parts[from], left);
  bool after = from < to && takes_side(regex, parts[to - 1], right);
  if (before)
    parts[--from] = anything(regex);
  if (after)
    parts[to++] = anything(regex);
  set_parts(regex, at, parts, from, to);
  free(parts);
  return resolved && !regex->failed;
}

static bool resolve(struct lls_regex *regex, uint32_t at, enum side left, enum side right)
{
  switch (regex->nodes[at].kind) {
  case LLS_REGEX_CLASS:
    return true;
  case LLS_REGEX_CHOICE:
    return resolve_choice(regex, at, left, right);
  case LLS_REGEX_SEQUENCE:
    return resolve_sequence(regex, at, left, right);
  case LLS_REGEX_REPEAT:
    if (lls_regex_has_anchor(regex, regex->nodes[at].part))
      lls_regex_fail(regex, "an anchor (^ or $) that is repeated");
    return !regex->failed;
  case LLS_REGEX_FIRST:
  case LLS_REGEX_LAST:
    break;
  }
  lls_regex_fail(regex, "an anchor (^ or $) that is not at its beginning or end");
  return false;
}

bool lls_regex_resolve_anchors(struct lls_regex *regex, uint32_t root, bool search)
{
  enum side side = search ? SIDE_OPEN : SIDE_END;
  return resolve(regex, root, side, side);
}
