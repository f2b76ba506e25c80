/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of properties if several schemas describe one object: the order in which a
 * reader meets them who follows $ref, allOf and the chosen branch where they occur. So
 * the properties of a base type come before those added after its $ref. JSON objects
 * keep the order of their keys from the request to here.
 */
#include "text/grammar/schema_compile.h"

#include <string.h>

struct walk {
  const struct lls_schema_set *set;
  uint32_t *order, n;
  bool visited[LLS_SCHEMA_TOGETHER];
};

static bool is_among(const json_t *schemas, const json_t *schema)
{
  size_t index;
  const json_t *one;
  json_array_foreach((json_t *)schemas, index, one)
  {
    if (one == schema)
      return true;
  }
  return false;
}

static bool is_list(const char *keyword)
{
  return strcmp(keyword, "allOf") == 0 || strcmp(keyword, "anyOf") == 0 ||
         strcmp(keyword, "oneOf") == 0;
}

/* Returns true if this keyword of member i refers to member k. */
static bool brought(const struct lls_schema_set *set, uint32_t i, const char *keyword,
                    const json_t *value, uint32_t k)
{
  const json_t *schema = set->members[k].schema;
  if (k == i || set->members[k].from != i)
    return false;
  if (is_list(keyword))
    return is_among(value, schema);
  return strcmp(keyword, "$ref") == 0 &&
         !is_among(lls_schema_get(set, i, "allOf"), schema) &&
         !is_among(lls_schema_get(set, i, "anyOf"), schema) &&
         !is_among(lls_schema_get(set, i, "oneOf"), schema);
}

/* Returns true for keywords that describe the schema's own properties: the first of
 * them is the place of these properties. */
static bool is_own(const char *keyword)
{
  return strcmp(keyword, "properties") == 0 ||
         strcmp(keyword, "patternProperties") == 0 ||
         strcmp(keyword, "additionalProperties") == 0;
}

/* The recursion is at most as deep as the set has members. */
static void visit(struct walk *walk, uint32_t i)
{
  const char *keyword;
  json_t *value;
  bool placed = false;
  if (walk->visited[i])
    return;
  walk->visited[i] = true;
  json_object_foreach((json_t *)walk->set->members[i].schema, keyword, value)
  {
    if (!placed && is_own(keyword)) {
      walk->order[walk->n++] = i;
      placed = true;
    }
    for (uint32_t k = 0; k < walk->set->n; k++)
      if (brought(walk->set, i, keyword, value, k))
        visit(walk, k);
  }
  if (!placed)
    walk->order[walk->n++] = i;
}

void lls_schema_order(const struct lls_schema_set *set, uint32_t *order)
{
  struct walk walk = {.set = set, .order = order};
  for (uint32_t i = 0; i < set->n; i++)
    if (set->members[i].from == i)
      visit(&walk, i);
  for (uint32_t i = 0; i < set->n; i++)
    visit(&walk, i);
}
