/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grammars in Lark's syntax, in the subset that llguidance, and so vLLM, reads: rules
 * `name: ...` and terminals `NAME: ...` with "literals" (also '...', and "..."i),
 * ranges "a".."z", /regular expressions/ as in regex.h, groups, [optional parts], |, *
 * + ? {m,n} ~m..n, -> aliases, # and // comments; %import of the terminals of Lark's
 * library `common`; %ignore, which applies between the terminals of rules and after the
 * last; and llguidance's %json {schema} and <special tokens>. A text begins with the
 * rule `start`.
 *
 * Unsupported features are refused by name: templates, priorities, options of rules
 * ([lazy], ...), flags of regular expressions, & and ~ between terminals, other
 * directives. There is no lexer: the grammar accepts a text that can be read in any
 * way, like Lark's Earley parser with its dynamic lexer.
 */
#ifndef LLS_GRAMMAR_LARK_H
#define LLS_GRAMMAR_LARK_H

#include "text/grammar/grammar_tree.h"

#include <stdbool.h>

/* Returns the rule `start`; or LLS_GRAMMAR_NONE with the tree failed, whose error names
 * the fault and its line. */
uint32_t lls_grammar_lark(struct lls_grammar_tree *tree, const char *text, size_t n);

/* Like lls_grammar_lark, for a text in Lark's syntax, if it begins, after comments,
 * with a rule or directive of Lark's; else for one in GBNF's (gbnf.h). */
uint32_t lls_grammar_text(struct lls_grammar_tree *tree, const char *text, size_t n);

#endif
