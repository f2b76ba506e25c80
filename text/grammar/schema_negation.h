/* SPDX-License-Identifier: Apache-2.0 */
/* Opposites of schemas, for schema_rewrite.c. */
#ifndef LLS_GRAMMAR_SCHEMA_NEGATION_H
#define LLS_GRAMMAR_SCHEMA_NEGATION_H

#include "text/grammar/schema_set.h"

/* Makes a schema of the values that `schema` refuses. Fails, naming the keyword, if no
 * other keyword expresses the keyword's opposite, unless may_be_narrow: the result may
 * then lack some values. */
json_t *lls_schema_negation(struct lls_schema *s, const json_t *schema,
                            bool may_be_narrow);

#endif
