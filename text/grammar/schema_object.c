/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects: the properties that the schema names, in its order, and then other
 * properties, joined by commas.
 *
 * Properties are compiled in blocks. After each property the automaton knows which ones
 * may be next, so without blocks its states would list n * n properties: a schema of
 * 170 optional ones would exceed the alternatives that a request may have.
 *
 * No state knows which of the names that the schema does not mention occurred already,
 * so such a name may occur twice; JSON's readers take the last one. Each of its values
 * is valid, but two properties with one name count once: a minimum number of such
 * properties cannot be guaranteed.
 *
 * Where other names may come, each optional named property is allowed there again, with
 * its own value. Otherwise a model that skipped the property and writes it late would
 * be inside a name of which only other names are completions, and could never finish
 * it.
 */
#include "text/grammar/schema_compile.h"

#include "text/grammar/schema_names.h"

#include <stdlib.h>

#define BLOCK 32 /* properties per block */
/* Properties; a text is in every block at once, and in at most 256 blocks. */
#define MOST 4096

/* most named properties of an object that limits their number */
#define MOST_COUNTED 128
/* most products of named properties and counts for such an object */
#define MOST_COUNTS 1024

struct object {
  struct lls_schema *s;
  struct lls_schema_names names;
  uint32_t *members; /* (names.n) name, colon and value; or json.nothing */
  uint32_t other;    /* a property with any other name, or json.nothing */
  uint32_t n_required;
  uint32_t min, max; /* allowed numbers of properties */
  bool counts;       /* properties have to be counted, because some are optional */
};

/* A named property, or one or more other properties. */
struct part {
  uint32_t node;
  bool required;
};

/* Joins the parts block by block, from back to front; each block has the next one as
 * its last part. */
static uint32_t join(struct object *o, const struct part *parts, uint32_t n)
{
  struct lls_json_syntax *json = &o->s->json;
  uint32_t comma = LLS_JSON_ROW(json, lls_json_bytes(json, ","), json->space);
  struct part behind = {json->empty, false};
  while (n > 0) {
    uint32_t row[BLOCK + 1], m = 0, first = (n - 1) / BLOCK * BLOCK;
    bool any_required = behind.required;
    for (uint32_t i = first; i < n; i++) {
      any_required |= parts[i].required;
      row[m++] = parts[i].required ? parts[i].node : lls_json_maybe(json, parts[i].node);
    }
    if (behind.node != json->empty)
      row[m++] = behind.required ? behind.node : lls_json_maybe(json, behind.node);
    behind = (struct part){lls_grammar_joined(json->tree, comma, row, m), any_required};
    n = first;
  }
  return behind.node;
}

static uint32_t one_of_parts(struct object *o, const struct part *parts, uint32_t n)
{
  uint32_t *nodes = malloc((n + 1) * sizeof *nodes);
  if (nodes == NULL)
    return lls_schema_fail(o->s, o->s->root, "no memory for it");
  for (uint32_t i = 0; i < n; i++)
    nodes[i] = parts[i].node;
  uint32_t node = lls_json_one_of(&o->s->json, nodes, n);
  free(nodes);
  return node;
}

/* The text between the braces, made of the parts that are possible. */
static uint32_t between_braces(struct object *o, const struct part *parts, uint32_t n)
{
  struct lls_json_syntax *json = &o->s->json;
  bool any_required = false;
  for (uint32_t i = 0; i < n; i++)
    any_required |= parts[i].required;
  uint32_t some = n == 0                         ? json->nothing
                  : o->max == 1 && !any_required ? one_of_parts(o, parts, n)
                                                 : join(o, parts, n);
  return any_required || o->min > 0
             ? some
             : lls_json_one_of(json, (uint32_t[]){json->empty, some}, 2);
}

/* Named properties, and between min and max others. */
static uint32_t members_and_others(struct object *o, uint32_t min, uint32_t max)
{
  struct lls_json_syntax *json = &o->s->json;
  struct part *parts = malloc((o->names.n + 1) * sizeof *parts);
  uint32_t n = 0, node = json->nothing;
  bool possible = true;
  if (parts == NULL)
    return lls_schema_fail(o->s, o->s->root, "no memory for it");
  for (uint32_t i = 0; i < o->names.n; i++)
    if (o->members[i] != json->nothing)
      parts[n++] = (struct part){o->members[i], o->names.required[i]};
    else
      possible &= !o->names.required[i];
  if (o->other != json->nothing && max > 0)
    parts[n++] =
        (struct part){lls_json_list(json, o->other, min > 0 ? min : 1, max), min > 0};
  else
    possible &= min == 0;
  if (possible)
    node = between_braces(o, parts, n);
  free(parts);
  return node;
}

/* ---- counting ---- */

/* Returns the largest number of properties that is counted; larger numbers are treated
 * alike. */
static uint32_t most_counted(const struct object *o)
{
  return o->max != LLS_GRAMMAR_UNBOUNDED ? o->max : o->min;
}

/* Properties without a name after all named ones, given that `count` properties
 * precede; at most one more is required. */
static uint32_t count_others(struct object *o, uint32_t count)
{
  struct lls_json_syntax *json = &o->s->json;
  uint32_t least = o->min > count ? o->min - count : 0, unbounded = LLS_GRAMMAR_UNBOUNDED;
  uint32_t most = o->max == unbounded ? unbounded : o->max - count;
  uint32_t ways[2] = {least == 0 ? json->empty : json->nothing, json->nothing};
  if (most > 0 && o->other != json->nothing) {
    uint32_t list = lls_json_list(json, o->other, 1, most);
    ways[1] = count == 0
                  ? list
                  : LLS_JSON_ROW(json, lls_json_bytes(json, ","), json->space, list);
  }
  return lls_json_one_of(json, ways, 2);
}

/* Property i, or its absence, and the properties after it, given that `count` precede. */
static uint32_t count_from(struct object *o, uint32_t i, uint32_t count,
                           const uint32_t *next)
{
  struct lls_json_syntax *json = &o->s->json;
  uint32_t more = count < most_counted(o) ? count + 1 : count, rule;
  uint32_t ways[2] = {o->names.required[i] ? json->nothing : next[count], json->nothing};
  if (count < o->max && o->members[i] != json->nothing)
    ways[1] =
        LLS_JSON_ROW(json, count == 0 ? json->empty : lls_json_bytes(json, ","),
                     count == 0 ? json->empty : json->space, o->members[i], next[more]);
  uint32_t node = lls_json_one_of(json, ways, 2);
  if (node == json->nothing || node == ways[0])
    return node;
  rule = lls_grammar_rule(json->tree, "properties");
  lls_grammar_define(json->tree, rule, node);
  return rule;
}

/* Builds from the last property to the first; next[count] is the text after `count`
 * properties. */
static uint32_t counted(struct object *o)
{
  struct lls_json_syntax *json = &o->s->json;
  uint32_t next[MOST_COUNTS], most = most_counted(o);
  for (uint32_t i = 0; i < o->names.n; i++) {
    if (o->members[i] == json->nothing)
      continue;
    uint32_t rule = lls_grammar_rule(json->tree, "property");
    lls_grammar_define(json->tree, rule, o->members[i]);
    o->members[i] = rule;
  }
  for (uint32_t count = 0; count <= most; count++)
    next[count] = count_others(o, count);
  for (uint32_t i = o->names.n; i-- > 0;)
    for (uint32_t count = 0; count <= most; count++) /* next[count + 1] still belongs
                                                      * to property i + 1 */
      next[count] = count_from(o, i, count, next);
  return next[0];
}

/* Returns true if counting is possible: at most one other property may be needed, since
 * two of them may have the same name. */
static bool may_count(const struct object *o)
{
  uint32_t most = most_counted(o);
  bool has_others = o->other != o->s->json.nothing;
  return (!has_others || o->min <= o->n_required + 1) && o->names.n <= MOST_COUNTED &&
         most < MOST_COUNTS && (uint64_t)o->names.n * most <= MOST_COUNTS;
}

/* ---- the entry point ---- */

/* Returns true if a member requires a property that no member names. */
static bool wants_other(const struct lls_schema_set *set)
{
  for (uint32_t i = 0; i < set->n; i++)
    if (set->members[i].made & LLS_SCHEMA_OTHER)
      return true;
  return false;
}

/* Sets the bounds on the number of other properties. */
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
    return *min_others <= 1 || !has_others ||
           lls_schema_leave_out(o->s, set->members[0].schema, "minProperties",
                                "where two or more names are not said, which may come "
                                "twice");
  } else if (counts_min || counts_max) {
    o->counts = may_count(o) && !wants_other(set);
    return o->counts ||
           lls_schema_leave_out(o->s, set->members[0].schema,
                                counts_min ? "minProperties" : "maxProperties",
                                "beside properties that may be left out, where "
                                "these are many or others are not said");
  } else if (o->max <= (o->n_required > 0 ? o->n_required : 1)) {
    *max_others = o->n_required > 0 ? 0 : 1;
  }
  return true;
}

static bool read_members(struct object *o, const struct lls_schema_set *set)
{
  struct lls_schema *s = o->s;
  if (o->names.n > MOST) {
    lls_schema_fail(s, set->members[0].schema, "an object of %u properties; %d are kept",
                    o->names.n, MOST);
    return false;
  }
  o->members = malloc((o->names.n + 1) * sizeof *o->members);
  if (o->members == NULL) {
    lls_schema_fail(s, s->root, "no memory for it");
    return false;
  }
  for (uint32_t i = 0; i < o->names.n && !s->failed; i++) {
    struct lls_schema_set value = {0};
    if (!lls_schema_property(s, set, o->names.names[i], &value))
      return false;
    uint32_t node = lls_schema_compile(s, &value);
    o->members[i] =
        LLS_JSON_ROW(&s->json, lls_json_name(&s->json, o->names.names[i]), node);
    o->n_required += o->names.required[i];
  }
  return !s->failed && lls_schema_others(s, set, &o->names, &o->other);
}

/* Allows optional named properties among the other ones, unless a repeated one could
 * violate a minimum number. */
static void let_late(struct object *o, const struct lls_schema_set *set)
{
  struct lls_json_syntax *json = &o->s->json;
  uint32_t n = 0;
  if (o->other == json->nothing || o->min > o->n_required || wants_other(set))
    return;
  uint32_t *ways = malloc((o->names.n + 1) * sizeof *ways);
  if (ways == NULL) {
    lls_schema_fail(o->s, o->s->root, "no memory for it");
    return;
  }
  ways[n++] = o->other;
  for (uint32_t i = 0; i < o->names.n; i++) {
    if (o->names.required[i] || o->members[i] == json->nothing)
      continue;
    uint32_t rule = lls_grammar_rule(json->tree, "property"); /* one rule for both
                                                               * places */
    lls_grammar_define(json->tree, rule, o->members[i]);
    ways[n++] = o->members[i] = rule;
  }
  o->other = lls_json_one_of(json, ways, n);
  free(ways);
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
  let_late(o, set);
  if (!count_properties(o, set, &min_others, &max_others))
    return LLS_GRAMMAR_NONE;
  if (o->counts)
    return counted(o);
  if (min_others == 0 && wants_other(set))
    min_others = 1;
  return members_and_others(o, min_others, max_others);
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
