/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expresses propertyNames by other keywords: a schema that allows some names, or a
 * pattern of names, becomes a schema of objects that have only these properties, or
 * only properties matching the pattern.
 */
#include "text/grammar/schema_compile.h"
#include "text/grammar/schema_place.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEEPEST 20 /* nested schemas of names */

struct names_rule {
  struct lls_schema *s;
  json_t *all;  /* schemas that all apply */
  bool is_kept; /* every keyword could be expressed */
};

static void add(struct names_rule *r, json_t *one)
{
  if (json_array_append_new(r->all, one) != 0)
    r->is_kept = false;
}

static void add_pattern(struct names_rule *r, const char *pattern)
{
  add(r, json_pack("{s:{s:b},s:b}", "patternProperties", pattern, 1,
                   "additionalProperties", 0));
}

static void add_format(struct names_rule *r, const json_t *format)
{
  bool standard = false;
  const char *name = json_string_value(format);
  const char *expression = name == NULL ? NULL : lls_schema_format(name, &standard);
  json_t *whole = expression == NULL ? NULL : json_sprintf("^(?:%s)$", expression);
  if (whole != NULL)
    add_pattern(r, json_string_value(whole));
  else
    r->is_kept &= name != NULL && !standard;
  json_decref(whole);
}

static void add_lengths(struct names_rule *r, const json_t *schema)
{
  const json_t *least = json_object_get(schema, "minLength");
  const json_t *most = json_object_get(schema, "maxLength");
  double min = least == NULL ? 0 : json_number_value(least);
  double max = most == NULL ? min : json_number_value(most);
  char pattern[64];
  if (least == NULL && most == NULL)
    return;
  if (min < 0 || max < min || max > 65536 || min != floor(min) || max != floor(max)) {
    r->is_kept = false;
    return;
  }
  if (most == NULL)
    snprintf(pattern, sizeof pattern, "^[\\s\\S]{%.0f,}$", min);
  else
    snprintf(pattern, sizeof pattern, "^[\\s\\S]{%.0f,%.0f}$", min, max);
  add_pattern(r, pattern);
}

/* Adds the names of an enum or const. Constants that are not strings are never names. */
static void add_constants(struct names_rule *r, const json_t *values)
{
  json_t *named = json_object(), *value;
  size_t index;
  json_array_foreach((json_t *)values, index, value)
  {
    if (json_is_string(value) &&
        json_object_set_new(named, json_string_value(value), json_true()) != 0)
      r->is_kept = false;
  }
  add(r, json_pack("{s:o,s:b}", "properties", named, "additionalProperties", 0));
}

static void add_type(struct names_rule *r, const json_t *schema)
{
  struct lls_schema_set self = {.n = 1, .members = {{.schema = schema}}};
  unsigned types;
  if (!lls_schema_types_of(r->s, &self, &types))
    r->is_kept = false;
  else if ((types & LLS_SCHEMA_STRING) == 0)
    add(r, json_pack("{s:i}", "maxProperties", 0));
}

static bool is_known(const char *keyword)
{
  static const char *const known[] = {"type",    "const",     "enum",
                                      "pattern", "minLength", "maxLength",
                                      "format",  "$ref",      "allOf"};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(keyword, known[i]) == 0)
      return true;
  return false;
}

/* Returns true for annotations, which make no demand. */
static bool says_nothing(const char *keyword)
{
  static const char *const words[] = {
      "title",   "description", "$comment", "examples",  "default",
      "$schema", "$id",         "id",       "$defs",     "definitions",
      "$anchor", "deprecated",  "readOnly", "writeOnly", "errorMessage"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strcmp(keyword, words[i]) == 0)
      return true;
  return false;
}

static void add_schema(struct names_rule *r, const json_t *schema, unsigned depth);

static void add_others(struct names_rule *r, const json_t *schema, unsigned depth)
{
  const json_t *ref = json_object_get(schema, "$ref");
  size_t index;
  json_t *one;
  if (ref != NULL)
    add_schema(r,
               json_is_string(ref)
                   ? lls_schema_resolve(r->s->root, json_string_value(ref))
                   : NULL,
               depth + 1);
  json_array_foreach(json_object_get(schema, "allOf"), index, one)
  {
    add_schema(r, one, depth + 1);
  }
}

static void add_schema(struct names_rule *r, const json_t *schema, unsigned depth)
{
  const char *keyword;
  json_t *value;
  if (json_is_true(schema))
    return;
  if (json_is_false(schema)) {
    add(r, json_pack("{s:i}", "maxProperties", 0));
    return;
  }
  r->is_kept &= json_is_object(schema) && depth < DEEPEST;
  json_object_foreach((json_t *)schema, keyword, value)
  {
    r->is_kept &= is_known(keyword) || says_nothing(keyword);
  }
  if (!r->is_kept)
    return;
  const json_t *constant = json_object_get(schema, "const");
  json_t *single = constant == NULL ? NULL : json_pack("[O]", constant);
  if (single != NULL)
    add_constants(r, single);
  json_decref(single);
  if (json_object_get(schema, "enum") != NULL)
    add_constants(r, json_object_get(schema, "enum"));
  if (json_is_string(json_object_get(schema, "pattern")))
    add_pattern(r, json_string_value(json_object_get(schema, "pattern")));
  if (json_object_get(schema, "format") != NULL)
    add_format(r, json_object_get(schema, "format"));
  add_lengths(r, schema);
  add_type(r, schema);
  add_others(r, schema, depth);
}

json_t *lls_schema_property_names(struct lls_schema *s, const json_t *schema)
{
  struct names_rule r = {.s = s, .all = json_array(), .is_kept = true};
  add_schema(&r, json_object_get(schema, "propertyNames"), 0);
  if (r.is_kept)
    return json_pack("{s:o}", "allOf", r.all);
  json_decref(r.all);
  return NULL;
}
