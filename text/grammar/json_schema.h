/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Schema as a grammar: the texts that are JSON, valid by the schema, and written
 * as a model would write them. Properties come in the schema's order; properties that
 * the schema does not name follow, and among these, late, the optional ones. White
 * space, escapes and lengths of numbers are those of json_syntax.h; integers have no
 * fraction.
 *
 * Supported: type (one or several), enum, const, anyOf, oneOf (its branches exclude
 * each other), allOf, $ref into the schema, boolean schemas; properties, required,
 * additionalProperties, patternProperties, propertyNames, minProperties, maxProperties,
 * and unevaluatedProperties where it equals additionalProperties; items, prefixItems,
 * additionalItems, minItems, maxItems, uniqueItems of a few constants; minLength,
 * maxLength, pattern, format; minimum, maximum, the exclusive ones, multipleOf. Names
 * and formats unknown to JSON Schema have no effect, as in every validator. Keywords
 * that the named draft does not have, and keywords next to $ref, are applied: a text is
 * then valid by both readings.
 *
 * The grammar accepts no invalid text, but leaves out some valid ones: not every text
 * of a format whose length is bounded (schema_format.c), and branches of oneOf that
 * only a keyword without an opposite could tell apart (schema_negation.c).
 */
#ifndef LLS_GRAMMAR_JSON_SCHEMA_H
#define LLS_GRAMMAR_JSON_SCHEMA_H

#include "text/grammar/grammar_tree.h"

#include <jansson.h>
#include <stdbool.h>

/*
 * [any] Returns the node of the texts; or LLS_GRAMMAR_NONE with the tree failed, whose
 * error names the place in the schema. strict: an unsupported keyword is an error that
 * names it; otherwise the keyword is ignored, and the grammar accepts more texts than
 * the schema. The schema is not referenced afterwards.
 */
uint32_t lls_grammar_json_schema(struct lls_grammar_tree *tree, const json_t *schema,
                                 bool strict);

/*
 * [any] Like lls_grammar_json_schema, for a function's parameters, whose texts are
 * objects. An object schema that names properties and does not mention additional ones
 * allows none, also in nested schemas: a model that may invent names does so until it is
 * cut off. An object without any keyword about properties is empty.
 */
uint32_t lls_grammar_json_arguments(struct lls_grammar_tree *tree, const json_t *schema,
                                    bool strict);

/* Any JSON object, for {"type": "json_object"}. */
uint32_t lls_grammar_json_object(struct lls_grammar_tree *tree);

#endif
