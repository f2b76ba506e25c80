/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas that compiling made. One is made once of the same schema and lives as long as
 * the compiling: sets are told apart by the addresses of their members.
 */
#ifndef LLS_GRAMMAR_SCHEMA_MADE_H
#define LLS_GRAMMAR_SCHEMA_MADE_H

#include "text/grammar/schema_set.h"

/* How it was made of the other; and marks for what no keyword says. */
enum lls_schema_kind {
  LLS_SCHEMA_AS_NOT,
  LLS_SCHEMA_OF_NOT,
  LLS_SCHEMA_OF_IF,
  LLS_SCHEMA_OF_DEPENDENCIES,
  LLS_SCHEMA_OF_NAMES,
  LLS_SCHEMA_PLAIN_NOT,     /* a string whose `not` is an enum, a pattern or a format */
  LLS_SCHEMA_IS_BEYOND,     /* an object with a property that its `properties` lack */
  LLS_SCHEMA_IS_FRACTION,   /* a number that is no integer */
  LLS_SCHEMA_MAY_BE_NARROW, /* a `not` whose opposite need not have all values */
  LLS_SCHEMA_IS_NARROW,     /* an opposite that has not all values */
};

/* NULL: nothing was made. */
const json_t *lls_schema_find_made(const struct lls_schema *s, const json_t *schema,
                                   enum lls_schema_kind kind);
/* Takes the reference of `made` and returns it; NULL: there is no memory. */
const json_t *lls_schema_keep_made(struct lls_schema *s, const json_t *schema,
                                   enum lls_schema_kind kind, json_t *made);
void lls_schema_free_made(struct lls_schema *s);

/* {"not": schema} and {"required": [name]}; the same. */
const json_t *lls_schema_not(struct lls_schema *s, const json_t *schema);
const json_t *lls_schema_requires(struct lls_schema *s, const char *name);

bool lls_schema_mark(struct lls_schema *s, const json_t *schema,
                     enum lls_schema_kind mark);
bool lls_schema_has_mark(const struct lls_schema *s, const json_t *schema,
                         enum lls_schema_kind mark);

#endif
