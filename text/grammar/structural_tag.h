/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structural tags as grammars, in the two forms that vLLM and XGrammar document: the old
 * one, {"structures": [{"begin", "schema", "end"}], "triggers": [...]}, which is free
 * text in which a trigger begins one of the structures; and XGrammar's tree, {"format":
 * {...}}.
 *
 * Of its formats there are const_string, json_schema, grammar, regex, any_text; sequence,
 * or, optional, plus, star, repeat; tag, triggered_tags, tags_with_separator, dispatch.
 * Those of tokens, styles of json_schema but "json", any_order, max_tokens and max_chars
 * are refused by name. Names of special tokens in strings stand for these tokens.
 */
#ifndef LLS_GRAMMAR_STRUCTURAL_TAG_H
#define LLS_GRAMMAR_STRUCTURAL_TAG_H

#include "text/grammar/grammar_tree.h"

#include <jansson.h>

/* The node of the texts, or LLS_GRAMMAR_NONE with the tree failed. */
uint32_t lls_grammar_structural_tag(struct lls_grammar_tree *tree, const json_t *tag);

#endif
