/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts that several expressions have in common, or that some match and others do
 * not, by the product of their automata (Hopcroft and Ullman 1979, section 3.2, and the
 * subset construction of section 2.3) over code points. It is used for property names
 * under several patterns, and for patterns combined with lengths.
 *
 *   regex_states.c    turns expressions into nondeterministic states
 *   regex_product.c   turns sets of those states into rules of a grammar
 */
#ifndef LLS_GRAMMAR_REGEX_PRODUCT_H
#define LLS_GRAMMAR_REGEX_PRODUCT_H

#include "text/grammar/grammar_tree.h"

#include <stdbool.h>

#define LLS_PRODUCT_TERMS  8    /* expressions */
#define LLS_PRODUCT_SETS   4500 /* states of the product, one rule each */
#define LLS_PRODUCT_STATES 8000 /* states of all expressions together */

struct lls_product_term {
  const char *pattern;
  bool search;  /* the pattern may match anywhere in the text */
  bool outside; /* selects the texts that the pattern does not match */
};

struct lls_product {
  struct lls_product_term terms[LLS_PRODUCT_TERMS]; /* (n) a text must satisfy all of
                                                     * them */
  uint32_t n;
  const char *const *others; /* (n_others) excluded texts, UTF-8 */
  uint32_t n_others;
  uint32_t min, max; /* code points; LLS_GRAMMAR_UNBOUNDED */
  uint32_t most;     /* limit on states, at most LLS_PRODUCT_SETS; beyond it -ENOTSUP */
  bool json;         /* the text is the inside of a JSON string */
  uint32_t nothing;  /* node to return if no text satisfies all terms */
};

/* Returns the node; or LLS_GRAMMAR_NONE and the reason. *code is then -EINVAL for a
 * fault in an expression; -ENOTSUP for too many states; -E2BIG if the tree has failed.
 * Adds the number of ranges visited to *work. */
uint32_t lls_grammar_product(struct lls_grammar_tree *tree, const struct lls_product *p,
                             uint64_t *work, int *code, struct lls_error *err);

#endif
