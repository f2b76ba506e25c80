/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of properties: those that are said, and those that a pattern or
 * additionalProperties admits. A grammar has no difference of two sets of names but where
 * one of them is finite, so that patterns which may overlap with anything are refused.
 */
#include "core/grammar/schema_names.h"

#include "core/grammar/regex.h"
#include "core/grammar/schema_compile.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* ---- names that are said ---- */

static bool add_name(struct lls_schema *s, struct lls_schema_names *names,
                     const char *name)
{
  if (names->n == names->capacity) {
    uint32_t capacity = names->capacity == 0 ? 16 : names->capacity * 2;
    void *grown = realloc(names->names, capacity * sizeof *names->names);
    if (grown != NULL)
      names->names = grown;
    void *flags = grown == NULL ? NULL : realloc(names->required, capacity);
    if (flags == NULL) {
      lls_schema_fail(s, s->root, "no memory for it");
      return false;
    }
    names->required = flags;
    names->capacity = capacity;
  }
  names->names[names->n] = name;
  names->required[names->n++] = false;
  return true;
}

/* Tells names apart while they are read: an object of their places. */
static bool add_once(struct lls_schema *s, struct lls_schema_names *names, json_t *places,
                     const char *name)
{
  if (json_object_get(places, name) != NULL)
    return true;
  if (json_object_set_new(places, name, json_integer(names->n)) != 0) {
    lls_schema_fail(s, s->root, "no memory for it");
    return false;
  }
  return add_name(s, names, name);
}

static bool read_properties(struct lls_schema *s, const struct lls_schema_set *set,
                            struct lls_schema_names *names, json_t *places)
{
  const char *name;
  json_t *value;
  uint32_t order[LLS_SCHEMA_TOGETHER];
  lls_schema_order(set, order);
  for (uint32_t i = 0; i < set->n; i++) {
    const json_t *properties = lls_schema_get(set, order[i], "properties");
    if (properties != NULL && !json_is_object(properties)) {
      lls_schema_fail(s, set->members[order[i]].schema, "'properties' must be an object");
      return false;
    }
    json_object_foreach((json_t *)properties, name, value)
    {
      if (!add_once(s, names, places, name))
        return false;
    }
  }
  return true;
}

static bool read_required(struct lls_schema *s, const struct lls_schema_set *set,
                          struct lls_schema_names *names, json_t *places)
{
  size_t index;
  const json_t *name;
  for (uint32_t i = 0; i < set->n; i++) {
    const json_t *required = lls_schema_get(set, i, "required");
    if (required != NULL && !json_is_array(required) && !json_is_boolean(required)) {
      lls_schema_fail(s, set->members[i].schema, "'required' must be an array of names");
      return false;
    }
    json_array_foreach((json_t *)required, index, name)
    {
      const char *text = json_string_value(name);
      if (text == NULL || !add_once(s, names, places, text))
        return !lls_schema_fail(s, set->members[i].schema,
                                "'required' must be an array of names");
      names->required[json_integer_value(json_object_get(places, text))] = true;
    }
  }
  return true;
}

bool lls_schema_names_read(struct lls_schema *s, const struct lls_schema_set *set,
                           struct lls_schema_names *names)
{
  json_t *places = json_object();
  bool read = places != NULL && read_properties(s, set, names, places) &&
              read_required(s, set, names, places);
  json_decref(places);
  return read;
}

void lls_schema_names_free(struct lls_schema_names *names)
{
  free(names->names);
  free(names->required);
}

/* ---- all other names ---- */

/* Patterns that every name matches. */
static bool matches_all(const char *pattern)
{
  static const char *const all[] = {"", ".*", "^.*", ".*$", "^.*$", "^", "$"};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    if (strcmp(pattern, all[i]) == 0)
      return true;
  return false;
}

struct others {
  struct lls_schema_set rest; /* of names that no pattern matches */
  const char *pattern;        /* the one that does not match all, or NULL */
  uint32_t member;            /* which has it */
  const json_t *schema;
  unsigned n_patterns;
};

/* One member's part in what is said of other names. */
static bool gather(struct lls_schema *s, const struct lls_schema_set *set, uint32_t i,
                   struct others *others)
{
  const char *pattern;
  json_t *schema;
  bool has_all = false;
  json_object_foreach((json_t *)lls_schema_get(set, i, "patternProperties"), pattern,
                      schema)
  {
    if (matches_all(pattern)) {
      has_all = true;
      if (!lls_schema_add(s, &others->rest, schema, others->rest.n))
        return false;
      continue;
    }
    if (others->pattern != NULL && strcmp(others->pattern, pattern) == 0 &&
        json_equal(others->schema, schema))
      continue;
    others->n_patterns++;
    others->pattern = pattern;
    others->schema = schema;
    others->member = i;
  }
  return has_all ||
         lls_schema_add(s, &others->rest, lls_schema_additional(set, i), others->rest.n);
}

/* A name that the one pattern matches, and what its value may be. */
static uint32_t by_pattern(struct lls_schema *s, const struct lls_schema_set *set,
                           const struct lls_schema_names *names,
                           const struct others *others)
{
  const json_t *at = set->members[others->member].schema;
  struct lls_schema_set value = {0};
  if (!lls_schema_add(s, &value, others->schema, 0))
    return LLS_GRAMMAR_NONE;
  for (uint32_t i = 0; i < set->n; i++)
    if (i != others->member &&
        !lls_schema_add(s, &value, lls_schema_additional(set, i), value.n))
      return LLS_GRAMMAR_NONE;
  for (uint32_t i = 0; i < names->n; i++)
    if (lls_schema_matches(others->pattern, names->names[i], strlen(names->names[i])) !=
            LLS_SCHEMA_NO &&
        !lls_schema_leave_out(s, at, "patternProperties",
                              "with an expression that a name in 'properties' matches"))
      return LLS_GRAMMAR_NONE;
  uint32_t node = lls_schema_compile(s, &value);
  struct lls_error err = {0};
  int code;
  uint32_t name = lls_grammar_regex(
      s->json.tree, others->pattern, strlen(others->pattern),
      (struct lls_regex_use){.search = true, .json = true}, &code, &err);
  if (name == LLS_GRAMMAR_NONE &&
      !lls_schema_leave_out(s, at, "patternProperties", err.text))
    return LLS_GRAMMAR_NONE;
  if (name == LLS_GRAMMAR_NONE)
    return s->json.nothing;
  return LLS_JSON_ROW(&s->json, s->json.quote, name, s->json.quote,
                      lls_json_bytes(&s->json, ":"), s->json.space, node);
}

bool lls_schema_others(struct lls_schema *s, const struct lls_schema_set *set,
                       const struct lls_schema_names *names, uint32_t *node)
{
  struct others others = {0};
  for (uint32_t i = 0; i < set->n; i++)
    if (!gather(s, set, i, &others))
      return false;
  bool has_rest = !others.rest.impossible;
  if (others.n_patterns > 0 && (others.n_patterns > 1 || has_rest)) {
    if (!lls_schema_leave_out(s, set->members[others.member].schema, "patternProperties",
                              others.n_patterns > 1 ? "with several expressions"
                                                    : "without 'additionalProperties': "
                                                      "false"))
      return false;
    has_rest = true;
    others.n_patterns = 0;
  }
  *node = s->json.nothing;
  if (others.n_patterns > 0)
    *node = by_pattern(s, set, names, &others);
  else if (has_rest) {
    uint32_t value = lls_schema_compile(s, &others.rest);
    *node = LLS_JSON_ROW(&s->json, lls_json_string_but(&s->json, names->names, names->n),
                         lls_json_bytes(&s->json, ":"), s->json.space, value);
  }
  return !s->failed;
}
