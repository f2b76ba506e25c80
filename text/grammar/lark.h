/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grammars in Lark's syntax, the part of it that llguidance, and so vLLM, read: rules
 * `name: ...` and terminals `NAME: ...` with "literals" (also '...', and "..."i), ranges
 * "a".."z", /regular expressions/ as regex.h has them, groups, [optional ones], |,
 * * + ? {m,n} ~m..n, -> aliases, # and // comments; %import of the terminals of Lark's
 * library `common`, %ignore between the terminals of rules and after the last, and
 * llguidance's %json {schema} and <special tokens>. A text begins with the rule `start`.
 *
 * What is not kept is refused by name: templates, priorities, options of rules
 * ([lazy], ...), flags of regular expressions, & and ~ between terminals, other
 * directives. There is no lexer: a text is of the grammar if it can be read in any way,
 * as with Lark's Earley parser and its dynamic lexer.
 */
#ifndef LLS_GRAMMAR_LARK_H
#define LLS_GRAMMAR_LARK_H

#include "text/grammar/grammar_tree.h"

#include <stdbool.h>

/* True if the first thing that is said is a rule or a directive of Lark's. */
bool lls_lark_is_likely(const char *text, size_t n);

/* The rule `start`, or LLS_GRAMMAR_NONE with the tree failed: what is wrong, in which
 * line. */
uint32_t lls_grammar_lark(struct lls_grammar_tree *tree, const char *text, size_t n);

/* The same for a grammar's text in this syntax or in GBNF's (gbnf.h), whichever it is. */
uint32_t lls_grammar_text(struct lls_grammar_tree *tree, const char *text, size_t n);

#endif
