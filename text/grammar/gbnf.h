/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grammars in llama.cpp's GBNF and XGrammar's EBNF, which differ little: rules `name
 * ::= ...` with literals "...", sets [a-z] and [^a-z], a dot for any character, groups,
 * |, * + ? {m} {m,} {m,n} and # comments; a text begins with the rule `root`. A rule
 * ends with its line, unless a group is open or the line ends with a |. A rule of
 * XGrammar may continue until the next `name ::=`, and may begin with a |. lark.h reads
 * Lark's grammars.
 */
#ifndef LLS_GRAMMAR_GBNF_H
#define LLS_GRAMMAR_GBNF_H

#include "text/grammar/grammar_tree.h"

/* Returns the rule `root`; or LLS_GRAMMAR_NONE with the tree failed, whose error names
 * the fault and its line. */
uint32_t lls_grammar_gbnf(struct lls_grammar_tree *tree, const char *text, size_t n);

#endif
