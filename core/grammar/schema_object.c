/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects: the properties that the schema names, in its order, and then others.
 *
 * Commas are what makes this more than a row. Where some property is required, those
 * before it have their comma behind them and those after it before them. Where none is,
 * any of them may be the first; what follows it is shared between the ways.
 */
#include "core/grammar/schema_compile.h"

#include "core/grammar/schema_names.h"

#include <stdlib.h>

struct object {
  struct lls_schema *s;
  struct lls_schema_names names;
  uint32_t *members; /* (names.n) name, colon and value, or nothing */
  uint32_t other;    /* the same of a property that is not named, or nothing */
  uint32_t n_required, first_required;
  uint32_t min, max; /* properties */
};

static uint32_t comma(struct object *o)
{
  return LLS_JSON_ROW(&o->s->json, lls_json_bytes(&o->s->json, ","), o->s->json.space);
}

static uint32_t after_comma(struct object *o, uint32_t member)
{
  return LLS_JSON_ROW(&o->s->json, comma(o), member);
}

/* Member i with the comma that parts it from the first required one. */
static uint32_t around_required(struct object *o, uint32_t i)
{
  struct lls_json_syntax *json = &o->s->json;
  if (i == o->first_required)
    return o->members[i];
  uint32_t part = i < o->first_required ? LLS_JSON_ROW(json, o->members[i], comma(o))
                                        : after_comma(o, o->members[i]);
  return o->names.required[i] ? part : lls_json_maybe(json, part);
}

static uint32_t others_after(struct object *o, uint32_t min, uint32_t max)
{
  if (o->other == o->s->json.nothing || max == 0)
    return min > 0 ? o->s->json.nothing : o->s->json.empty;
  return lls_grammar_repeat(o->s->json.tree, after_comma(o, o->other), min, max);
}

static uint32_t with_required(struct object *o, uint32_t min_others, uint32_t max_others)
{
  uint32_t n = o->names.n, node = LLS_GRAMMAR_NONE;
  uint32_t *parts = malloc((n + 1) * sizeof *parts);
  if (parts == NULL)
    return lls_schema_fail(o->s, o->s->root, "no memory for it");
  for (uint32_t i = 0; i < n; i++)
    parts[i] = around_required(o, i);
  parts[n] = others_after(o, min_others, max_others);
  node = lls_json_row(&o->s->json, parts, n + 1);
  free(parts);
  return node;
}

/* Any of them may be first: `tail` is what may follow the one before it. */
static uint32_t without_required(struct object *o, uint32_t min_others,
                                 uint32_t max_others)
{
  struct lls_json_syntax *json = &o->s->json;
  uint32_t n = o->names.n, node = LLS_GRAMMAR_NONE;
  uint32_t *ways = malloc((n + 2) * sizeof *ways), n_ways = 0;
  if (ways == NULL)
    return lls_schema_fail(o->s, o->s->root, "no memory for it");
  if (o->min == 0)
    ways[n_ways++] = json->empty;
  if (n == 0)
    ways[n_ways++] =
        lls_json_list(json, o->other, min_others > 1 ? min_others : 1, max_others);
  else if (max_others > 0)
    ways[n_ways++] = lls_json_list(json, o->other, 1, max_others);
  uint32_t tail = others_after(o, 0, max_others);
  for (uint32_t i = n; i-- > 0 && !o->s->failed;) {
    ways[n_ways++] = LLS_JSON_ROW(json, o->members[i], tail);
    if (o->members[i] != json->nothing && o->max > 1)
      tail =
          LLS_JSON_ROW(json, lls_json_maybe(json, after_comma(o, o->members[i])), tail);
  }
  node = lls_json_one_of(json, ways, n_ways);
  free(ways);
  return node;
}

/* Properties that may be left out are not counted by a grammar: bounds that need it are
 * refused. Sets the bounds of those without a name. */
static bool count_properties(struct object *o, const struct lls_schema_set *set,
                             uint32_t *min_others, uint32_t *max_others)
{
  uint32_t n_optional = 0, unbounded = LLS_GRAMMAR_UNBOUNDED;
  bool has_others = o->other != o->s->json.nothing;
  for (uint32_t i = 0; i < o->names.n; i++)
    n_optional += !o->names.required[i] && o->members[i] != o->s->json.nothing;
  if (n_optional > 0 && o->max == o->n_required)
    for (uint32_t i = 0; i < o->names.n; i++)
      if (!o->names.required[i]) {
        o->members[i] = o->s->json.nothing;
        n_optional = 0;
      }
  bool counts_min = o->min > (o->n_required > 0 ? o->n_required : 1);
  bool counts_max = o->max < unbounded &&
                    (has_others || o->max < o->n_required + n_optional) &&
                    o->max > (o->n_required > 0 ? o->n_required : 1);
  *min_others = 0;
  *max_others = unbounded;
  if (n_optional == 0) {
    *min_others = o->min > o->n_required ? o->min - o->n_required : 0;
    *max_others = o->max == unbounded ? unbounded : o->max - o->n_required;
  } else if (counts_min || counts_max) {
    return lls_schema_leave_out(o->s, set->members[0].schema,
                                counts_min ? "minProperties" : "maxProperties",
                                "beside properties that may be left out");
  } else if (o->max <= (o->n_required > 0 ? o->n_required : 1)) {
    *max_others = o->n_required > 0 ? 0 : 1;
  }
  return true;
}

static bool read_members(struct object *o, const struct lls_schema_set *set)
{
  struct lls_schema *s = o->s;
  o->members = malloc((o->names.n + 1) * sizeof *o->members);
  if (o->members == NULL) {
    lls_schema_fail(s, s->root, "no memory for it");
    return false;
  }
  o->first_required = o->names.n;
  for (uint32_t i = 0; i < o->names.n && !s->failed; i++) {
    struct lls_schema_set value = {0};
    if (!lls_schema_property(s, set, o->names.names[i], &value))
      return false;
    uint32_t node = lls_schema_compile(s, &value);
    o->members[i] =
        LLS_JSON_ROW(&s->json, lls_json_name(&s->json, o->names.names[i]), node);
    if (o->names.required[i] && o->n_required++ == 0)
      o->first_required = i;
  }
  return !s->failed && lls_schema_others(s, set, &o->names, &o->other);
}

static uint32_t inside(struct object *o, const struct lls_schema_set *set)
{
  struct lls_json_syntax *json = &o->s->json;
  uint32_t min_others, max_others;
  if (!lls_schema_names_read(o->s, set, &o->names) || !read_members(o, set) ||
      !lls_schema_count(o->s, set, "minProperties", true, &o->min) ||
      !lls_schema_count(o->s, set, "maxProperties", false, &o->max))
    return LLS_GRAMMAR_NONE;
  if (o->min > o->max || o->n_required > o->max)
    return json->nothing;
  if (!count_properties(o, set, &min_others, &max_others))
    return LLS_GRAMMAR_NONE;
  return o->n_required > 0 ? with_required(o, min_others, max_others)
                           : without_required(o, min_others, max_others);
}

uint32_t lls_schema_object(struct lls_schema *s, const struct lls_schema_set *set)
{
  struct object o = {.s = s, .max = LLS_GRAMMAR_UNBOUNDED, .other = s->json.nothing};
  uint32_t node = inside(&o, set);
  lls_schema_names_free(&o.names);
  free(o.members);
  return LLS_JSON_ROW(&s->json, lls_json_bytes(&s->json, "{"), s->json.space, node,
                      s->json.space, lls_json_bytes(&s->json, "}"));
}
