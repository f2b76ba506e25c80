/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free text that is watched for some strings: where one of them is complete, the grammar
 * goes on as that string says. Aho and Corasick's automaton (Efficient String Matching,
 * CACM 18(6), 1975), a rule for each of its states, so that it is known at each character
 * which strings have begun, whatever they have in common.
 */
#ifndef LLS_GRAMMAR_TEXT_UNTIL_H
#define LLS_GRAMMAR_TEXT_UNTIL_H

#include "text/grammar/grammar_tree.h"

#include <stdbool.h>

#define LLS_TEXT_STATES 4096 /* characters of all strings together, at most */

/* A string that is looked for: names of special tokens in it may come as these tokens or
 * as their letters. */
struct lls_text_stop {
  const char *bytes; /* UTF-8, at least one */
  size_t n;
  uint32_t next; /* the node that follows it; LLS_GRAMMAR_NONE: it may not come */
};

/* Defines the rule as such a text, up to and with what follows a string; may_end: it may
 * also end before there was one. What follows may name the rule. */
void lls_grammar_text_until(struct lls_grammar_tree *tree, uint32_t rule,
                            const struct lls_text_stop *stops, uint32_t n, bool may_end);

#endif
