/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grammar as its front ends build it (JSON Schema, regular expressions, GBNF, EBNF,
 * choices): a graph of nodes over the bytes of UTF-8, in which rules may be recursive.
 * compiled_grammar.h compiles it.
 *
 * A node is a number, and never changes once made; every node except a rule refers only
 * to nodes made before it. A tree that exceeded its bounds stays failed: builders
 * continue with LLS_GRAMMAR_NONE, and only the caller that compiles the tree checks the
 * error.
 */
#ifndef LLS_GRAMMAR_GRAMMAR_TREE_H
#define LLS_GRAMMAR_GRAMMAR_TREE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LLS_GRAMMAR_NONE      UINT32_MAX /* no node: the tree has failed */
#define LLS_GRAMMAR_UNBOUNDED UINT32_MAX /* unbounded repetition */

enum lls_grammar_kind {
  LLS_GRAMMAR_LITERAL,  /* a byte string; may be empty */
  LLS_GRAMMAR_CLASS,    /* one code point from a set of ranges */
  LLS_GRAMMAR_SEQUENCE, /* all parts in order */
  LLS_GRAMMAR_CHOICE,   /* any one of the parts; without parts, no text matches */
  LLS_GRAMMAR_REPEAT,   /* one part, repeated min to max times */
  LLS_GRAMMAR_JOINED,   /* some of the parts, in order, with a separator between them */
  LLS_GRAMMAR_RULE,     /* refers to the node defined for it, perhaps later, perhaps
                         * recursive */
};

struct lls_grammar_range {
  uint32_t first, last; /* code points, both inclusive; surrogates are removed */
};

/* Bounds of a tree: hostile schemas come from clients. */
struct lls_grammar_bounds {
  uint32_t nodes, bytes, rules;
};

struct lls_grammar_tree;

/* Returns NULL if out of memory. A tree belongs to one thread at a time. */
struct lls_grammar_tree *lls_grammar_tree_create(const struct lls_grammar_bounds *bounds);
void lls_grammar_tree_destroy(struct lls_grammar_tree *tree);

/* Sets the vocabulary that the tree is to be compiled for, which must outlive the tree;
 * NULL at first. */
struct lls_vocabulary;
void lls_grammar_tree_set_vocabulary(struct lls_grammar_tree *tree,
                                     const struct lls_vocabulary *vocabulary);
const struct lls_vocabulary *
lls_grammar_tree_vocabulary(const struct lls_grammar_tree *tree);

/* Returns the counter of the steps that schemas of this tree have taken (schema_set.h):
 * one request may bring many schemas, in its tools, and has one bound for all. */
unsigned *lls_grammar_tree_schema_work(struct lls_grammar_tree *tree);

/* Each of these functions returns the new node, or LLS_GRAMMAR_NONE. Arguments are
 * copied. */
uint32_t lls_grammar_literal(struct lls_grammar_tree *tree, const char *bytes, size_t n);
uint32_t lls_grammar_class(struct lls_grammar_tree *tree,
                           const struct lls_grammar_range *ranges, uint32_t n);
/* Matches every code point outside of the ranges. */
uint32_t lls_grammar_class_but(struct lls_grammar_tree *tree,
                               const struct lls_grammar_range *ranges, uint32_t n);
uint32_t lls_grammar_sequence(struct lls_grammar_tree *tree, const uint32_t *parts,
                              uint32_t n);
uint32_t lls_grammar_choice(struct lls_grammar_tree *tree, const uint32_t *parts,
                            uint32_t n);
uint32_t lls_grammar_repeat(struct lls_grammar_tree *tree, uint32_t part, uint32_t min,
                            uint32_t max);
/*
 * One or more of the parts, in order, with the separator between the parts present; the
 * separator is not one of the n parts. A part that is a repetition of 0 to 1 times may
 * be absent. The compiled form grows linearly with n, unlike an equivalent choice of
 * sequences; a part that is itself joined is compiled separately.
 */
uint32_t lls_grammar_joined(struct lls_grammar_tree *tree, uint32_t separator,
                            const uint32_t *parts, uint32_t n);

/* Makes a rule, which can be referenced at once and is defined later, exactly once. The
 * name is for messages. */
uint32_t lls_grammar_rule(struct lls_grammar_tree *tree, const char *name);
void lls_grammar_define(struct lls_grammar_tree *tree, uint32_t rule, uint32_t body);

/* Sets the node of the whole text. */
void lls_grammar_set_root(struct lls_grammar_tree *tree, uint32_t node);

/* A node, for code that walks the tree. */
struct lls_grammar_node {
  enum lls_grammar_kind kind;
  uint32_t n; /* number of bytes, ranges or parts; of a rule: 1 if defined, else 0 */
  uint32_t min, max; /* for LLS_GRAMMAR_REPEAT */
  const char
      *bytes; /* (n) of LLS_GRAMMAR_LITERAL; of LLS_GRAMMAR_RULE its name, ends in 0 */
  const struct lls_grammar_range *ranges; /* (n) sorted and disjoint */
  const uint32_t *parts; /* (n) the first part of LLS_GRAMMAR_JOINED is the separator */
};

/* Valid until the tree grows. */
struct lls_grammar_node lls_grammar_node_at(const struct lls_grammar_tree *tree,
                                            uint32_t node);
uint32_t lls_grammar_node_count(const struct lls_grammar_tree *tree);
uint32_t lls_grammar_root(const struct lls_grammar_tree *tree);

/* Classes that take long to compute, such as a general category of Unicode, stored
 * under a name for reuse. Returns LLS_GRAMMAR_NONE if the name has no class. The name
 * is copied. */
#define LLS_GRAMMAR_CLASS_NAME 4
uint32_t lls_grammar_known_class(const struct lls_grammar_tree *tree, const char *name);
void lls_grammar_keep_class(struct lls_grammar_tree *tree, const char *name,
                            uint32_t node);

/* Marks the tree as failed with a message from a front end; a later message does not
 * replace the first. Returns LLS_GRAMMAR_NONE. */
uint32_t lls_grammar_fail(struct lls_grammar_tree *tree, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Returns true if the tree has failed. A failed tree ignores additions, so a recursive
 * front end can check this and stop early. */
bool lls_grammar_has_failed(const struct lls_grammar_tree *tree);
/* Returns 0; -EINVAL (a front end's error, a rule without a definition, or no root);
 * -E2BIG (a bound exceeded); or -ENOMEM. */
int lls_grammar_tree_check(const struct lls_grammar_tree *tree, struct lls_error *err);

#endif
