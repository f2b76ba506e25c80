/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: each item by the schemas that the members of the set have for its place. */
#include "core/grammar/schema_compile.h"

static uint32_t item(struct lls_schema *s, const struct lls_schema_set *set, size_t index)
{
  struct lls_schema_set item = {0};
  return lls_schema_item(s, set, index, &item) ? lls_schema_compile(s, &item)
                                               : LLS_GRAMMAR_NONE;
}

/* From item `index` to the end, each with a comma before it. */
static uint32_t with_commas(struct lls_schema *s, uint32_t part)
{
  return LLS_JSON_ROW(&s->json, lls_json_bytes(&s->json, ","), s->json.space, part);
}

static uint32_t none_if(struct lls_schema *s, bool allowed)
{
  return allowed ? s->json.empty : s->json.nothing;
}

/* All items, built from the back: `tail` is what may follow the one before it. */
static uint32_t items(struct lls_schema *s, const struct lls_schema_set *set,
                      uint32_t min, uint32_t max)
{
  uint32_t prefix = (uint32_t)lls_schema_prefix(set);
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
  return LLS_JSON_ROW(&s->json, lls_json_bytes(&s->json, "["), s->json.space,
                      items(s, set, min, max), s->json.space,
                      lls_json_bytes(&s->json, "]"));
}
