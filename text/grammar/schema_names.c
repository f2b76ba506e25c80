/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of properties: the named ones, and those that a pattern or additionalProperties
 * allows. The patterns divide all names into parts: the names that match all of some
 * patterns and none of the other ones. Each part has its own schemas for the value.
 */
#include "text/grammar/schema_names.h"

#include "text/grammar/regex.h"
#include "text/grammar/regex_product.h"
#include "text/grammar/schema_compile.h"
#include "core/base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- named properties ---- */

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

/* Adds a name unless it was added before. places: a JSON object from name to index. */
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

/* Returns true for patterns that every name matches. */
static bool matches_all(const char *pattern)
{
  static const char *const all[] = {"", ".*", "^.*", ".*$", "^.*$", "^", "$"};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    if (strcmp(pattern, all[i]) == 0)
      return true;
  return false;
}

#define MOST_PATTERNS 6 /* the names then have up to 64 parts */

struct others {
  const char *patterns[MOST_PATTERNS]; /* (n) patterns that do not match every name */
  uint32_t n;
  const json_t *at; /* a schema with patternProperties, for messages */
};

static bool check_patterns(struct lls_schema *s, const struct lls_schema_set *set)
{
  const char *pattern;
  json_t *schema;
  for (uint32_t i = 0; i < set->n; i++)
    json_object_foreach((json_t *)lls_schema_get(set, i, "patternProperties"), pattern,
                        schema)
    {
      if (!lls_schema_check_pattern(s, set->members[i].schema, "patternProperties",
                                    pattern))
        return false;
    }
  return true;
}

/* Collects the set's patterns. Returns false if there are too many. */
static bool gather(const struct lls_schema_set *set, struct others *others)
{
  const char *pattern;
  json_t *schema;
  for (uint32_t i = 0; i < set->n; i++)
    json_object_foreach((json_t *)lls_schema_get(set, i, "patternProperties"), pattern,
                        schema)
    {
      uint32_t k = 0;
      while (k < others->n && strcmp(others->patterns[k], pattern) != 0)
        k++;
      if (k < others->n || matches_all(pattern))
        continue;
      others->at = set->members[i].schema;
      if (k == MOST_PATTERNS)
        return false;
      others->patterns[others->n++] = pattern;
    }
  return true;
}

static bool is_in(const struct others *others, const char *pattern, uint32_t part)
{
  for (uint32_t k = 0; k < others->n; k++)
    if ((part >> k & 1) != 0 && strcmp(others->patterns[k], pattern) == 0)
      return true;
  return matches_all(pattern);
}

/* Collects the schemas for values under names that match exactly the patterns of
 * `part`. */
static bool value_of(struct lls_schema *s, const struct lls_schema_set *set,
                     const struct others *others, uint32_t part,
                     struct lls_schema_set *value)
{
  const char *pattern;
  json_t *schema;
  for (uint32_t i = 0; i < set->n; i++) {
    bool any = false;
    json_object_foreach((json_t *)lls_schema_get(set, i, "patternProperties"), pattern,
                        schema)
    {
      if (!is_in(others, pattern, part))
        continue;
      any = true;
      if (!lls_schema_add(s, value, schema, value->n))
        return false;
    }
    if (!any && !lls_schema_add(s, value, lls_schema_additional(set, i), value->n))
      return false;
  }
  return true;
}

/* Builds the names from a single pattern directly, which is simpler than a product. */
static uint32_t by_pattern(struct lls_schema *s, const struct lls_schema_names *names,
                           const struct others *others, int *code, struct lls_error *err)
{
  *code = -ENOTSUP;
  for (uint32_t i = 0; i < names->n; i++)
    if (lls_schema_matches(others->patterns[0], names->names[i],
                           strlen(names->names[i])) != LLS_SCHEMA_NO)
      return LLS_GRAMMAR_NONE;
  return lls_grammar_regex(s->json.tree, others->patterns[0], strlen(others->patterns[0]),
                           (struct lls_regex_use){.search = true, .json = true}, code,
                           err);
}

static uint32_t names_of(struct lls_schema *s, const struct lls_schema_names *names,
                         const struct others *others, uint32_t part, int *code,
                         struct lls_error *err)
{
  struct lls_product product = {.n = others->n,
                                .others = names->names,
                                .n_others = names->n,
                                .max = LLS_GRAMMAR_UNBOUNDED,
                                .json = true,
                                .nothing = s->json.nothing};
  uint32_t node = LLS_GRAMMAR_NONE;
  *code = -ENOTSUP;
  if (others->n == 1 && part == 1)
    node = by_pattern(s, names, others, code, err);
  if (*code != -ENOTSUP)
    return node;
  for (uint32_t k = 0; k < others->n; k++)
    product.terms[k] = (struct lls_product_term){
        .pattern = others->patterns[k], .search = true, .outside = (part >> k & 1) == 0};
  return lls_schema_texts(s, others->at, &product, code, err);
}

/* Builds the properties of all parts. Returns 0, or the error by which a part cannot be
 * separated from the other ones. */
static int by_parts(struct lls_schema *s, const struct lls_schema_set *set,
                    const struct lls_schema_names *names, const struct others *others,
                    uint32_t *node, struct lls_error *err)
{
  uint32_t parts[1u << MOST_PATTERNS], n = 0;
  for (uint32_t part = 0; part < 1u << others->n && !s->failed; part++) {
    struct lls_schema_set value = {0};
    int code = 0;
    if (!value_of(s, set, others, part, &value))
      return 0;
    if (value.impossible)
      continue;
    uint32_t name = names_of(s, names, others, part, &code, err);
    if (code == -EINVAL || code == -ENOTSUP)
      return code;
    if (name == s->json.nothing || s->failed)
      continue;
    parts[n++] = LLS_JSON_ROW(&s->json, s->json.quote, name, s->json.quote,
                              lls_json_bytes(&s->json, ":"), s->json.space,
                              lls_schema_compile(s, &value));
  }
  *node = lls_json_one_of(&s->json, parts, n);
  return 0;
}

/* Builds the other properties while ignoring patterns. */
static bool by_rest(struct lls_schema *s, const struct lls_schema_set *set,
                    const struct lls_schema_names *names, uint32_t *node)
{
  struct lls_schema_set rest = {0};
  if (!value_of(s, set, &(struct others){0}, 0, &rest))
    return false;
  *node =
      rest.impossible
          ? s->json.nothing
          : LLS_JSON_ROW(&s->json, lls_json_string_but(&s->json, names->names, names->n),
                         lls_json_bytes(&s->json, ":"), s->json.space,
                         lls_schema_compile(s, &rest));
  return !s->failed;
}

/* Returns true if the object has no other properties because of s->closed. */
static bool is_closed(const struct lls_schema *s, const struct lls_schema_set *set)
{
  static const char *const open[] = {"additionalProperties", "unevaluatedProperties",
                                     "patternProperties", "propertyNames"};
  bool names = false;
  for (uint32_t i = 0; i < set->n; i++) {
    names |= lls_schema_get(set, i, "properties") != NULL;
    for (size_t k = 0; k < sizeof open / sizeof *open; k++)
      if (lls_schema_get(set, i, open[k]) != NULL)
        return false;
  }
  return s->closed && names;
}

bool lls_schema_others(struct lls_schema *s, const struct lls_schema_set *set,
                       const struct lls_schema_names *names, uint32_t *node)
{
  struct others others = {0};
  struct lls_error err = {0};
  *node = s->json.nothing;
  if (is_closed(s, set))
    return true;
  if (!check_patterns(s, set))
    return false;
  if (!gather(set, &others)) {
    if (!lls_schema_leave_out(s, others.at, "patternProperties",
                              "with so many expressions"))
      return false;
    others.n = 0;
  }
  if (others.n > 0 && by_parts(s, set, names, &others, node, &err) == 0)
    return !s->failed;
  if (others.n > 0 && !lls_schema_leave_out(s, others.at, "patternProperties", err.text))
    return false;
  return by_rest(s, set, names, node);
}
