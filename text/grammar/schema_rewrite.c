/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expresses `not`, `if` and dependencies by other keywords. A value violates a schema
 * if it violates one of its keywords (De Morgan), so {"not": S} becomes an anyOf with a
 * branch for each keyword of S, in which there may be further `not`. Schemas are
 * rewritten on first use: a recursive schema needs no more rewritten ones than it has
 * parts.
 *
 * Without `strict` these keywords are ignored: each of them is a choice, and choices
 * multiply.
 */
#include "text/grammar/schema_compile.h"
#include "text/grammar/schema_made.h"
#include "text/grammar/schema_negation.h"

/* ---- keywords ---- */

/* {"anyOf": [{"allOf": [if, then]}, {"allOf": [{"not": if}, else]}]} */
static json_t *conditional(struct lls_schema *s, const json_t *schema)
{
  const json_t *test = json_object_get(schema, "if");
  const json_t *then = json_object_get(schema, "then");
  const json_t *otherwise = json_object_get(schema, "else");
  const json_t *fails = lls_schema_not(s, test);
  if (fails == NULL)
    return NULL;
  json_t *yes = then == NULL ? json_pack("{s:[O]}", "allOf", test)
                             : json_pack("{s:[OO]}", "allOf", test, then);
  json_t *no = otherwise == NULL ? json_pack("{s:[O]}", "allOf", fails)
                                 : json_pack("{s:[OO]}", "allOf", fails, otherwise);
  return json_pack("{s:[oo]}", "anyOf", yes, no);
}

/* Adds for each dependency: the property is missing, or its demand holds. */
static void add_dependencies(const json_t *schema, const char *keyword, json_t *all)
{
  const char *name;
  json_t *asks;
  json_object_foreach(json_object_get(schema, keyword), name, asks)
  {
    json_t *wanted = json_is_array(asks)    ? json_pack("{s:O}", "required", asks)
                     : json_is_string(asks) ? json_pack("{s:[O]}", "required", asks)
                                            : json_incref(asks);
    json_array_append_new(
        all, json_pack("{s:[{s:{s:b}}o]}", "anyOf", "properties", name, 0, wanted));
  }
}

static json_t *dependencies(const json_t *schema)
{
  json_t *all = json_array();
  add_dependencies(schema, "dependencies", all);
  add_dependencies(schema, "dependentRequired", all);
  add_dependencies(schema, "dependentSchemas", all);
  return json_pack("{s:o}", "allOf", all);
}

static bool has_dependencies(const json_t *schema)
{
  return json_object_size(json_object_get(schema, "dependencies")) > 0 ||
         json_object_size(json_object_get(schema, "dependentRequired")) > 0 ||
         json_object_size(json_object_get(schema, "dependentSchemas")) > 0;
}

/* `if` has no effect without `then` or `else`, and these have none without `if`. */
static bool is_conditional(const json_t *schema)
{
  return json_object_get(schema, "if") != NULL &&
         (json_object_get(schema, "then") != NULL ||
          json_object_get(schema, "else") != NULL);
}

static json_t *make(struct lls_schema *s, const json_t *schema, enum lls_schema_kind kind)
{
  return kind == LLS_SCHEMA_OF_NOT
             ? lls_schema_negation(
                   s, json_object_get(schema, "not"),
                   lls_schema_has_mark(s, schema, LLS_SCHEMA_MAY_BE_NARROW))
         : kind == LLS_SCHEMA_OF_IF ? conditional(s, schema)
                                    : dependencies(schema);
}

static bool add(struct lls_schema *s, struct lls_schema_set *set, uint32_t i,
                enum lls_schema_kind kind)
{
  const json_t *schema = set->members[i].schema;
  const json_t *made = lls_schema_find_made(s, schema, kind);
  if (made == NULL)
    made = lls_schema_keep_made(s, schema, kind, make(s, schema, kind));
  if (made == NULL)
    lls_schema_fail(s, schema, "no memory for it");
  return !s->failed && lls_schema_add(s, set, made, i);
}

static bool rewrite(struct lls_schema *s, struct lls_schema_set *set, uint32_t i)
{
  const json_t *schema = set->members[i].schema;
  return (json_object_get(schema, "not") == NULL ||
          lls_schema_has_mark(s, schema, LLS_SCHEMA_PLAIN_NOT) ||
          add(s, set, i, LLS_SCHEMA_OF_NOT)) &&
         (!is_conditional(schema) || add(s, set, i, LLS_SCHEMA_OF_IF)) &&
         (!has_dependencies(schema) || add(s, set, i, LLS_SCHEMA_OF_DEPENDENCIES));
}

/* Replaces propertyNames. If it cannot be expressed, it stays, and is refused later if
 * the type object is allowed. */
static bool rewrite_names(struct lls_schema *s, struct lls_schema_set *set, uint32_t i)
{
  const json_t *schema = set->members[i].schema;
  if (json_object_get(schema, "propertyNames") == NULL)
    return true;
  const json_t *made = lls_schema_find_made(s, schema, LLS_SCHEMA_OF_NAMES);
  if (made == NULL)
    made = lls_schema_keep_made(s, schema, LLS_SCHEMA_OF_NAMES,
                                lls_schema_property_names(s, schema));
  return !s->failed && lls_schema_add(s, set, made, i);
}

/* Returns true if the set has constants: these are validated one by one, by the
 * original keywords. */
static bool has_constants(const struct lls_schema_set *set)
{
  for (uint32_t i = 0; i < set->n; i++)
    if (lls_schema_get(set, i, "const") != NULL || lls_schema_get(set, i, "enum") != NULL)
      return true;
  return false;
}

bool lls_schema_complete(struct lls_schema *s, struct lls_schema_set *set)
{
  if (!lls_schema_gather(s, set, 0))
    return false;
  for (uint32_t i = 0; i < set->n && !has_constants(set); i++) {
    uint32_t n = set->n;
    if (!rewrite_names(s, set, i) || (s->strict && !rewrite(s, set, i)) ||
        !lls_schema_gather(s, set, n))
      return false;
  }
  return true;
}
