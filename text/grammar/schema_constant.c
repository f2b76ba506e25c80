/* SPDX-License-Identifier: Apache-2.0 */
/* A validator for constants, with the keywords that grammars support. */
#include "text/grammar/schema_compile.h"

#include "text/base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 40

typedef enum lls_schema_answer answer;

static answer and (answer a, answer b)
{
  return a == LLS_SCHEMA_NO || b == LLS_SCHEMA_NO ? LLS_SCHEMA_NO
         : a == LLS_SCHEMA_YES                    ? b
                                                  : LLS_SCHEMA_UNKNOWN;
}

static answer opposite(answer holds)
{
  return holds == LLS_SCHEMA_YES  ? LLS_SCHEMA_NO
         : holds == LLS_SCHEMA_NO ? LLS_SCHEMA_YES
                                  : LLS_SCHEMA_UNKNOWN;
}

static answer or (answer a, answer b)
{
  return opposite(and(opposite(a), opposite(b)));
}

static answer whether(bool holds)
{
  return holds ? LLS_SCHEMA_YES : LLS_SCHEMA_NO;
}

static unsigned type_of(const json_t *value)
{
  switch (json_typeof(value)) {
  case JSON_OBJECT:
    return LLS_SCHEMA_OBJECT;
  case JSON_ARRAY:
    return LLS_SCHEMA_ARRAY;
  case JSON_STRING:
    return LLS_SCHEMA_STRING;
  case JSON_INTEGER:
    return LLS_SCHEMA_INTEGER;
  case JSON_REAL:
    return json_real_value(value) == floor(json_real_value(value)) ? LLS_SCHEMA_INTEGER
                                                                   : LLS_SCHEMA_FRACTION;
  case JSON_NULL:
    return LLS_SCHEMA_NULL;
  default:
    return LLS_SCHEMA_BOOLEAN;
  }
}

static bool is_equal(const json_t *a, const json_t *b)
{
  if (json_is_number(a) && json_is_number(b))
    return json_number_value(a) == json_number_value(b);
  return json_equal(a, b) != 0;
}

#define PER_STEP 256 /* comparisons of constants that count as one step of work */

/* Returns true if `value` is in the list. A value that was taken from this very list is
 * not searched for: n constants would take n * n comparisons. */
static bool is_among(struct lls_schema *s, const json_t *values, const json_t *value)
{
  size_t index;
  const json_t *one;
  if (values == s->constants && value == s->constant)
    return true;
  *s->work += (unsigned)(json_array_size(values) / PER_STEP);
  json_array_foreach((json_t *)values, index, one)
  {
    if (is_equal(one, value))
      return true;
  }
  return false;
}

/* ---- keywords of one type ---- */

static bool is_within(const json_t *schema, const char *min, const char *max, double size)
{
  const json_t *low = json_object_get(schema, min), *high = json_object_get(schema, max);
  return (low == NULL || size >= json_number_value(low)) &&
         (high == NULL || size <= json_number_value(high));
}

static answer number_holds(const json_t *schema, const json_t *value)
{
  double is = json_number_value(value);
  const json_t *low = json_object_get(schema, "exclusiveMinimum");
  const json_t *high = json_object_get(schema, "exclusiveMaximum");
  const json_t *multiple = json_object_get(schema, "multipleOf");
  if (!is_within(schema, "minimum", "maximum", is) ||
      (json_is_number(low) && is <= json_number_value(low)) ||
      (json_is_number(high) && is >= json_number_value(high)) ||
      (json_is_true(low) &&
       is <= json_number_value(json_object_get(schema, "minimum"))) ||
      (json_is_true(high) && is >= json_number_value(json_object_get(schema, "maximum"))))
    return LLS_SCHEMA_NO;
  if (multiple == NULL)
    return LLS_SCHEMA_YES;
  double times = is / json_number_value(multiple);
  return whether(fabs(times - round(times)) < 1e-9);
}

static answer format_holds(const json_t *schema, const char *text, size_t length)
{
  const char *name = json_string_value(json_object_get(schema, "format"));
  bool standard = false;
  const char *expression = name == NULL ? NULL : lls_schema_format(name, &standard);
  char whole[4096];
  if (expression == NULL)
    return standard ? LLS_SCHEMA_UNKNOWN : LLS_SCHEMA_YES;
  if (strlen(expression) + 8 > sizeof whole)
    return LLS_SCHEMA_UNKNOWN;
  strcpy(whole, "^(?:");
  strcat(whole, expression);
  strcat(whole, ")$");
  return lls_schema_matches(whole, text, length);
}

static answer string_holds(const json_t *schema, const json_t *value)
{
  const char *text = json_string_value(value);
  size_t length = json_string_length(value), points = 0;
  for (size_t at = 0; at < length; at += lls_utf8_length(text + at))
    points++;
  if (!is_within(schema, "minLength", "maxLength", (double)points))
    return LLS_SCHEMA_NO;
  const char *pattern = json_string_value(json_object_get(schema, "pattern"));
  answer holds =
      pattern == NULL ? LLS_SCHEMA_YES : lls_schema_matches(pattern, text, length);
  return and(holds, format_holds(schema, text, length));
}

static answer set_holds(struct lls_schema *s, const struct lls_schema_set *set,
                        const json_t *value, unsigned depth)
{
  answer holds = whether(!set->impossible);
  for (uint32_t i = 0; i < set->n && holds != LLS_SCHEMA_NO; i++)
    holds = and(holds, lls_schema_holds(s, set->members[i].schema, value, depth));
  return holds;
}

/* Returns a text that is the same for values which is_equal considers equal, and
 * differs otherwise; NULL if out of memory. Adding 0 turns -0 into 0 at the top level;
 * inside an array or object -0 differs from 0. */
static char *text_of(const json_t *value)
{
  const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS;
  json_t *number =
      json_is_number(value) ? json_real(json_number_value(value) + 0.0) : NULL;
  char *text = json_dumps(number != NULL ? number : value, flags);
  json_decref(number);
  return text;
}

/* Compares the items' texts, since comparing all pairs would take too long. */
answer lls_schema_items_are_unique(const json_t *value)
{
  json_t *seen = json_object();
  answer unique = seen != NULL ? LLS_SCHEMA_YES : LLS_SCHEMA_UNKNOWN;
  for (size_t i = 0; i < json_array_size(value) && unique == LLS_SCHEMA_YES; i++) {
    char *text = text_of(json_array_get(value, i));
    if (text != NULL && json_object_get(seen, text) != NULL)
      unique = LLS_SCHEMA_NO;
    else if (text == NULL || json_object_set_new(seen, text, json_true()) != 0)
      unique = LLS_SCHEMA_UNKNOWN;
    free(text);
  }
  json_decref(seen);
  return unique;
}

/* Returns whether some item satisfies `contains`; minContains and maxContains are not
 * checked. */
static answer contains_holds(struct lls_schema *s, const json_t *schema,
                             const json_t *value, unsigned depth)
{
  const json_t *wanted = json_object_get(schema, "contains"), *item;
  answer any = LLS_SCHEMA_NO;
  size_t index;
  if (wanted == NULL)
    return LLS_SCHEMA_YES;
  if (json_object_get(schema, "minContains") != NULL ||
      json_object_get(schema, "maxContains") != NULL)
    return LLS_SCHEMA_UNKNOWN;
  json_array_foreach((json_t *)value, index, item)
  {
    any = or (any, lls_schema_holds(s, wanted, item, depth));
  }
  return any;
}

static answer array_holds(struct lls_schema *s, const json_t *schema, const json_t *value,
                          unsigned depth)
{
  struct lls_schema_set self = {.n = 1, .members = {{.schema = schema}}};
  size_t index;
  const json_t *item;
  answer holds =
      whether(is_within(schema, "minItems", "maxItems", (double)json_array_size(value)));
  json_array_foreach((json_t *)value, index, item)
  {
    struct lls_schema_set set = {0};
    if (!lls_schema_item(s, &self, index, &set))
      return LLS_SCHEMA_UNKNOWN;
    holds = and(holds, set_holds(s, &set, item, depth));
  }
  if (json_is_true(json_object_get(schema, "uniqueItems")))
    holds = and(holds, lls_schema_items_are_unique(value));
  return and(holds, contains_holds(s, schema, value, depth));
}

static answer name_holds(struct lls_schema *s, const json_t *schema, const char *name,
                         unsigned depth)
{
  json_t *text = json_string(name);
  answer holds =
      text == NULL ? LLS_SCHEMA_UNKNOWN : lls_schema_holds(s, schema, text, depth);
  json_decref(text);
  return holds;
}

static answer object_holds(struct lls_schema *s, const json_t *schema,
                           const json_t *value, unsigned depth)
{
  struct lls_schema_set self = {.n = 1, .members = {{.schema = schema}}};
  size_t index;
  const char *name;
  json_t *item;
  answer holds = whether(is_within(schema, "minProperties", "maxProperties",
                                   (double)json_object_size(value)));
  json_array_foreach(json_object_get(schema, "required"), index, item)
  {
    holds = and(holds, whether(json_is_string(item) &&
                               json_object_get(value, json_string_value(item)) != NULL));
  }
  const json_t *names = json_object_get(schema, "propertyNames");
  json_object_foreach((json_t *)value, name, item)
  {
    struct lls_schema_set set = {0};
    if (!lls_schema_property(s, &self, name, &set))
      return LLS_SCHEMA_UNKNOWN;
    if (names != NULL)
      holds = and(holds, name_holds(s, names, name, depth));
    holds = and(holds, set_holds(s, &set, item, depth));
  }
  return holds;
}

/* ---- keywords of all types ---- */

/* Counts the schemas by which the value is valid, and those for which the answer is
 * unknown. */
static void count_holding(struct lls_schema *s, const json_t *schemas,
                          const json_t *value, unsigned depth, size_t *yes,
                          size_t *unknown)
{
  size_t index;
  const json_t *one;
  *yes = *unknown = 0;
  json_array_foreach((json_t *)schemas, index, one)
  {
    answer holds = lls_schema_holds(s, one, value, depth);
    *yes += holds == LLS_SCHEMA_YES;
    *unknown += holds == LLS_SCHEMA_UNKNOWN;
  }
}

/* Returns whether an object that has the property satisfies the dependency's schema or
 * names. */
static answer dependency_holds(struct lls_schema *s, const json_t *asks,
                               const json_t *value, unsigned depth)
{
  size_t index;
  const json_t *name;
  if (json_is_string(asks))
    return whether(json_object_get(value, json_string_value(asks)) != NULL);
  if (!json_is_array(asks))
    return lls_schema_holds(s, asks, value, depth);
  json_array_foreach((json_t *)asks, index, name)
  {
    if (json_object_get(value, json_string_value(name)) == NULL)
      return LLS_SCHEMA_NO;
  }
  return LLS_SCHEMA_YES;
}

static answer dependencies_hold(struct lls_schema *s, const json_t *schema,
                                const json_t *value, unsigned depth)
{
  static const char *const keywords[] = {"dependencies", "dependentRequired",
                                         "dependentSchemas"};
  answer holds = LLS_SCHEMA_YES;
  const char *name;
  json_t *asks;
  for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
    json_object_foreach(json_object_get(schema, keywords[i]), name, asks)
    {
      if (json_object_get(value, name) != NULL)
        holds = and(holds, dependency_holds(s, asks, value, depth));
    }
  return holds;
}

static answer conditions_hold(struct lls_schema *s, const json_t *schema,
                              const json_t *value, unsigned depth)
{
  const json_t *not = json_object_get(schema, "not"),
               *test = json_object_get(schema, "if");
  const json_t *then = json_object_get(schema, "then"),
               *otherwise = json_object_get(schema, "else");
  answer holds = dependencies_hold(s, schema, value, depth);
  if (not != NULL)
    holds = and(holds, opposite(lls_schema_holds(s, not, value, depth)));
  if (test == NULL || (then == NULL && otherwise == NULL))
    return holds;
  answer is = lls_schema_holds(s, test, value, depth);
  if (then != NULL)
    holds = and(holds, or (opposite(is), lls_schema_holds(s, then, value, depth)));
  if (otherwise != NULL)
    holds = and(holds, or (is, lls_schema_holds(s, otherwise, value, depth)));
  return holds;
}

static answer combined(struct lls_schema *s, const json_t *schema, const json_t *value,
                       unsigned depth)
{
  size_t yes, unknown;
  answer holds = LLS_SCHEMA_YES;
  const json_t *all = json_object_get(schema, "allOf");
  const json_t *any = json_object_get(schema, "anyOf");
  const json_t *one = json_object_get(schema, "oneOf");
  count_holding(s, all, value, depth, &yes, &unknown);
  if (yes < json_array_size(all))
    holds = yes + unknown < json_array_size(all) ? LLS_SCHEMA_NO : LLS_SCHEMA_UNKNOWN;
  count_holding(s, any, value, depth, &yes, &unknown);
  if (any != NULL && yes == 0)
    holds = and(holds, unknown > 0 ? LLS_SCHEMA_UNKNOWN : LLS_SCHEMA_NO);
  count_holding(s, one, value, depth, &yes, &unknown);
  if (one != NULL && (yes != 1 || unknown > 0))
    holds = and(holds, yes > 1 || unknown == 0 ? LLS_SCHEMA_NO : LLS_SCHEMA_UNKNOWN);
  return and(holds, conditions_hold(s, schema, value, depth));
}

answer lls_schema_holds(struct lls_schema *s, const json_t *schema, const json_t *value,
                        unsigned depth)
{
  if (json_is_boolean(schema))
    return whether(json_is_true(schema));
  struct lls_schema_set set = {0};
  unsigned types;
  if (depth > DEEPEST || !lls_schema_add(s, &set, schema, 0) ||
      !lls_schema_gather(s, &set, 0) || !lls_schema_types_of(s, &set, &types))
    return LLS_SCHEMA_UNKNOWN;
  if ((types & type_of(value)) == 0)
    return LLS_SCHEMA_NO;
  answer holds = LLS_SCHEMA_YES;
  for (uint32_t i = 0; i < set.n && holds != LLS_SCHEMA_NO; i++) {
    const json_t *member = set.members[i].schema;
    const json_t *constant = json_object_get(member, "const");
    const json_t *values = json_object_get(member, "enum");
    if ((constant != NULL && !is_equal(constant, value)) ||
        (values != NULL && !is_among(s, values, value)))
      return LLS_SCHEMA_NO;
    holds = and(holds, combined(s, member, value, depth + 1));
    if (json_is_number(value))
      holds = and(holds, number_holds(member, value));
    else if (json_is_string(value))
      holds = and(holds, string_holds(member, value));
    else if (json_is_array(value))
      holds = and(holds, array_holds(s, member, value, depth + 1));
    else if (json_is_object(value))
      holds = and(holds, object_holds(s, member, value, depth + 1));
  }
  return holds;
}
