/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free text that ends at the first of several strings: when one of them is complete,
 * the grammar continues with the node given for it. It is Aho and Corasick's automaton
 * (Efficient String Matching, CACM 18(6), 1975) with a rule for each state, so that
 * overlapping strings are all followed at each character.
 */
#ifndef LLS_GRAMMAR_TEXT_UNTIL_H
#define LLS_GRAMMAR_TEXT_UNTIL_H

#include "text/grammar/grammar_tree.h"

#include <stdbool.h>

#define LLS_TEXT_STATES 4096 /* characters of all strings together, at most */

/* A string to search for. The names of special tokens in it match the tokens or their
 * letters. */
struct lls_text_stop {
  const char *bytes; /* UTF-8, at least one byte */
  size_t n;
  uint32_t next; /* the node after the string; LLS_GRAMMAR_NONE: the string may not
                  * occur */
};

/* Defines the rule as such a text, including the node after the string that ends it.
 * may_end: the text may also end without a string. The nodes after strings may refer to
 * the rule. */
void lls_grammar_text_until(struct lls_grammar_tree *tree, uint32_t rule,
                            const struct lls_text_stop *stops, uint32_t n, bool may_end);

#endif
