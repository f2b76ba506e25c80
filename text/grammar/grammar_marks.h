/* SPDX-License-Identifier: Apache-2.0 */
/* Texts in a model's own syntax, in which the name of a special token stands for the
 * token: "[TOOL_CALLS]" is the token if the vocabulary has it, and otherwise the
 * letters. */
#ifndef LLS_GRAMMAR_GRAMMAR_MARKS_H
#define LLS_GRAMMAR_GRAMMAR_MARKS_H

#include "text/grammar/grammar_tree.h"

/* Like lls_grammar_literal. Special tokens are those of the tree's vocabulary; a tree
 * without one has none. */
uint32_t lls_grammar_marks(struct lls_grammar_tree *tree, const char *bytes, size_t n);

#endif
