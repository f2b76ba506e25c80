/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that several expressions have in common, or some of them and others not, by the
 * product of their automata (Hopcroft and Ullman 1979, section 3.2, and the subsets of
 * section 2.3) over code points. Names of properties under patterns are such, and
 * patterns beside lengths.
 *
 *   regex_states.c    expressions -> states without determinism
 *   regex_product.c   sets of those -> rules of a grammar
 */
#ifndef LLS_GRAMMAR_REGEX_PRODUCT_H
#define LLS_GRAMMAR_REGEX_PRODUCT_H

#include "text/grammar/grammar_tree.h"

#include <stdbool.h>

#define LLS_PRODUCT_TERMS  8    /* expressions */
#define LLS_PRODUCT_SETS   4500 /* states of the product: a rule each */
#define LLS_PRODUCT_STATES 8000 /* of the expressions together */

struct lls_product_term {
  const char *pattern;
  bool search;  /* it may match anywhere in the text */
  bool outside; /* texts that it does not match are meant */
};

struct lls_product {
  struct lls_product_term terms[LLS_PRODUCT_TERMS]; /* (n) all of which hold */
  uint32_t n;
  const char *const *others; /* (n_others) texts that are not meant, UTF-8 */
  uint32_t n_others;
  uint32_t min, max; /* code points; LLS_GRAMMAR_UNBOUNDED */
  uint32_t most;     /* states, at most LLS_PRODUCT_SETS; more: -ENOTSUP */
  bool json;         /* the text is the inside of a JSON string */
  uint32_t nothing;  /* the node to return where there is no such text */
};

/* The node, or LLS_GRAMMAR_NONE and why. -EINVAL in *code: an expression; -ENOTSUP: too
 * many states; -E2BIG: the tree has failed. Adds to *work, in ranges that were looked at.
 */
uint32_t lls_grammar_product(struct lls_grammar_tree *tree, const struct lls_product *p,
                             uint64_t *work, int *code, struct lls_error *err);

#endif
