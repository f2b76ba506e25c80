/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of a model's own syntax, in which the names of special tokens stand for these:
 * "[TOOL_CALLS]" is that token where the vocabulary has it, and else its letters. */
#ifndef LLS_GRAMMAR_GRAMMAR_MARKS_H
#define LLS_GRAMMAR_GRAMMAR_MARKS_H

#include "text/grammar/grammar_tree.h"

/* As lls_grammar_literal. Of the tree's vocabulary; without one there are no such tokens.
 */
uint32_t lls_grammar_marks(struct lls_grammar_tree *tree, const char *bytes, size_t n);

#endif
