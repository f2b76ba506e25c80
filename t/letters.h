/* SPDX-License-Identifier: Apache-2.0 */
/* A vocabulary of letters for models of tests, and a grammar of short words in it. */
#ifndef LLS_T_LETTERS_H
#define LLS_T_LETTERS_H

#include "t/tap.h"

#include <string.h>

#include "text/grammar/compiled_grammar.h"
#include "text/grammar/gbnf.h"

static const struct lls_grammar_bounds bounds = {.nodes = 100, .bytes = 4096, .rules = 9};

/* Token i is the letter 'a' + i % 8; every second one of the rest is two letters. The
 * model's own end token is left out, and token 5 ends a text. */
static inline struct lls_vocabulary *letters(uint32_t size)
{
  static const char two[] = "abacadbcbdcdaabbccddeeffgghh";
  struct lls_token_bytes *tokens = calloc(size, sizeof *tokens);
  static const char one[] = "abcdefgh";
  struct lls_vocabulary *v = NULL;
  const int32_t end = 5;
  for (uint32_t i = 0; i < size; i++)
    tokens[i] = i % 3 == 0 ? (struct lls_token_bytes){two + i / 3 % 14 * 2, 2}
                           : (struct lls_token_bytes){one + i % 8, 1};
  assert_int_equal(lls_vocabulary_of(tokens, size, &end, 1, &v, NULL), 0);
  free(tokens);
  return v;
}

enum { ALTERNATIVES = 5 };
/* After "ca" the rest of the last alternative is forced. */
static const char *const any_of[ALTERNATIVES] = {"ab", "cd", "ba", "d",
                                                 "cadbcdacbdcadbb"};

/* (ab|cd|ba|d|cadbcdacbdcadbb){min,max} last */
static inline struct lls_grammar *grammar_of(const struct lls_vocabulary *v, uint32_t min,
                                             uint32_t max, const char *last)
{
  const struct lls_grammar_limits limits = LLS_GRAMMAR_LIMITS;
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  struct lls_grammar *g = NULL;
  uint32_t parts[ALTERNATIVES];
  for (int i = 0; i < ALTERNATIVES; i++)
    parts[i] = lls_grammar_literal(tree, any_of[i], strlen(any_of[i]));
  uint32_t both[] = {
      lls_grammar_repeat(tree, lls_grammar_choice(tree, parts, ALTERNATIVES), min, max),
      lls_grammar_literal(tree, last, strlen(last))};
  lls_grammar_set_root(tree, lls_grammar_sequence(tree, both, 2));
  assert_int_equal(lls_grammar_compile(tree, v, &limits, &g, NULL), 0);
  lls_grammar_tree_destroy(tree);
  return g;
}

/* All words of up to three letters from 'a' to 'h', and no end token. */
static inline struct lls_vocabulary *words(uint32_t size)
{
  struct lls_token_bytes *tokens = calloc(size, sizeof *tokens);
  char(*text)[3] = calloc(size, sizeof *text);
  struct lls_vocabulary *v = NULL;
  const int32_t end = 5;
  for (uint32_t i = 0; i < size; i++) {
    tokens[i].bytes = text[i];
    for (uint32_t rest = i; tokens[i].n == 0 || rest > 0; rest /= 8)
      text[i][tokens[i].n++] = (char)('a' + rest % 8);
    if (tokens[i].n > 3 || i == 5)
      tokens[i].n = 0;
  }
  assert_int_equal(lls_vocabulary_of(tokens, size, &end, 1, &v, NULL), 0);
  free(tokens);
  free(text);
  return v;
}

/* After n letters there are about n states, one for each way to read them. */
static inline struct lls_grammar *ambiguous(const struct lls_vocabulary *v)
{
  static const char text[] =
      "root ::= s \"z\"\ns ::= x s x? | x s? | x\n"
      "x ::= \"a\" | \"b\" | \"c\" | \"d\" | \"e\" | \"f\" | \"g\" | \"h\"";
  const struct lls_grammar_limits limits = LLS_GRAMMAR_LIMITS;
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  struct lls_grammar *g = NULL;
  lls_grammar_set_root(tree, lls_grammar_gbnf(tree, text, strlen(text)));
  assert_int_equal(lls_grammar_compile(tree, v, &limits, &g, NULL), 0);
  lls_grammar_tree_destroy(tree);
  return g;
}

#endif
