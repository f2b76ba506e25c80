/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for a text of a grammar that consists of allowed tokens only. */
#ifndef LLS_GRAMMAR_TEXT_SEARCH_H
#define LLS_GRAMMAR_TEXT_SEARCH_H

#include "text/grammar/compiled_grammar.h"

/*
 * [any] Returns 0 if every text of the grammar needs a token whose bit is clear in
 * `allowed` (lls_vocabulary_words); 1 if there is a text without such a token, or if
 * the search was given up because texts are long or many; or -ENOMEM. It takes some
 * milliseconds at most.
 */
int lls_grammar_find_text(struct lls_grammar *grammar, const uint32_t *allowed);

#endif
