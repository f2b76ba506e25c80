/* SPDX-License-Identifier: Apache-2.0 */
/* The schemas that a set has for a part of a value: for an item by its index, for a
 * property by its name. */
#include "text/grammar/schema_compile.h"

#include <string.h>

/* ---- items ---- */

/* Returns the array of schemas by index: prefixItems; or `items` if it is an array, as
 * before draft 2020-12. */
static const json_t *prefix_of(const struct lls_schema_set *set, uint32_t i)
{
  const json_t *items = lls_schema_get(set, i, "items");
  return json_is_array(items) ? items : lls_schema_get(set, i, "prefixItems");
}

static const json_t *rest_of(const struct lls_schema_set *set, uint32_t i)
{
  const json_t *items = lls_schema_get(set, i, "items");
  return json_is_array(items) ? lls_schema_get(set, i, "additionalItems") : items;
}

size_t lls_schema_prefix(const struct lls_schema_set *set)
{
  size_t most = 0;
  for (uint32_t i = 0; i < set->n; i++)
    if (json_array_size(prefix_of(set, i)) > most)
      most = json_array_size(prefix_of(set, i));
  return most;
}

bool lls_schema_item(struct lls_schema *s, const struct lls_schema_set *set, size_t index,
                     struct lls_schema_set *out)
{
  for (uint32_t i = 0; i < set->n; i++) {
    const json_t *prefix = prefix_of(set, i);
    if (!lls_schema_add(s, out,
                        index < json_array_size(prefix) ? json_array_get(prefix, index)
                                                        : rest_of(set, i),
                        out->n))
      return false;
  }
  return true;
}

/* ---- properties ---- */

/* Adds the schemas of the patterns that a name matches. Returns whether there was one. */
static bool add_matching(struct lls_schema *s, const struct lls_schema_set *set,
                         uint32_t i, const char *name, struct lls_schema_set *out,
                         bool *any)
{
  const char *pattern;
  json_t *schema;
  json_object_foreach((json_t *)lls_schema_get(set, i, "patternProperties"), pattern,
                      schema)
  {
    enum lls_schema_answer matches = lls_schema_matches(pattern, name, strlen(name));
    if (matches == LLS_SCHEMA_UNKNOWN &&
        !lls_schema_leave_out(s, set->members[i].schema, "patternProperties",
                              "with an expression that cannot be read"))
      return false;
    *any |= matches == LLS_SCHEMA_YES;
    if (matches == LLS_SCHEMA_YES && !lls_schema_add(s, out, schema, out->n))
      return false;
  }
  return true;
}

const json_t *lls_schema_additional(const struct lls_schema_set *set, uint32_t i)
{
  const json_t *schema = lls_schema_get(set, i, "additionalProperties");
  return schema != NULL ? schema : lls_schema_get(set, i, "unevaluatedProperties");
}

/* Returns true if the name is covered by other keywords: additionalProperties looks at
 * the member's own properties, unevaluatedProperties at those of all members that hold
 * together. */
static bool is_said(const struct lls_schema_set *set, uint32_t i, const char *name)
{
  if (lls_schema_get(set, i, "additionalProperties") != NULL)
    return false;
  for (uint32_t k = 0; k < set->n; k++)
    if (json_object_get(lls_schema_get(set, k, "properties"), name) != NULL)
      return true;
  return false;
}

bool lls_schema_property(struct lls_schema *s, const struct lls_schema_set *set,
                         const char *name, struct lls_schema_set *out)
{
  for (uint32_t i = 0; i < set->n; i++) {
    const json_t *own = json_object_get(lls_schema_get(set, i, "properties"), name);
    bool any = own != NULL;
    if (!lls_schema_add(s, out, own, out->n) || !add_matching(s, set, i, name, out, &any))
      return false;
    if (!any && !is_said(set, i, name) &&
        !lls_schema_add(s, out, lls_schema_additional(set, i), out->n))
      return false;
  }
  return true;
}
