/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uniqueItems for items that are among a few constants, in any order: the items that
 * may come next depend on the set of constants used, so each subset has a node.
 */
#include "text/grammar/schema_compile.h"

#define MOST_CONSTANTS 8

static bool is_unique(const struct lls_schema_set *set)
{
  for (uint32_t i = 0; i < set->n; i++)
    if (json_is_true(lls_schema_get(set, i, "uniqueItems")))
      return true;
  return false;
}

static bool has_contains(const struct lls_schema_set *set)
{
  for (uint32_t i = 0; i < set->n; i++)
    if (lls_schema_get(set, i, "contains") != NULL)
      return true;
  return false;
}

static const json_t *enum_of(const struct lls_schema_set *set)
{
  const json_t *found = NULL;
  for (uint32_t i = 0; i < set->n && found == NULL; i++)
    found = lls_schema_get(set, i, "enum");
  return found;
}

static enum lls_schema_answer
holds_for_all(struct lls_schema *s, const struct lls_schema_set *set, const json_t *value)
{
  enum lls_schema_answer all = LLS_SCHEMA_YES;
  for (uint32_t i = 0; i < set->n && all == LLS_SCHEMA_YES; i++)
    all = lls_schema_holds(s, set->members[i].schema, value, 0);
  return all;
}

/* Returns the constants that an item may be, as a new reference; NULL if they are
 * unknown, too many, or contain a duplicate. */
static json_t *constants_of(struct lls_schema *s, const struct lls_schema_set *set)
{
  struct lls_schema_set item = {0};
  json_t *kept = NULL, *value;
  size_t index;
  if (has_contains(set) || lls_schema_prefix(set) > 0 ||
      !lls_schema_item(s, set, 0, &item) || !lls_schema_complete(s, &item) ||
      enum_of(&item) == NULL)
    return NULL;
  kept = json_array();
  json_array_foreach((json_t *)enum_of(&item), index, value)
  {
    enum lls_schema_answer holds = json_array_size(kept) > MOST_CONSTANTS
                                       ? LLS_SCHEMA_UNKNOWN
                                       : holds_for_all(s, &item, value);
    if (holds == LLS_SCHEMA_YES)
      json_array_append(kept, value);
    if (holds == LLS_SCHEMA_UNKNOWN ||
        lls_schema_items_are_unique(kept) != LLS_SCHEMA_YES) {
      json_decref(kept);
      return NULL;
    }
  }
  if (json_array_size(kept) <= MOST_CONSTANTS)
    return kept;
  json_decref(kept);
  return NULL;
}

/* Returns the node of the items after the subset `there` (bits of used constants):
 * those unused, or the end. */
static uint32_t after(struct lls_schema *s, const uint32_t *constants, uint32_t n,
                      const uint32_t *nodes, uint32_t there, uint32_t min, uint32_t max)
{
  struct lls_json_syntax *json = &s->json;
  uint32_t ways[MOST_CONSTANTS + 1], n_ways = 0;
  uint32_t count = (uint32_t)__builtin_popcount(there);
  uint32_t comma = LLS_JSON_ROW(json, lls_json_bytes(json, ","), json->space);
  if (count >= min)
    ways[n_ways++] = json->empty;
  for (uint32_t i = 0; i < n && count < max; i++)
    if ((there >> i & 1) == 0)
      ways[n_ways++] = LLS_JSON_ROW(json, count > 0 ? comma : json->empty, constants[i],
                                    nodes[there | 1u << i]);
  return lls_json_one_of(json, ways, n_ways);
}

static uint32_t by_subsets(struct lls_schema *s, const json_t *values, uint32_t min,
                           uint32_t max)
{
  uint32_t constants[MOST_CONSTANTS], nodes[1u << MOST_CONSTANTS];
  uint32_t n = (uint32_t)json_array_size(values);
  for (uint32_t i = 0; i < n; i++)
    constants[i] = lls_json_constant(&s->json, json_array_get(values, i));
  for (uint32_t there = 1u << n; there-- > 0;)
    nodes[there] = after(s, constants, n, nodes, there, min, max);
  return nodes[0];
}

bool lls_schema_unique(struct lls_schema *s, const struct lls_schema_set *set,
                       uint32_t min, uint32_t max, uint32_t *items)
{
  if (!is_unique(set) || max <= 1)
    return false;
  json_t *values = constants_of(s, set);
  if (values == NULL)
    return false;
  *items = by_subsets(s, values, min, max);
  json_decref(values);
  return true;
}

bool lls_schema_unique_is_kept(struct lls_schema *s, const struct lls_schema_set *set)
{
  uint32_t max = LLS_GRAMMAR_UNBOUNDED;
  if (!lls_schema_count(s, set, "maxItems", false, &max))
    return false;
  json_t *values = max <= 1 ? NULL : constants_of(s, set);
  bool kept = max <= 1 || values != NULL;
  json_decref(values);
  return kept;
}
