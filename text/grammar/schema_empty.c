/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds sets of schemas that provably have no valid value. One reason is searched for
 * in types, constants, required properties, lengths and opposites. The result tells
 * branches of oneOf apart, and drops branches that cannot occur.
 */
#include "text/grammar/schema_compile.h"
#include "text/grammar/schema_made.h"

/* Returns true if a member refuses the constant. A member whose oneOf branch was
 * already chosen is not tested: its oneOf would refuse a value that satisfies two
 * branches, which is the very case that are_apart() asks about. */
static bool is_refused(struct lls_schema *s, const struct lls_schema_set *set,
                       const json_t *value)
{
  for (uint32_t i = 0; i < set->n; i++)
    if ((set->members[i].made & LLS_SCHEMA_ONE_OF) == 0 &&
        !lls_schema_has_mark(s, set->members[i].schema, LLS_SCHEMA_IS_NARROW) &&
        lls_schema_holds(s, set->members[i].schema, value, 1) == LLS_SCHEMA_NO)
      return true;
  return set->impossible;
}

/* Returns true if a member has an enum or const, and none of the constants is valid. */
static bool has_no_constant(struct lls_schema *s, const struct lls_schema_set *set)
{
  size_t index;
  const json_t *value, *constant = NULL, *values = NULL;
  for (uint32_t i = 0; i < set->n && constant == NULL; i++) {
    constant = lls_schema_get(set, i, "const");
    values = values != NULL ? values : lls_schema_get(set, i, "enum");
  }
  if (constant != NULL)
    return is_refused(s, set, constant);
  if (values == NULL)
    return false;
  json_array_foreach((json_t *)values, index, value)
  {
    if (*s->work > LLS_SCHEMA_WORK || !is_refused(s, set, value))
      return false;
  }
  return true;
}

static bool lacks_required(struct lls_schema *s, const struct lls_schema_set *set,
                           unsigned depth)
{
  size_t index;
  const json_t *name;
  for (uint32_t i = 0; i < set->n; i++)
    json_array_foreach((json_t *)lls_schema_get(set, i, "required"), index, name)
    {
      struct lls_schema_set value = {0};
      if (json_is_string(name) &&
          (!lls_schema_property(s, set, json_string_value(name), &value) ||
           lls_schema_is_empty(s, &value, depth + 1)))
        return !s->failed;
    }
  return false;
}

/* Returns true if the array needs an item that matches `contains`, but no item can. */
static bool lacks_wanted(struct lls_schema *s, const struct lls_schema_set *set,
                         unsigned depth)
{
  for (uint32_t i = 0; i < set->n; i++) {
    const json_t *wanted = lls_schema_get(set, i, "contains");
    struct lls_schema_set item = {0};
    if (wanted != NULL && lls_schema_prefix(set) == 0 &&
        lls_schema_item(s, set, 0, &item) && lls_schema_add(s, &item, wanted, item.n) &&
        lls_schema_is_empty(s, &item, depth + 1))
      return true;
  }
  return false;
}

static bool has_no_length(struct lls_schema *s, const struct lls_schema_set *set,
                          const char *min, const char *max)
{
  uint32_t least = 0, most = LLS_GRAMMAR_UNBOUNDED;
  return lls_schema_count(s, set, min, true, &least) &&
         lls_schema_count(s, set, max, false, &most) && least > most;
}

/* Returns true if a member is the negation of another one. */
static bool has_contradiction(const struct lls_schema_set *set)
{
  for (uint32_t i = 0; i < set->n; i++) {
    const json_t *not = lls_schema_get(set, i, "not");
    for (uint32_t k = 0; k < set->n && not != NULL; k++)
      if (json_equal(set->members[k].schema, not ))
        return true;
  }
  return false;
}

bool lls_schema_is_empty(struct lls_schema *s, const struct lls_schema_set *set,
                         unsigned depth)
{
  struct lls_schema_set whole = *set;
  unsigned types;
  if (depth > 4 || !lls_schema_complete(s, &whole) ||
      !lls_schema_types_of(s, &whole, &types))
    return false;
  if (types == 0 || has_contradiction(&whole) || has_no_constant(s, &whole))
    return true;
  if ((types & LLS_SCHEMA_OBJECT) && lacks_required(s, &whole, depth))
    types &= ~(unsigned)LLS_SCHEMA_OBJECT;
  if ((types & LLS_SCHEMA_ARRAY) && (has_no_length(s, &whole, "minItems", "maxItems") ||
                                     lacks_wanted(s, &whole, depth)))
    types &= ~(unsigned)LLS_SCHEMA_ARRAY;
  if ((types & LLS_SCHEMA_STRING) && has_no_length(s, &whole, "minLength", "maxLength"))
    types &= ~(unsigned)LLS_SCHEMA_STRING;
  return types == 0;
}
