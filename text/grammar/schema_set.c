/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of schemas that apply together through $ref and allOf; see schema_set.h. */
#include "text/grammar/schema_set.h"

#include "text/grammar/schema_made.h"
#include "text/grammar/schema_place.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- failures ---- */

uint32_t lls_schema_fail(struct lls_schema *s, const json_t *schema, const char *format,
                         ...)
{
  char what[LLS_ERROR_MAX], place[160];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  lls_schema_place(s->root, schema, place, sizeof place);
  if (!s->failed)
    lls_grammar_fail(s->json.tree, "the schema at %s: %s", place, what);
  s->failed = true;
  return LLS_GRAMMAR_NONE;
}

bool lls_schema_leave_out(struct lls_schema *s, const json_t *schema, const char *keyword,
                          const char *why)
{
  if (s->strict)
    lls_schema_fail(s, schema,
                    "'%s' is not supported%s%s (it is left out where 'strict' "
                    "is false)",
                    keyword, why[0] != '\0' ? " " : "", why);
  return !s->strict;
}

bool lls_schema_step(struct lls_schema *s, const json_t *schema)
{
  if (!s->failed && ++*s->work > LLS_SCHEMA_WORK)
    lls_schema_fail(s, schema,
                    "it takes more than %d steps to compile, with those before it",
                    LLS_SCHEMA_WORK);
  return !s->failed;
}

/* ---- members ---- */

/* Returns true if member i came from `schema` through a chain of references. */
static bool comes_from(const struct lls_schema_set *set, uint32_t i, const json_t *schema)
{
  while (set->members[i].schema != schema && set->members[i].from != i)
    i = set->members[i].from;
  return set->members[i].schema == schema;
}

bool lls_schema_add(struct lls_schema *s, struct lls_schema_set *set,
                    const json_t *schema, uint32_t from)
{
  if (schema == NULL || json_is_true(schema))
    return true;
  if (json_is_false(schema)) {
    set->impossible = true;
    return true;
  }
  if (!json_is_object(schema)) {
    lls_schema_fail(s, schema, "a schema must be an object or a boolean");
    return false;
  }
  for (uint32_t i = 0; i < set->n; i++)
    if (set->members[i].schema == schema) {
      if (from < set->n && comes_from(set, from, schema))
        lls_schema_fail(s, schema, "it refers to itself without anything between");
      return !s->failed;
    }
  if (set->n == LLS_SCHEMA_TOGETHER) {
    lls_schema_fail(s, schema, "more than %d schemas hold together", LLS_SCHEMA_TOGETHER);
    return false;
  }
  set->members[set->n] = (struct lls_schema_member){.schema = schema, .from = from};
  set->n++;
  return true;
}

static bool add_reference(struct lls_schema *s, struct lls_schema_set *set, uint32_t i)
{
  const json_t *schema = set->members[i].schema, *ref = json_object_get(schema, "$ref");
  if (ref == NULL)
    return true;
  const json_t *target =
      json_is_string(ref) ? lls_schema_resolve(s->root, json_string_value(ref)) : NULL;
  if (target == NULL) {
    lls_schema_fail(s, schema,
                    "'$ref' must name a schema in the same document, as "
                    "\"#/$defs/name\", not %.80s",
                    json_is_string(ref) ? json_string_value(ref) : "another value");
    return false;
  }
  return lls_schema_add(s, set, target, i);
}

static bool add_all_of(struct lls_schema *s, struct lls_schema_set *set, uint32_t i)
{
  const json_t *schema = set->members[i].schema, *all = json_object_get(schema, "allOf");
  size_t index;
  const json_t *part;
  if (all != NULL && !json_is_array(all)) {
    lls_schema_fail(s, schema, "'allOf' must be an array of schemas");
    return false;
  }
  json_array_foreach((json_t *)all, index, part)
  {
    if (!lls_schema_add(s, set, part, i))
      return false;
  }
  return true;
}

bool lls_schema_gather(struct lls_schema *s, struct lls_schema_set *set, uint32_t first)
{
  for (uint32_t i = first; i < set->n; i++)
    if (!lls_schema_step(s, set->members[i].schema) || !add_reference(s, set, i) ||
        !add_all_of(s, set, i))
      return false;
  return true;
}

/* ---- keywords of a set ---- */

static unsigned type_named(const char *name)
{
  static const struct {
    const char *name;
    unsigned types;
  } names[] = {
      {"null", LLS_SCHEMA_NULL},
      {"boolean", LLS_SCHEMA_BOOLEAN},
      {"integer", LLS_SCHEMA_INTEGER},
      {"number", LLS_SCHEMA_INTEGER | LLS_SCHEMA_FRACTION},
      {"string", LLS_SCHEMA_STRING},
      {"array", LLS_SCHEMA_ARRAY},
      {"object", LLS_SCHEMA_OBJECT},
      {"any", LLS_SCHEMA_ANY}, /* draft 3 */
  };
  for (size_t i = 0; name != NULL && i < sizeof names / sizeof names[0]; i++)
    if (strcmp(names[i].name, name) == 0)
      return names[i].types;
  return 0;
}

static bool types_of_one(struct lls_schema *s, const json_t *schema, unsigned *types)
{
  const json_t *type = json_object_get(schema, "type"), *name;
  size_t index;
  unsigned any = 0;
  if (lls_schema_has_mark(s, schema, LLS_SCHEMA_IS_FRACTION))
    *types &= LLS_SCHEMA_FRACTION;
  if (type == NULL)
    return true;
  if (!json_is_array(type))
    any = type_named(json_string_value(type));
  json_array_foreach((json_t *)type, index, name)
  {
    unsigned one = type_named(json_string_value(name));
    any = one == 0 ? LLS_SCHEMA_ANY + 1 : any | one;
  }
  if (any == 0 || any > LLS_SCHEMA_ANY) {
    lls_schema_fail(s, schema,
                    "'type' must be null, boolean, integer, number, string, array, "
                    "object, or a list of these");
    return false;
  }
  *types &= any;
  return true;
}

bool lls_schema_types_of(struct lls_schema *s, const struct lls_schema_set *set,
                         unsigned *types)
{
  *types = set->impossible ? 0 : LLS_SCHEMA_ANY;
  for (uint32_t i = 0; i < set->n; i++)
    if (!types_of_one(s, set->members[i].schema, types))
      return false;
  return true;
}

/* Counts beyond the maximum of a repetition are not checked for being whole. */
static bool read_count(const json_t *count, uint32_t *value)
{
  double is = json_number_value(count);
  if (!json_is_number(count) || is < 0)
    return false;
  *value = is < LLS_GRAMMAR_UNBOUNDED ? (uint32_t)is : LLS_GRAMMAR_UNBOUNDED;
  return *value == LLS_GRAMMAR_UNBOUNDED || is == *value;
}

bool lls_schema_count(struct lls_schema *s, const struct lls_schema_set *set,
                      const char *keyword, bool greatest, uint32_t *value)
{
  for (uint32_t i = 0; i < set->n; i++) {
    const json_t *count = lls_schema_get(set, i, keyword);
    uint32_t is;
    if (count == NULL)
      continue;
    if (!read_count(count, &is)) {
      lls_schema_fail(s, set->members[i].schema,
                      "'%s' must be a whole number of at least 0", keyword);
      return false;
    }
    if (greatest ? is > *value : is < *value)
      *value = is;
  }
  return true;
}
