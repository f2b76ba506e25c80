/* SPDX-License-Identifier: Apache-2.0 */
/* Places in a schema's document: the target of a $ref, and the JSON pointer of a
 * schema. */
#ifndef LLS_GRAMMAR_SCHEMA_PLACE_H
#define LLS_GRAMMAR_SCHEMA_PLACE_H

#include <jansson.h>
#include <stddef.h>

/* Returns the schema that a $ref refers to: by a JSON pointer (#/...), an anchor
 * (#name), or a schema's whole $id. NULL if the document has none. */
const json_t *lls_schema_resolve(const json_t *root, const char *ref);

/* Writes the place of `schema` in the document as a JSON pointer with its #, cut to
 * `size`. */
const char *lls_schema_place(const json_t *root, const json_t *schema, char *out,
                             size_t size);

#endif
