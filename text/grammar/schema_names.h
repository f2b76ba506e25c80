/* SPDX-License-Identifier: Apache-2.0 */
/* Names of an object's properties: the named ones, in order, and all others. */
#ifndef LLS_GRAMMAR_SCHEMA_NAMES_H
#define LLS_GRAMMAR_SCHEMA_NAMES_H

#include "text/grammar/schema_set.h"

struct lls_schema_names {
  const char **names; /* (n) strings of the schemas */
  bool *required;     /* (n) */
  uint32_t n, capacity;
};

/* Reads the names of `properties` in order, then further names that are required.
 * Returns false on failure. The caller frees `names` in both cases. */
bool lls_schema_names_read(struct lls_schema *s, const struct lls_schema_set *set,
                           struct lls_schema_names *names);
void lls_schema_names_free(struct lls_schema_names *names);

/* Sets *node to the node of a property with any other name (its name, a colon and its
 * value), or json.nothing. Returns false on failure. */
bool lls_schema_others(struct lls_schema *s, const struct lls_schema_set *set,
                       const struct lls_schema_names *names, uint32_t *node);

#endif
