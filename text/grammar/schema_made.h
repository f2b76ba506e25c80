/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas that the compiler itself made. For one schema each kind is made at most once,
 * and lives as long as the compiling: sets are compared by the addresses of their
 * members.
 */
#ifndef LLS_GRAMMAR_SCHEMA_MADE_H
#define LLS_GRAMMAR_SCHEMA_MADE_H

#include "text/grammar/schema_set.h"

/* How a schema was derived from another one; and marks for facts that no keyword
 * expresses. */
enum lls_schema_kind {
  LLS_SCHEMA_AS_NOT,
  LLS_SCHEMA_OF_NOT,
  LLS_SCHEMA_OF_IF,
  LLS_SCHEMA_OF_DEPENDENCIES,
  LLS_SCHEMA_OF_NAMES,
  LLS_SCHEMA_PLAIN_NOT,     /* a string schema whose `not` is an enum, a pattern or a
                             * format */
  LLS_SCHEMA_IS_BEYOND,     /* an object that must have a property outside of its
                             * `properties` */
  LLS_SCHEMA_IS_FRACTION,   /* a number that must not be an integer */
  LLS_SCHEMA_MAY_BE_NARROW, /* a `not` whose opposite may lack some values */
  LLS_SCHEMA_IS_NARROW,     /* an opposite that lacks some values */
};

/* Returns NULL if none was made. */
const json_t *lls_schema_find_made(const struct lls_schema *s, const json_t *schema,
                                   enum lls_schema_kind kind);
/* Takes over the reference `made` and returns it; NULL if out of memory. */
const json_t *lls_schema_keep_made(struct lls_schema *s, const json_t *schema,
                                   enum lls_schema_kind kind, json_t *made);
void lls_schema_free_made(struct lls_schema *s);

/* Return {"not": schema} and {"required": [name]}, made once for the same argument. */
const json_t *lls_schema_not(struct lls_schema *s, const json_t *schema);
const json_t *lls_schema_requires(struct lls_schema *s, const char *name);

bool lls_schema_mark(struct lls_schema *s, const json_t *schema,
                     enum lls_schema_kind mark);
bool lls_schema_has_mark(const struct lls_schema *s, const json_t *schema,
                         enum lls_schema_kind mark);

#endif
