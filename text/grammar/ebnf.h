/* SPDX-License-Identifier: Apache-2.0 */
/* Words, characters, counts and rules by name, for the parsers of grammars' texts. */
#ifndef LLS_GRAMMAR_EBNF_H
#define LLS_GRAMMAR_EBNF_H

#include "text/grammar/grammar_tree.h"
#include "core/base/hash.h"

#include <stdbool.h>

#define LLS_EBNF_DEPTH   100   /* groups inside each other */
#define LLS_EBNF_REPEATS 65536 /* the most times that {m,n} may say */

struct lls_ebnf_rule {
  UT_hash_handle hh;
  uint32_t node;
  char name[];
};

struct lls_ebnf {
  struct lls_grammar_tree *tree;
  const char *text, *at, *end; /* UTF-8 */
  struct lls_ebnf_rule *rules; /* by name */
  unsigned depth;
  bool failed;
};

struct lls_ebnf_list {
  uint32_t *nodes; /* (n) the caller frees them */
  uint32_t n, capacity;
};

void lls_ebnf_free(struct lls_ebnf *g);

/* Fails the tree with the line that it is at, once. Returns LLS_GRAMMAR_NONE. */
uint32_t lls_ebnf_fail(struct lls_ebnf *g, const char *what);
bool lls_ebnf_append(struct lls_ebnf *g, struct lls_ebnf_list *list, uint32_t node);

/* True, and past it, if the word comes next. */
bool lls_ebnf_take(struct lls_ebnf *g, const char *word);
/* Letters, digits, _ and -; how many. */
size_t lls_ebnf_take_name(struct lls_ebnf *g, const char **name);
/* The node of a rule, made when it is first named. */
uint32_t lls_ebnf_rule(struct lls_ebnf *g, const char *name, size_t length);

/* One, or an escape for one. */
bool lls_ebnf_take_character(struct lls_ebnf *g, uint32_t *point);
/* The most characters that there can be before `close`. */
size_t lls_ebnf_span(const struct lls_ebnf *g, char close);
/* Past the letters behind a quote, and the quote that ends them. */
uint32_t lls_ebnf_literal(struct lls_ebnf *g, char quote);
/* Past the min and max behind a {, and the }. */
bool lls_ebnf_take_braces(struct lls_ebnf *g, uint32_t *min, uint32_t *max);

#endif
