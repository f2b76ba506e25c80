/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keywords that grammars do not support, by the types that they apply to: a keyword has
 * no effect on a set that allows none of its types. A keyword whose value makes no
 * demand is accepted.
 */
#include "text/grammar/schema_compile.h"
#include "text/grammar/schema_made.h"

#include <string.h>

struct keyword {
  const char *name;
  unsigned types;
};

static const struct keyword refused[] = {
    {"$dynamicRef", LLS_SCHEMA_ANY},
    {"$recursiveRef", LLS_SCHEMA_ANY},
    {"extends", LLS_SCHEMA_ANY},
    {"disallow", LLS_SCHEMA_ANY},
    {"propertyNames", LLS_SCHEMA_OBJECT},
    {"minContains", LLS_SCHEMA_ARRAY},
    {"maxContains", LLS_SCHEMA_ARRAY},
    {"uniqueItems", LLS_SCHEMA_ARRAY},
    {"unevaluatedItems", LLS_SCHEMA_ARRAY},
};

/* Returns true for keywords in the table that are supported in this case, by
 * schema_property_names.c or schema_unique.c. */
static bool is_kept(struct lls_schema *s, const struct lls_schema_set *set,
                    const json_t *schema, const char *name)
{
  if (strcmp(name, "uniqueItems") == 0)
    return lls_schema_unique_is_kept(s, set);
  return strcmp(name, "propertyNames") == 0 &&
         lls_schema_find_made(s, schema, LLS_SCHEMA_OF_NAMES) != NULL;
}

/* Returns true if the keyword's value makes no demand: false, the schema true, or an
 * empty object. */
static bool asks_for_nothing(const json_t *value, const char *name)
{
  if (strcmp(name, "minContains") == 0)
    return json_number_value(value) == 1;
  if (strcmp(name, "uniqueItems") == 0)
    return json_is_false(value);
  return json_is_true(value) || (json_is_object(value) && json_object_size(value) == 0);
}

static bool is_above(const struct lls_schema_set *set, uint32_t i, uint32_t below)
{
  while (below != i && set->members[below].from != below)
    below = set->members[below].from;
  return below == i;
}

/* Returns true if the schema has keywords whose subschemas need not hold; those that do
 * not hold evaluate no properties. */
static bool may_not_hold(const json_t *schema)
{
  static const char *const keywords[] = {"not", "if", "dependencies", "dependentSchemas"};
  for (size_t k = 0; k < sizeof keywords / sizeof keywords[0]; k++)
    if (json_object_get(schema, keywords[k]) != NULL)
      return true;
  return false;
}

/* Checks unevaluatedProperties. Which properties are evaluated is known if all other
 * members are the member's own parts. */
static bool check_unevaluated(struct lls_schema *s, const struct lls_schema_set *set,
                              uint32_t i)
{
  if (lls_schema_get(set, i, "unevaluatedProperties") == NULL)
    return true;
  for (uint32_t k = 0; k < set->n; k++)
    if (!is_above(set, i, k) || lls_schema_get(set, k, "additionalProperties") != NULL ||
        lls_schema_get(set, k, "patternProperties") != NULL ||
        may_not_hold(set->members[k].schema))
      return lls_schema_leave_out(s, set->members[i].schema, "unevaluatedProperties",
                                  "beside other schemas for the same object");
  return true;
}

bool lls_schema_check_keywords(struct lls_schema *s, const struct lls_schema_set *set,
                               unsigned types)
{
  for (uint32_t i = 0; i < set->n; i++) {
    const json_t *schema = set->members[i].schema;
    for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
      const json_t *value = json_object_get(schema, refused[k].name);
      if (value != NULL && (refused[k].types & types) != 0 &&
          !asks_for_nothing(value, refused[k].name) &&
          !is_kept(s, set, schema, refused[k].name) &&
          !lls_schema_leave_out(s, schema, refused[k].name, ""))
        return false;
    }
    if ((types & LLS_SCHEMA_OBJECT) && !check_unevaluated(s, set, i))
      return false;
  }
  return true;
}
