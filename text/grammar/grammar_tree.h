/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grammar as its front ends build it (JSON Schema, regular expressions, GBNF, EBNF,
 * choices): a graph of nodes over the bytes of UTF-8, in which rules may call themselves.
 * What is compiled from it is compiled_grammar.h's.
 *
 * A node is a number, and never changes once it is made; every node but a rule names only
 * nodes that were there before. A tree that ran out of its bounds stays failed: builders
 * go on with LLS_GRAMMAR_NONE, and only who compiles it looks at the error.
 */
#ifndef LLS_GRAMMAR_GRAMMAR_TREE_H
#define LLS_GRAMMAR_GRAMMAR_TREE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LLS_GRAMMAR_NONE      UINT32_MAX /* no node: the tree has failed */
#define LLS_GRAMMAR_UNBOUNDED UINT32_MAX /* a repetition without end */

enum lls_grammar_kind {
  LLS_GRAMMAR_LITERAL,  /* these bytes; none of them: the empty text */
  LLS_GRAMMAR_CLASS,    /* one code point, in one of some ranges */
  LLS_GRAMMAR_SEQUENCE, /* all of its parts, one after the other */
  LLS_GRAMMAR_CHOICE,   /* any one of its parts; without parts: nothing matches */
  LLS_GRAMMAR_REPEAT,   /* its part, from min to max times */
  LLS_GRAMMAR_JOINED,   /* some of its parts, in order, with a separator between them */
  LLS_GRAMMAR_RULE,     /* what was defined for it, maybe later, maybe by itself */
};

struct lls_grammar_range {
  uint32_t first, last; /* code points, both in it; surrogates are taken out */
};

/* Bounds of a tree: hostile schemas come from clients. */
struct lls_grammar_bounds {
  uint32_t nodes, bytes, rules;
};

struct lls_grammar_tree;

/* NULL without memory. Belongs to one thread at a time. */
struct lls_grammar_tree *lls_grammar_tree_create(const struct lls_grammar_bounds *bounds);
void lls_grammar_tree_destroy(struct lls_grammar_tree *tree);

/* The one that the tree is to be compiled for, which outlives it; NULL at first. */
struct lls_vocabulary;
void lls_grammar_tree_set_vocabulary(struct lls_grammar_tree *tree,
                                     const struct lls_vocabulary *vocabulary);
const struct lls_vocabulary *
lls_grammar_tree_vocabulary(const struct lls_grammar_tree *tree);

/* Steps that schemas of this tree have taken so far (schema_set.h): one request may bring
 * many, in its tools, and has one bound. */
unsigned *lls_grammar_tree_schema_work(struct lls_grammar_tree *tree);

/* Each returns the new node, or LLS_GRAMMAR_NONE; what they are given is copied. */
uint32_t lls_grammar_literal(struct lls_grammar_tree *tree, const char *bytes, size_t n);
uint32_t lls_grammar_class(struct lls_grammar_tree *tree,
                           const struct lls_grammar_range *ranges, uint32_t n);
/* Every code point but those of the ranges. */
uint32_t lls_grammar_class_but(struct lls_grammar_tree *tree,
                               const struct lls_grammar_range *ranges, uint32_t n);
uint32_t lls_grammar_sequence(struct lls_grammar_tree *tree, const uint32_t *parts,
                              uint32_t n);
uint32_t lls_grammar_choice(struct lls_grammar_tree *tree, const uint32_t *parts,
                            uint32_t n);
uint32_t lls_grammar_repeat(struct lls_grammar_tree *tree, uint32_t part, uint32_t min,
                            uint32_t max);
/* One or more of the parts, in order, with the separator, which is none of the n, between
 * those that are there. A part that is a repetition from 0 to 1 times may be left out. It
 * is compiled to something that grows with n, as rows and choices for it would not; a
 * part that is joined itself is compiled apart from what surrounds it. */
uint32_t lls_grammar_joined(struct lls_grammar_tree *tree, uint32_t separator,
                            const uint32_t *parts, uint32_t n);

/* A rule that may be named at once and is defined later, once. The name is for messages.
 */
uint32_t lls_grammar_rule(struct lls_grammar_tree *tree, const char *name);
void lls_grammar_define(struct lls_grammar_tree *tree, uint32_t rule, uint32_t body);

/* Where a text begins. */
void lls_grammar_set_root(struct lls_grammar_tree *tree, uint32_t node);

/* A node, for code that walks the tree. */
struct lls_grammar_node {
  enum lls_grammar_kind kind;
  uint32_t n; /* bytes, ranges or parts; 0 or 1 for a rule: whether it is defined */
  uint32_t min, max; /* of LLS_GRAMMAR_REPEAT */
  const char
      *bytes; /* (n) of LLS_GRAMMAR_LITERAL; of LLS_GRAMMAR_RULE its name, ends in 0 */
  const struct lls_grammar_range *ranges; /* (n) sorted, apart from each other */
  const uint32_t *parts; /* (n) the first one of LLS_GRAMMAR_JOINED is its separator */
};

/* Valid until the tree grows. */
struct lls_grammar_node lls_grammar_node_at(const struct lls_grammar_tree *tree,
                                            uint32_t node);
uint32_t lls_grammar_node_count(const struct lls_grammar_tree *tree);
uint32_t lls_grammar_root(const struct lls_grammar_tree *tree);

/* Classes that take long to find, kept under a name for whoever needs one again: a
 * general category of Unicode. LLS_GRAMMAR_NONE: it is not known. The name is copied. */
#define LLS_GRAMMAR_CLASS_NAME 4
uint32_t lls_grammar_known_class(const struct lls_grammar_tree *tree, const char *name);
void lls_grammar_keep_class(struct lls_grammar_tree *tree, const char *name,
                            uint32_t node);

/* Marks the tree as failed with a message, as a front end's own errors do; the first one
 * stays. Returns LLS_GRAMMAR_NONE. */
uint32_t lls_grammar_fail(struct lls_grammar_tree *tree, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* True once it has failed: nothing is added any more, so that a front end that goes down
 * some way again and again need not. */
bool lls_grammar_has_failed(const struct lls_grammar_tree *tree);
/* 0, -EINVAL (what a front end said, or a rule without a definition, or no root), -E2BIG
 * (a bound), -ENOMEM. */
int lls_grammar_tree_check(const struct lls_grammar_tree *tree, struct lls_error *err);

#endif
