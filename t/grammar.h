/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slow and simple recogniser of grammars, and random grammars to test with it. For
 * every node and position of a text it records where the node may end, and whether the
 * text may end inside it; the table is filled until it no longer changes.
 */
#ifndef LLS_T_GRAMMAR_H
#define LLS_T_GRAMMAR_H

#include "text/grammar/grammar_tree.h"
#include "t/dice.h"

#include <stdbool.h>
#include <string.h>

#define ORACLE_NODES 256
#define ORACLE_TEXT  60 /* most bytes of a text */

struct oracle {
  const struct lls_grammar_tree *tree;
  const unsigned char *text;
  uint32_t n, n_nodes;
  bool productive[ORACLE_NODES];
  uint64_t ends[ORACLE_NODES][ORACLE_TEXT + 1]; /* bit p: a match may end at p */
  bool goes_on[ORACLE_NODES][ORACLE_TEXT + 1];  /* the text may end inside a match */
};

/* Returns the present part of LLS_GRAMMAR_JOINED; *optional: it may be left out. */
static inline uint32_t oracle_part(const struct oracle *o, uint32_t part, bool *optional)
{
  struct lls_grammar_node n = lls_grammar_node_at(o->tree, part);
  *optional = n.kind == LLS_GRAMMAR_REPEAT && n.min == 0 && n.max == 1;
  return *optional ? n.parts[0] : part;
}

static inline bool oracle_joined_productive(struct oracle *o,
                                            const struct lls_grammar_node *n)
{
  bool any = false, optional;
  for (uint32_t i = 1; i < n->n; i++) {
    bool productive = o->productive[oracle_part(o, n->parts[i], &optional)];
    if (!optional && !productive)
      return false;
    any |= productive;
  }
  return any;
}

static inline bool oracle_make_productive(struct oracle *o, uint32_t node)
{
  struct lls_grammar_node n = lls_grammar_node_at(o->tree, node);
  bool any = false, all = true;
  if (n.kind == LLS_GRAMMAR_JOINED)
    return oracle_joined_productive(o, &n);
  if (n.kind == LLS_GRAMMAR_LITERAL)
    return true;
  if (n.kind == LLS_GRAMMAR_CLASS)
    return n.n > 0;
  for (uint32_t i = 0; i < (n.kind == LLS_GRAMMAR_REPEAT ? 1 : n.n); i++) {
    any |= o->productive[n.parts[i]];
    all &= o->productive[n.parts[i]];
  }
  if (n.kind == LLS_GRAMMAR_REPEAT)
    return n.min == 0 || any;
  return n.kind == LLS_GRAMMAR_SEQUENCE ? all : any;
}

static inline uint32_t oracle_utf8(uint32_t c, unsigned char *out)
{
  if (c < 0x80) {
    out[0] = (unsigned char)c;
    return 1;
  }
  uint32_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (uint32_t i = n; i-- > 1; c >>= 6)
    out[i] = (unsigned char)(0x80 | (c & 63));
  out[0] = (unsigned char)(lead[n] | c);
  return n;
}

static inline void oracle_bytes(struct oracle *o, uint32_t node, uint32_t at,
                                const unsigned char *bytes, uint32_t n)
{
  uint32_t left = o->n - at, same = n < left ? n : left;
  if (memcmp(o->text + at, bytes, same) != 0)
    return;
  if (n <= left)
    o->ends[node][at] |= UINT64_C(1) << (at + n);
  if (n >= left)
    o->goes_on[node][at] = true;
}

/* Tries all code points of the ranges: tests use small ones. */
static inline void oracle_class(struct oracle *o, uint32_t node,
                                const struct lls_grammar_node *n, uint32_t at)
{
  unsigned char bytes[4];
  for (uint32_t r = 0; r < n->n; r++)
    for (uint32_t c = n->ranges[r].first; c <= n->ranges[r].last; c++)
      oracle_bytes(o, node, at, bytes, oracle_utf8(c, bytes));
}

/* Follows one node from the positions in `from`; records in `owner` where the text ends
 * inside it. */
static inline uint64_t oracle_through(struct oracle *o, uint32_t owner, uint32_t start,
                                      uint64_t from, uint32_t node)
{
  uint64_t to = 0;
  for (uint32_t p = 0; p <= o->n; p++)
    if (from >> p & 1) {
      to |= o->ends[node][p];
      o->goes_on[owner][start] |= o->goes_on[node][p];
    }
  return to;
}

static inline void oracle_joined(struct oracle *o, uint32_t node,
                                 const struct lls_grammar_node *n, uint32_t at)
{
  uint64_t none = UINT64_C(1) << at, some = 0;
  for (uint32_t i = 1; i < n->n; i++) {
    bool optional;
    uint32_t part = oracle_part(o, n->parts[i], &optional);
    uint64_t from =
        o->productive[part] ? none | oracle_through(o, node, at, some, n->parts[0]) : 0;
    uint64_t reached = oracle_through(o, node, at, from, part);
    some = optional ? some | reached : reached;
    none = optional ? none : 0;
  }
  o->ends[node][at] |= some;
  o->goes_on[node][at] |= (some >> o->n & 1) != 0;
}

static inline void oracle_fill(struct oracle *o, uint32_t node, uint32_t at)
{
  struct lls_grammar_node n = lls_grammar_node_at(o->tree, node);
  uint64_t places = UINT64_C(1) << at;
  if (!o->productive[node])
    return;
  switch (n.kind) {
  case LLS_GRAMMAR_LITERAL:
    oracle_bytes(o, node, at, (const unsigned char *)n.bytes, n.n);
    break;
  case LLS_GRAMMAR_CLASS:
    oracle_class(o, node, &n, at);
    break;
  case LLS_GRAMMAR_SEQUENCE:
    for (uint32_t i = 0; i < n.n; i++)
      places = oracle_through(o, node, at, places, n.parts[i]);
    o->ends[node][at] |= places;
    o->goes_on[node][at] |= (places >> o->n & 1) != 0;
    break;
  case LLS_GRAMMAR_CHOICE:
  case LLS_GRAMMAR_RULE:
    for (uint32_t i = 0; i < n.n; i++)
      o->ends[node][at] |= oracle_through(o, node, at, places, n.parts[i]);
    break;
  case LLS_GRAMMAR_JOINED:
    oracle_joined(o, node, &n, at);
    break;
  case LLS_GRAMMAR_REPEAT:
    for (uint32_t times = 0; times <= n.max && times <= n.min + o->n + 1; times++) {
      if (times >= n.min)
        o->ends[node][at] |= places;
      if (times < n.max)
        places = oracle_through(o, node, at, places, n.parts[0]);
    }
    o->goes_on[node][at] |= (o->ends[node][at] >> o->n & 1) != 0;
    break;
  }
}

static inline uint64_t oracle_sum(const struct oracle *o)
{
  uint64_t sum = 0;
  for (uint32_t i = 0; i < o->n_nodes; i++)
    for (uint32_t p = 0; p <= o->n; p++)
      sum += (uint64_t)__builtin_popcountll(o->ends[i][p]) + o->goes_on[i][p];
  return sum;
}

/* Reads the text; oracle_matches and oracle_goes_on then answer. */
static inline void oracle_read(struct oracle *o, const struct lls_grammar_tree *tree,
                               const char *text, uint32_t n)
{
  memset(o, 0, sizeof *o);
  o->tree = tree;
  o->text = (const unsigned char *)text;
  o->n = n;
  o->n_nodes = lls_grammar_node_count(tree);
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < o->n_nodes; i++)
      if (!o->productive[i] && oracle_make_productive(o, i))
        changed = o->productive[i] = true;
  }
  for (uint64_t before = UINT64_MAX, sum = 0; sum != before;) {
    before = sum;
    for (uint32_t i = 0; i < o->n_nodes; i++)
      for (uint32_t p = n + 1; p-- > 0;)
        oracle_fill(o, i, p);
    sum = oracle_sum(o);
  }
}

static inline bool oracle_matches(const struct oracle *o)
{
  return (o->ends[lls_grammar_root(o->tree)][0] >> o->n & 1) != 0;
}

static inline bool oracle_goes_on(const struct oracle *o)
{
  return o->goes_on[lls_grammar_root(o->tree)][0];
}

/* ---- random grammars --------------------------------------------------------------- */

static inline uint32_t random_leaf(struct lls_grammar_tree *tree, struct dice *d)
{
  static const char *const literals[] = {"",   "a",   "b",        "ab",
                                         "ba", "aab", "\xC3\xA9", "c"};
  static const struct lls_grammar_range ranges[] = {
      {'a', 'a'}, {'a', 'b'}, {'b', 'c'}, {0xE8, 0xEA}, {0x7F, 0x81}, {'a', 'z'}};
  if (dice(d, 0, 2) > 0) {
    const char *literal = literals[dice(d, 0, 7)];
    return lls_grammar_literal(tree, literal, strlen(literal));
  }
  uint32_t first = dice(d, 0, 5);
  return lls_grammar_class(tree, ranges + first, dice(d, 0, 9) == 0 ? 0 : 6 - first);
}

static inline uint32_t random_node(struct lls_grammar_tree *tree, struct dice *d)
{
  uint32_t n = lls_grammar_node_count(tree), parts[3];
  for (int i = 0; i < 3; i++)
    parts[i] = dice(d, 0, n - 1);
  switch (dice(d, 0, 5)) {
  case 5:
    for (int i = 0; i < 3; i++)
      parts[i] = dice(d, 0, 1) == 0 ? lls_grammar_repeat(tree, parts[i], 0, 1) : parts[i];
    return lls_grammar_joined(tree, lls_grammar_literal(tree, "ab", dice(d, 0, 2)), parts,
                              dice(d, 1, 3));
  case 0:
    return lls_grammar_sequence(tree, parts, dice(d, 2, 3));
  case 1:
    return lls_grammar_choice(tree, parts, dice(d, 2, 3));
  case 2: {
    uint32_t min = dice(d, 0, 2);
    uint32_t max = dice(d, 0, 1) == 0 ? LLS_GRAMMAR_UNBOUNDED : min + dice(d, 0, 3);
    return lls_grammar_repeat(tree, parts[0], min, dice(d, 0, 9) == 0 ? min + 70 : max);
  }
  default:
    return random_leaf(tree, d);
  }
}

/* Makes a random grammar: some rules, some nodes, and rules that may refer to any of
 * them. Left and right recursion, ambiguity, empty and impossible rules all occur. */
static inline void random_grammar(struct lls_grammar_tree *tree, struct dice *d)
{
  uint32_t rules[4], n_rules = dice(d, 1, 4), n = dice(d, 3, 24);
  for (uint32_t i = 0; i < n_rules; i++)
    rules[i] = lls_grammar_rule(tree, "r");
  random_leaf(tree, d);
  for (uint32_t i = 0; i < n; i++)
    random_node(tree, d);
  uint32_t last = lls_grammar_node_count(tree) - 1;
  for (uint32_t i = 0; i < n_rules; i++)
    lls_grammar_define(tree, rules[i], dice(d, last / 2, last));
  lls_grammar_set_root(tree, dice(d, 0, 2) == 0 ? rules[0] : last);
}

#endif
