/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: each item has the schemas that the set's members give for its index. */
#include "text/grammar/schema_compile.h"

static uint32_t item(struct lls_schema *s, const struct lls_schema_set *set, size_t index)
{
  struct lls_schema_set item = {0};
  return lls_schema_item(s, set, index, &item) ? lls_schema_compile(s, &item)
                                               : LLS_GRAMMAR_NONE;
}

/* The part, preceded by a comma and white space. */
static uint32_t with_commas(struct lls_schema *s, uint32_t part)
{
  return LLS_JSON_ROW(&s->json, lls_json_bytes(&s->json, ","), s->json.space, part);
}

static uint32_t none_if(struct lls_schema *s, bool allowed)
{
  return allowed ? s->json.empty : s->json.nothing;
}

/* ---- `contains` ---- */

#define MOST_BEFORE 32 /* items before the match, where max bounds the array */

/* Sets *wanted to the one `contains` schema of the set, or NULL. Returns false on
 * failure. */
static bool wanted_of(struct lls_schema *s, const struct lls_schema_set *set,
                      const json_t **wanted)
{
  *wanted = NULL;
  for (uint32_t i = 0; i < set->n; i++) {
    const json_t *one = lls_schema_get(set, i, "contains");
    if (one == NULL || json_equal(one, *wanted))
      continue;
    if (*wanted != NULL || lls_schema_prefix(set) > 0)
      return lls_schema_leave_out(s, set->members[i].schema, "contains",
                                  "twice, or beside items by their places");
    *wanted = one;
  }
  return true;
}

/* An array whose item `one` (from `contains`) follows exactly `before` other items, or
 * at least `before` if or_more; as many items follow as min and max allow. */
static uint32_t around(struct lls_schema *s, uint32_t rest, uint32_t one, uint32_t min,
                       uint32_t max, uint32_t before, bool or_more)
{
  struct lls_json_syntax *json = &s->json;
  uint32_t comma = LLS_JSON_ROW(json, rest, lls_json_bytes(json, ","), json->space);
  uint32_t unbounded = LLS_GRAMMAR_UNBOUNDED;
  uint32_t least = min > before + 1 && !or_more ? min - before - 1 : 0;
  uint32_t most = max == unbounded ? max : max - before - 1;
  if (rest == json->nothing)
    return before == 0 && least == 0 ? one : json->nothing;
  return LLS_JSON_ROW(
      json, lls_grammar_repeat(json->tree, comma, before, or_more ? unbounded : before),
      one, lls_grammar_repeat(json->tree, with_commas(s, rest), least, most));
}

/* A choice over the index of the matching item; without an upper bound the last choice
 * has it at any later index. */
static uint32_t with_wanted(struct lls_schema *s, const struct lls_schema_set *set,
                            const json_t *wanted, uint32_t min, uint32_t max)
{
  uint32_t ways[MOST_BEFORE + 1], n = 0, unbounded = LLS_GRAMMAR_UNBOUNDED;
  uint32_t exact = max != unbounded ? max : min > 1 ? min - 1 : 0;
  struct lls_schema_set both = {0};
  if (!lls_schema_item(s, set, 0, &both) || !lls_schema_add(s, &both, wanted, both.n))
    return LLS_GRAMMAR_NONE;
  uint32_t one = lls_schema_compile(s, &both), rest = item(s, set, 0);
  if (s->failed || one == s->json.nothing || max == 0)
    return s->failed ? LLS_GRAMMAR_NONE : s->json.nothing;
  if (exact > MOST_BEFORE && !lls_schema_leave_out(s, set->members[0].schema, "contains",
                                                   "beside so many items"))
    return LLS_GRAMMAR_NONE;
  if (exact > MOST_BEFORE)
    return lls_json_list(&s->json, rest, min, max);
  for (uint32_t before = 0; before < exact; before++)
    ways[n++] = around(s, rest, one, min, max, before, false);
  if (max == unbounded)
    ways[n++] = around(s, rest, one, min, max, exact, true);
  return lls_json_one_of(&s->json, ways, n);
}

/* ---- the entry points ---- */

/* All items, built from back to front. `tail` is the text that may follow the previous
 * item. */
static uint32_t items(struct lls_schema *s, const struct lls_schema_set *set,
                      uint32_t min, uint32_t max)
{
  uint32_t prefix = (uint32_t)lls_schema_prefix(set);
  const json_t *wanted;
  if (!wanted_of(s, set, &wanted))
    return LLS_GRAMMAR_NONE;
  if (wanted != NULL)
    return with_wanted(s, set, wanted, min, max);
  uint32_t rest = item(s, set, prefix);
  if (prefix == 0)
    return lls_json_list(&s->json, rest, min, max);
  uint32_t more = max == LLS_GRAMMAR_UNBOUNDED ? max : max > prefix ? max - prefix : 0;
  uint32_t least = min > prefix ? min - prefix : 0;
  uint32_t tail = s->json.empty;
  if (max < prefix || more == 0 || rest == s->json.nothing)
    tail = none_if(s, least == 0);
  else
    tail = lls_grammar_repeat(s->json.tree, with_commas(s, rest), least, more);
  for (uint32_t i = prefix; i-- > 0 && !s->failed;) {
    uint32_t one = i < max ? item(s, set, i) : s->json.nothing;
    uint32_t row = LLS_JSON_ROW(&s->json, i > 0 ? with_commas(s, one) : one, tail);
    uint32_t ways[] = {none_if(s, i >= min), row};
    tail = lls_json_one_of(&s->json, ways, 2);
  }
  return tail;
}

uint32_t lls_schema_array(struct lls_schema *s, const struct lls_schema_set *set)
{
  uint32_t min = 0, max = LLS_GRAMMAR_UNBOUNDED;
  if (!lls_schema_count(s, set, "minItems", true, &min) ||
      !lls_schema_count(s, set, "maxItems", false, &max))
    return LLS_GRAMMAR_NONE;
  if (min > max)
    return s->json.nothing;
  uint32_t between;
  if (!lls_schema_unique(s, set, min, max, &between))
    between = items(s, set, min, max);
  return LLS_JSON_ROW(&s->json, lls_json_bytes(&s->json, "["), s->json.space, between,
                      s->json.space, lls_json_bytes(&s->json, "]"));
}
