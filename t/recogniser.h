/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises texts by a grammar tree alone: an oracle for compiled grammars that is
 * small enough to be trusted. For each node and position it finds all positions where a
 * match can end. A match that is being searched already counts as none, which is right
 * for grammars without left recursion.
 */
#ifndef LLS_T_RECOGNISER_H
#define LLS_T_RECOGNISER_H

#include "text/grammar/grammar_tree.h"
#include "text/base/utf8.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct ends {
  UT_hash_handle hh;
  struct {
    uint32_t node, at;
  } key;
  bool *is; /* (n + 1) a match may end there */
};

struct recogniser {
  const struct lls_grammar_tree *tree;
  const char *text;
  uint32_t n;
  struct ends *found;
};

static inline const bool *ends_of(struct recogniser *r, uint32_t node, uint32_t at);

/* Advances every position in `from` through one part, into `to`. */
static inline bool advance(struct recogniser *r, uint32_t part, const bool *from,
                           bool *to)
{
  bool any = false;
  memset(to, 0, r->n + 1);
  for (uint32_t at = 0; at <= r->n; at++) {
    if (!from[at])
      continue;
    const bool *ends = ends_of(r, part, at);
    for (uint32_t end = at; end <= r->n; end++)
      if (ends[end])
        any = to[end] = true;
  }
  return any;
}

static inline void find_class(struct recogniser *r, const struct lls_grammar_node *node,
                              uint32_t at, bool *is)
{
  if (at == r->n)
    return;
  uint32_t point = (uint32_t)lls_utf8_char(r->text + at);
  for (uint32_t i = 0; i < node->n; i++)
    if (node->ranges[i].first <= point && point <= node->ranges[i].last)
      is[at + lls_utf8_length(r->text + at)] = true;
}

static inline void find_repeat(struct recogniser *r, const struct lls_grammar_node *node,
                               bool *from, bool *to, bool *is)
{
  for (uint32_t count = 0;; count++) {
    bool is_new = count < node->min;
    for (uint32_t end = 0; end <= r->n && count >= node->min; end++) {
      is_new |= from[end] && !is[end];
      is[end] |= from[end];
    }
    if (!is_new || count == node->max || !advance(r, node->parts[0], from, to))
      return;
    memcpy(from, to, r->n + 1);
    if (count > r->n + node->min)
      return;
  }
}

/* from: only `at`, before any part; `some`: the ends after one or more parts. */
static inline void find_joined(struct recogniser *r, const struct lls_grammar_node *node,
                               bool *from, bool *to, bool *some)
{
  bool *reached = calloc(r->n + 1, 1);
  for (uint32_t i = 1; i < node->n; i++) {
    struct lls_grammar_node part = lls_grammar_node_at(r->tree, node->parts[i]);
    bool optional = part.kind == LLS_GRAMMAR_REPEAT && part.min == 0 && part.max == 1;
    uint32_t inner = optional ? part.parts[0] : node->parts[i];
    advance(r, node->parts[0], some, to);
    for (uint32_t end = 0; end <= r->n; end++)
      to[end] |= from[end];
    advance(r, inner, to, reached);
    for (uint32_t end = 0; end <= r->n; end++) {
      some[end] = reached[end] || (optional && some[end]);
      from[end] &= optional;
    }
  }
  free(reached);
}

static inline void find_ends(struct recogniser *r, uint32_t number, uint32_t at, bool *is)
{
  struct lls_grammar_node node = lls_grammar_node_at(r->tree, number);
  bool *from = calloc(r->n + 1, 1), *to = calloc(r->n + 1, 1);
  from[at] = true;
  switch (node.kind) {
  case LLS_GRAMMAR_LITERAL:
    if (r->n - at >= node.n && memcmp(r->text + at, node.bytes, node.n) == 0)
      is[at + node.n] = true;
    break;
  case LLS_GRAMMAR_CLASS:
    find_class(r, &node, at, is);
    break;
  case LLS_GRAMMAR_SEQUENCE:
    for (uint32_t i = 0; i < node.n; i++) {
      advance(r, node.parts[i], from, to);
      memcpy(from, to, r->n + 1);
    }
    memcpy(is, from, r->n + 1);
    break;
  case LLS_GRAMMAR_CHOICE:
    for (uint32_t i = 0; i < node.n; i++) {
      advance(r, node.parts[i], from, to);
      for (uint32_t end = 0; end <= r->n; end++)
        is[end] |= to[end];
    }
    break;
  case LLS_GRAMMAR_REPEAT:
    find_repeat(r, &node, from, to, is);
    break;
  case LLS_GRAMMAR_JOINED:
    find_joined(r, &node, from, to, is);
    break;
  case LLS_GRAMMAR_RULE:
    advance(r, node.parts[0], from, is);
    break;
  }
  free(from);
  free(to);
}

static inline const bool *ends_of(struct recogniser *r, uint32_t node, uint32_t at)
{
  struct ends *ends, look = {.key = {node, at}};
  HASH_FIND(hh, r->found, &look.key, sizeof look.key, ends);
  if (ends != NULL)
    return ends->is;
  ends = calloc(1, sizeof *ends);
  ends->key = look.key;
  ends->is = calloc(r->n + 1, 1);
  HASH_ADD(hh, r->found, key, sizeof ends->key, ends);
  bool *is = calloc(r->n + 1, 1);
  find_ends(r, node, at, is);
  memcpy(ends->is, is, r->n + 1);
  free(is);
  return ends->is;
}

/* text: (n) valid UTF-8. */
static inline bool recognises(const struct lls_grammar_tree *tree, const char *text,
                              size_t n)
{
  struct recogniser r = {.tree = tree, .text = text, .n = (uint32_t)n};
  bool whole = ends_of(&r, lls_grammar_root(tree), 0)[n];
  struct ends *ends, *next;
  HASH_ITER(hh, r.found, ends, next)
  {
    HASH_DEL(r.found, ends);
    free(ends->is);
    free(ends);
  }
  return whole;
}

#endif
