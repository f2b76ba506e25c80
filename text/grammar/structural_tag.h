/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structural tags as grammars, in the two forms that vLLM and XGrammar document: the
 * old form, {"structures": [{"begin", "schema", "end"}], "triggers": [...]}, which is
 * free text in which a trigger begins one of the structures; and XGrammar's tree,
 * {"format": {...}}.
 *
 * Supported formats: const_string, json_schema, grammar, regex, any_text; sequence, or,
 * optional, plus, star, repeat; tag, triggered_tags, tags_with_separator, dispatch.
 * Formats of tokens, json_schema styles other than "json", any_order, max_tokens and
 * max_chars are refused by name. The name of a special token in a string stands for the
 * token.
 */
#ifndef LLS_GRAMMAR_STRUCTURAL_TAG_H
#define LLS_GRAMMAR_STRUCTURAL_TAG_H

#include "text/grammar/grammar_tree.h"

#include <jansson.h>

/* Returns the node of the texts, or LLS_GRAMMAR_NONE with the tree failed. */
uint32_t lls_grammar_structural_tag(struct lls_grammar_tree *tree, const json_t *tag);

#endif
