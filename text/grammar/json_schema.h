/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Schema as a grammar: the texts that are JSON, valid by the schema, and written as
 * a model would: properties in the schema's order, those that it does not name after
 * them and among these, late, those that may be left out; white space, escapes and
 * lengths of numbers as json_syntax.h has them, integers without a fraction.
 *
 * Kept: type (one or several), enum, const, anyOf, oneOf (whose branches exclude each
 * other), allOf, $ref into the schema, boolean schemas; properties, required,
 * additionalProperties, patternProperties, propertyNames, minProperties, maxProperties,
 * and unevaluatedProperties where it is additionalProperties; items, prefixItems,
 * additionalItems, minItems, maxItems, uniqueItems of a few constants; minLength,
 * maxLength, pattern, format; minimum, maximum, the exclusive ones, multipleOf. Names
 * that JSON Schema does not know, and formats that it does not, say nothing, as
 * everywhere. Keywords that the draft does not know which the schema names, or that stand
 * beside its $ref, are kept: what is valid then is valid by both.
 *
 * Some valid texts are left out, none that is not valid is taken: formats whose length is
 * bounded need not have all of theirs (schema_format.c), nor branches of oneOf that only
 * what has no opposite would tell apart (schema_negation.c).
 */
#ifndef LLS_GRAMMAR_JSON_SCHEMA_H
#define LLS_GRAMMAR_JSON_SCHEMA_H

#include "text/grammar/grammar_tree.h"

#include <jansson.h>
#include <stdbool.h>

/*
 * [any] The node of the texts, or LLS_GRAMMAR_NONE with the tree failed: a sentence with
 * the place in the schema. strict: a keyword that cannot be kept is refused by name;
 * otherwise it is left out, and the grammar has more texts than the schema. The schema is
 * not kept.
 */
uint32_t lls_grammar_json_schema(struct lls_grammar_tree *tree, const json_t *schema,
                                 bool strict);

/*
 * [any] The same of a function's parameters, whose texts are objects. Where the schema
 * names properties and says nothing of others, there are none, also further in: a model
 * that may invent names does so until it is cut off. Without any keyword about
 * properties the object is empty.
 */
uint32_t lls_grammar_json_arguments(struct lls_grammar_tree *tree, const json_t *schema,
                                    bool strict);

/* Any JSON object: what {"type": "json_object"} asks for. */
uint32_t lls_grammar_json_object(struct lls_grammar_tree *tree);

#endif
