/* SPDX-License-Identifier: Apache-2.0 */
/* Opposites of schemas, for schema_rewrite.c. */
#ifndef LLS_GRAMMAR_SCHEMA_NEGATION_H
#define LLS_GRAMMAR_SCHEMA_NEGATION_H

#include "text/grammar/schema_set.h"

/* Makes a schema of the values that this one refuses. Fails by name where a keyword has
 * no other that says its opposite: what is meant is then not known. */
json_t *lls_schema_negation(struct lls_schema *s, const json_t *schema,
                            bool may_be_narrow);

#endif
