/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grammars in GBNF, as llama.cpp writes them, and in the EBNF of XGrammar, which differs
 * in little: rules `name ::= ...` with literals "...", sets [a-z] and [^a-z], a dot for
 * any character, groups, |, * + ? {m} {m,} {m,n} and # comments; a text begins with the
 * rule `root`. A rule ends with its line, but where a group is open or the line ends with
 * a |; XGrammar's may go on until the next `name ::=`, and may begin with a |. Lark's
 * grammars are lark.h's.
 */
#ifndef LLS_GRAMMAR_GBNF_H
#define LLS_GRAMMAR_GBNF_H

#include "text/grammar/grammar_tree.h"

/* The rule `root`, or LLS_GRAMMAR_NONE with the tree failed: what is wrong, in which
 * line.
 */
uint32_t lls_grammar_gbnf(struct lls_grammar_tree *tree, const char *text, size_t n);

#endif
