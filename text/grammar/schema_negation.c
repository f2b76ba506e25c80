/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The opposite of a schema: an anyOf of ways to violate it, one way or more per
 * keyword. A keyword applies to one type only, so its opposite is of that type. A
 * keyword without an opposite here is refused; or, for branches of oneOf, left out: the
 * opposite then lacks some values, but never has one that the schema allows.
 */
#include "text/grammar/schema_negation.h"

#include "text/grammar/schema_made.h"
#include "text/grammar/schema_place.h"

#include <string.h>

struct opposite {
  struct lls_schema *s;
  const json_t *schema;
  json_t *ways; /* alternatives, as an anyOf */
  bool may_be_narrow;
  const char *left_out; /* the first keyword without an opposite, or NULL */
};

/* Adds an alternative; takes over the reference. */
static void add_way(struct opposite *o, json_t *way)
{
  if (json_array_append_new(o->ways, way) != 0)
    lls_schema_fail(o->s, o->schema, "no memory for it");
}

static void refuse(struct opposite *o, const char *keyword)
{
  lls_schema_leave_out(o->s, o->schema, keyword,
                       "inside 'not', or in branches of 'oneOf' that may hold together");
}

static void leave_out(struct opposite *o, const char *keyword)
{
  if (!o->may_be_narrow)
    refuse(o, keyword);
  else if (o->left_out == NULL)
    o->left_out = keyword;
}

static json_t *denied(struct opposite *o, const json_t *schema)
{
  const json_t *made = lls_schema_not(o->s, schema);
  if (o->may_be_narrow && made != NULL)
    lls_schema_mark(o->s, made, LLS_SCHEMA_MAY_BE_NARROW);
  return json_incref((json_t *)made);
}

static bool says_nothing(const json_t *schema)
{
  return json_is_true(schema) ||
         (json_is_object(schema) && json_object_size(schema) == 0);
}

/* ---- types and values ---- */

#define OF_NUMBERS (LLS_SCHEMA_INTEGER | LLS_SCHEMA_FRACTION)

/* Adds all values of these types. */
static void add_types(struct opposite *o, unsigned types)
{
  static const struct {
    const char *name;
    unsigned types;
  } names[] = {{"null", LLS_SCHEMA_NULL},   {"boolean", LLS_SCHEMA_BOOLEAN},
               {"number", OF_NUMBERS},      {"string", LLS_SCHEMA_STRING},
               {"array", LLS_SCHEMA_ARRAY}, {"object", LLS_SCHEMA_OBJECT}};
  json_t *list = json_array();
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if ((types & names[i].types) == names[i].types)
      json_array_append_new(list, json_string(names[i].name));
  if (json_array_size(list) > 0)
    add_way(o, json_pack("{s:O}", "type", list));
  json_decref(list);
}

/* Adds a marked alternative; takes over the reference. */
static void add_marked(struct opposite *o, json_t *way, enum lls_schema_kind mark)
{
  if (way != NULL && lls_schema_mark(o->s, way, mark))
    add_way(o, way);
  else
    json_decref(way);
}

static void deny_type(struct opposite *o, const char *keyword, const json_t *value)
{
  struct lls_schema_set self = {.n = 1, .members = {{.schema = o->schema}}};
  unsigned types;
  (void)value;
  if (!lls_schema_types_of(o->s, &self, &types))
    return;
  if ((types & OF_NUMBERS) == LLS_SCHEMA_INTEGER)
    add_marked(o, json_pack("{s:s}", keyword, "number"), LLS_SCHEMA_IS_FRACTION);
  add_types(o, LLS_SCHEMA_ANY & ~types);
}

static void deny_numbers(struct opposite *o, const json_t *numbers)
{
  json_t *all = json_pack("[{s:s}]", "type", "number"), *value;
  size_t index;
  json_array_foreach((json_t *)numbers, index, value)
  {
    json_array_append_new(all, json_pack("{s:[{s:O},{s:O}]}", "anyOf", "exclusiveMinimum",
                                         value, "exclusiveMaximum", value));
  }
  add_way(o, json_pack("{s:o}", "allOf", all));
}

/* Adds the strings that violate the keyword. */
static void deny_text(struct opposite *o, const char *keyword, const json_t *value)
{
  add_marked(o, json_pack("{s:s,s:{s:O}}", "type", "string", "not", keyword, value),
             LLS_SCHEMA_PLAIN_NOT);
}

/* Adds all values of the types that no constant has, and of the constants' types all
 * values except the constants. */
static void deny_constants(struct opposite *o, const json_t *values)
{
  json_t *strings = json_array(), *numbers = json_array(), *value;
  bool yes = false, no = false;
  unsigned types = LLS_SCHEMA_ANY;
  size_t index;
  json_array_foreach((json_t *)values, index, value)
  {
    if (json_is_string(value))
      json_array_append(strings, value);
    else if (json_is_number(value))
      json_array_append(numbers, value);
    else if (json_is_null(value))
      types &= ~(unsigned)LLS_SCHEMA_NULL;
    else if (json_is_boolean(value))
      *(json_is_true(value) ? &yes : &no) = true;
    else {
      types &= ~(unsigned)(json_is_array(value) ? LLS_SCHEMA_ARRAY : LLS_SCHEMA_OBJECT);
      leave_out(o, "enum");
    }
  }
  if (json_array_size(strings) > 0) {
    types &= ~(unsigned)LLS_SCHEMA_STRING;
    deny_text(o, "enum", strings);
  }
  if (json_array_size(numbers) > 0) {
    types &= ~(unsigned)OF_NUMBERS;
    deny_numbers(o, numbers);
  }
  if (yes || no)
    types &= ~(unsigned)LLS_SCHEMA_BOOLEAN;
  if (yes != no)
    add_way(o, json_pack("{s:b}", "const", !yes));
  add_types(o, types);
  json_decref(strings);
  json_decref(numbers);
}

static void deny_enum(struct opposite *o, const char *keyword, const json_t *value)
{
  (void)keyword;
  deny_constants(o, value);
}

static void deny_const(struct opposite *o, const char *keyword, const json_t *value)
{
  json_t *values = json_pack("[O]", value);
  (void)keyword;
  deny_constants(o, values);
  json_decref(values);
}

/* ---- bounds ---- */

/* Adds the numbers beyond a bound: the opposite bound, exclusive if this one is
 * inclusive. In draft 4 exclusive bounds are booleans. */
static void deny_bound(struct opposite *o, const char *keyword, const json_t *value)
{
  static const char *const opposite[][2] = {{"minimum", "exclusiveMaximum"},
                                            {"maximum", "exclusiveMinimum"},
                                            {"exclusiveMinimum", "maximum"},
                                            {"exclusiveMaximum", "minimum"}};
  if (json_is_false(value))
    return;
  if (!json_is_number(value) ||
      json_is_true(json_object_get(o->schema, "exclusiveMinimum")) ||
      json_is_true(json_object_get(o->schema, "exclusiveMaximum"))) {
    leave_out(o, keyword);
    return;
  }
  for (size_t i = 0; i < sizeof opposite / sizeof opposite[0]; i++)
    if (strcmp(keyword, opposite[i][0]) == 0)
      add_way(o, json_pack("{s:s,s:O}", "type", "number", opposite[i][1], value));
}

static void deny_count(struct opposite *o, const char *keyword, const json_t *value)
{
  static const struct {
    const char *keyword, *type, *opposite;
    int step;
  } counts[] = {{"minLength", "string", "maxLength", -1},
                {"maxLength", "string", "minLength", 1},
                {"minItems", "array", "maxItems", -1},
                {"maxItems", "array", "minItems", 1},
                {"minProperties", "object", "maxProperties", -1},
                {"maxProperties", "object", "minProperties", 1}};
  double is = json_number_value(value);
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
    if (strcmp(keyword, counts[i].keyword) == 0 && is + counts[i].step >= 0)
      add_way(o, json_pack("{s:s,s:f}", "type", counts[i].type, counts[i].opposite,
                           is + counts[i].step));
}

/* ---- items and properties ---- */

static void deny_required(struct opposite *o, const char *keyword, const json_t *value)
{
  size_t index;
  const json_t *name;
  (void)keyword;
  json_array_foreach((json_t *)value, index, name)
  {
    if (json_is_string(name))
      add_way(o, json_pack("{s:s,s:{s:b}}", "type", "object", "properties",
                           json_string_value(name), 0));
  }
}

static void deny_properties(struct opposite *o, const char *keyword, const json_t *value)
{
  const char *name;
  json_t *schema;
  json_object_foreach((json_t *)value, name, schema)
  {
    if (!says_nothing(schema))
      add_way(o, json_pack("{s:s,s:[s],s:{s:o}}", "type", "object", "required", name,
                           keyword, name, denied(o, schema)));
  }
}

/* Adds the arrays with an item that violates the schema. */
static void deny_items(struct opposite *o, const char *keyword, const json_t *value)
{
  if (says_nothing(value))
    return;
  if (json_is_array(value) || json_object_get(o->schema, "prefixItems") != NULL)
    leave_out(o, keyword);
  else
    add_way(o, json_pack("{s:s,s:o}", "type", "array", "contains", denied(o, value)));
}

/* Adds the objects with a property outside of the named ones. */
static void deny_additional(struct opposite *o, const char *keyword, const json_t *value)
{
  const char *name;
  json_t *schema, *named = json_object();
  if (says_nothing(value)) {
    json_decref(named);
    return;
  }
  if (!json_is_false(value) || json_object_get(o->schema, "patternProperties") != NULL) {
    json_decref(named);
    leave_out(o, keyword);
    return;
  }
  json_object_foreach(json_object_get(o->schema, "properties"), name, schema)
  {
    json_object_set_new(named, name, json_true());
  }
  add_marked(o, json_pack("{s:s,s:o}", "type", "object", "properties", named),
             LLS_SCHEMA_IS_BEYOND);
}

/* ---- combined schemas ---- */

static void deny_not(struct opposite *o, const char *keyword, const json_t *value)
{
  (void)keyword;
  add_way(o, json_incref((json_t *)value));
}

static void deny_all(struct opposite *o, const char *keyword, const json_t *value)
{
  size_t index;
  const json_t *one;
  (void)keyword;
  json_array_foreach((json_t *)value, index, one)
  {
    add_way(o, denied(o, one));
  }
}

static json_t *none_of(struct opposite *o, const json_t *schemas)
{
  json_t *none = json_array();
  size_t index;
  const json_t *one;
  json_array_foreach((json_t *)schemas, index, one)
  {
    json_array_append_new(none, denied(o, one));
  }
  return json_pack("{s:o}", "allOf", none);
}

static void deny_any(struct opposite *o, const char *keyword, const json_t *value)
{
  (void)keyword;
  add_way(o, none_of(o, value));
}

/* Adds the values that satisfy none of the schemas, or two of them: one alternative per
 * pair, each a step of work. */
static void deny_one(struct opposite *o, const char *keyword, const json_t *value)
{
  size_t n = json_array_size(value);
  (void)keyword;
  add_way(o, none_of(o, value));
  for (size_t i = 0; i < n; i++)
    for (size_t k = i + 1; k < n && lls_schema_step(o->s, o->schema); k++)
      add_way(o, json_pack("{s:[OO]}", "allOf", json_array_get(value, i),
                           json_array_get(value, k)));
}

static void deny_unknown(struct opposite *o, const char *keyword, const json_t *value)
{
  if (!json_is_false(value) || strcmp(keyword, "uniqueItems") != 0)
    leave_out(o, keyword);
}

/* ---- the entry point ---- */

static const struct {
  const char *keyword;
  void (*deny)(struct opposite *o, const char *keyword, const json_t *value);
} keywords[] = {{"type", deny_type},
                {"enum", deny_enum},
                {"const", deny_const},
                {"minimum", deny_bound},
                {"maximum", deny_bound},
                {"exclusiveMinimum", deny_bound},
                {"exclusiveMaximum", deny_bound},
                {"minLength", deny_count},
                {"maxLength", deny_count},
                {"minItems", deny_count},
                {"maxItems", deny_count},
                {"minProperties", deny_count},
                {"maxProperties", deny_count},
                {"pattern", deny_text},
                {"format", deny_text},
                {"required", deny_required},
                {"properties", deny_properties},
                {"additionalProperties", deny_additional},
                {"not", deny_not},
                {"allOf", deny_all},
                {"anyOf", deny_any},
                {"oneOf", deny_one},
                {"multipleOf", deny_unknown},
                {"items", deny_items},
                {"prefixItems", deny_unknown},
                {"additionalItems", deny_unknown},
                {"contains", deny_unknown},
                {"uniqueItems", deny_unknown},
                {"patternProperties", deny_unknown},
                {"propertyNames", deny_unknown},
                {"dependencies", deny_unknown},
                {"dependentRequired", deny_unknown},
                {"dependentSchemas", deny_unknown},
                {"if", deny_unknown},
                {"unevaluatedProperties", deny_unknown},
                {"unevaluatedItems", deny_unknown},
                {"$dynamicRef", deny_unknown},
                {"$recursiveRef", deny_unknown},
                {"extends", deny_unknown},
                {"disallow", deny_unknown}};

static void deny_keyword(struct opposite *o, const char *keyword, const json_t *value)
{
  for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
    if (strcmp(keyword, keywords[i].keyword) == 0)
      keywords[i].deny(o, keyword, value);
}

static void deny_reference(struct opposite *o, const json_t *ref)
{
  const json_t *target =
      json_is_string(ref) ? lls_schema_resolve(o->s->root, json_string_value(ref)) : NULL;
  if (target == NULL)
    leave_out(o, "$ref");
  else
    add_way(o, denied(o, target));
}

static void note_narrow(struct opposite *o, const json_t *made)
{
  lls_schema_mark(o->s, made, LLS_SCHEMA_IS_NARROW);
  if (o->s->narrow == NULL) {
    o->s->narrow = o->schema;
    o->s->narrow_for = o->left_out;
  }
}

json_t *lls_schema_negation(struct lls_schema *s, const json_t *schema,
                            bool may_be_narrow)
{
  struct opposite o = {
      .s = s, .schema = schema, .ways = json_array(), .may_be_narrow = may_be_narrow};
  const char *keyword;
  json_t *value;
  if (!json_is_object(schema)) {
    json_decref(o.ways);
    return json_pack("{s:[b]}", "allOf", !json_is_true(schema));
  }
  json_object_foreach((json_t *)schema, keyword, value)
  {
    if (strcmp(keyword, "$ref") == 0)
      deny_reference(&o, value);
    else
      deny_keyword(&o, keyword, value);
  }
  if (json_array_size(o.ways) == 0 && o.left_out != NULL)
    refuse(&o, o.left_out);
  if (json_array_size(o.ways) == 0)
    json_array_append_new(o.ways, json_false());
  json_t *made = json_pack("{s:o}", "anyOf", o.ways);
  if (o.left_out != NULL && made != NULL)
    note_narrow(&o, made);
  return made;
}
