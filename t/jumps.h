/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grammar for tests of schedulers: after the letter "b" 10 tokens are forced; an
 * answer may end between any two letters that are not forced.
 */
#ifndef LLS_T_JUMPS_H
#define LLS_T_JUMPS_H

#include "text/grammar/compiled_grammar.h"
#include "t/tap.h"

#include <string.h>

#define JUMPS_LONGEST 10 /* tokens of the longest jump */

struct jumps {
  struct lls_vocabulary *vocabulary;
  struct lls_grammar *grammar;
};

/* Makes the grammar (a | bccccccccca)* over tokens of one letter each. */
static inline void jumps_open(struct jumps *j, uint32_t vocabulary, int32_t eos)
{
  static const struct lls_grammar_bounds bounds = {.nodes = 10, .bytes = 100, .rules = 1};
  const struct lls_grammar_limits limits = LLS_GRAMMAR_LIMITS;
  struct lls_token_bytes *tokens = calloc(vocabulary, sizeof *tokens);
  for (uint32_t i = 0; i < vocabulary; i++)
    tokens[i] = (struct lls_token_bytes){&"abc"[i % 3], 1};
  assert_int_equal(lls_vocabulary_of(tokens, vocabulary, &eos, 1, &j->vocabulary, NULL),
                   0);
  free(tokens);
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  const uint32_t parts[] = {lls_grammar_literal(tree, "a", 1),
                            lls_grammar_literal(tree, "bccccccccca", 11)};
  lls_grammar_set_root(tree, lls_grammar_repeat(tree, lls_grammar_choice(tree, parts, 2),
                                                0, LLS_GRAMMAR_UNBOUNDED));
  assert_int_equal(lls_grammar_compile(tree, j->vocabulary, &limits, &j->grammar, NULL),
                   0);
  lls_grammar_tree_destroy(tree);
}

static inline void jumps_close(struct jumps *j)
{
  lls_grammar_unref(j->grammar);
  lls_vocabulary_destroy(j->vocabulary);
}

#endif
