/* SPDX-License-Identifier: Apache-2.0 */
/* Places in a schema's document: what a $ref means, and where a schema stands. */
#ifndef LLS_GRAMMAR_SCHEMA_PLACE_H
#define LLS_GRAMMAR_SCHEMA_PLACE_H

#include <jansson.h>
#include <stddef.h>

/* The schema that a $ref means: a JSON pointer (#/...), an anchor (#name), or a schema's
 * $id, by its whole text. NULL: there is none in this document. */
const json_t *lls_schema_resolve(const json_t *root, const char *ref);

/* Where `schema` stands in the document, as a JSON pointer with its #; what does not fit
 * is cut. */
const char *lls_schema_place(const json_t *root, const json_t *schema, char *out,
                             size_t size);

#endif
