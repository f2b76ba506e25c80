/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for a text of a grammar that consists of allowed tokens only. */
#ifndef LLS_GRAMMAR_TEXT_SEARCH_H
#define LLS_GRAMMAR_TEXT_SEARCH_H

#include "text/grammar/compiled_grammar.h"

/*
 * [any] 0: every text of the grammar needs a token that has no bit in `allowed`
 * (lls_vocabulary_words). 1: there is a text without such a token, or the search was
 * given up, since texts are long or many. -ENOMEM. It takes some milliseconds at most.
 */
int lls_grammar_find_text(struct lls_grammar *grammar, const uint32_t *allowed);

#endif
