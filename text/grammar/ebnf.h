/* SPDX-License-Identifier: Apache-2.0 */
/* Words, characters, counts and rules by name, for the parsers of grammars' texts. */
#ifndef LLS_GRAMMAR_EBNF_H
#define LLS_GRAMMAR_EBNF_H

#include "text/grammar/grammar_tree.h"
#include "core/base/hash.h"

#include <stdbool.h>

#define LLS_EBNF_DEPTH   100   /* groups inside each other */
#define LLS_EBNF_REPEATS 65536 /* largest number in {m,n} */

struct lls_ebnf_rule {
  UT_hash_handle hh;
  uint32_t node;
  char name[];
};

struct lls_ebnf {
  struct lls_grammar_tree *tree;
  const char *text, *at, *end; /* UTF-8 */
  struct lls_ebnf_rule *rules; /* a hash, by name */
  unsigned depth;
  bool failed;
};

struct lls_ebnf_list {
  uint32_t *nodes; /* (n) freed by the caller */
  uint32_t n, capacity;
};

void lls_ebnf_free(struct lls_ebnf *g);

/* Fails the tree with the current line, once. Returns LLS_GRAMMAR_NONE. */
uint32_t lls_ebnf_fail(struct lls_ebnf *g, const char *what);
bool lls_ebnf_append(struct lls_ebnf *g, struct lls_ebnf_list *list, uint32_t node);

/* Skips the word and returns true, if it comes next. */
bool lls_ebnf_take(struct lls_ebnf *g, const char *word);
/* Skips a name of letters, digits, _ and -. Returns its length, 0 if there is none. */
size_t lls_ebnf_take_name(struct lls_ebnf *g, const char **name);
/* Returns the node of a rule, which is made when the rule is first named. */
uint32_t lls_ebnf_rule(struct lls_ebnf *g, const char *name, size_t length);

/* Takes one code point, written as itself or as an escape. */
bool lls_ebnf_take_character(struct lls_ebnf *g, uint32_t *point);
/* Returns the largest number of characters that can come before `close`. */
size_t lls_ebnf_span(const struct lls_ebnf *g, char close);
/* Reads a literal up to and including its closing quote; the opening one is already
 * taken. Returns its node. */
uint32_t lls_ebnf_literal(struct lls_ebnf *g, char quote);
/* Reads the min and max of a repetition and the closing brace; the { is already taken. */
bool lls_ebnf_take_braces(struct lls_ebnf *g, uint32_t *min, uint32_t *max);

#endif
