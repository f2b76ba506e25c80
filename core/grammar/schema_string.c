/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: their lengths, their patterns and their formats. */
#include "core/grammar/regex.h"
#include "core/grammar/schema_compile.h"

#include <errno.h>
#include <string.h>

/* All that a set asks of a string's text: at most one expression can be kept. */
struct wanted {
  uint32_t min, max;
  const char *expression;
  bool search; /* a pattern; else a format, which is the whole text */
};

static bool want(struct lls_schema *s, const json_t *schema, const char *keyword,
                 const char *expression, bool search, struct wanted *wanted)
{
  if (expression == NULL)
    return true;
  if (wanted->expression != NULL)
    return (wanted->search == search && strcmp(wanted->expression, expression) == 0) ||
           lls_schema_leave_out(s, schema, keyword, "beside another pattern or format");
  wanted->expression = expression;
  wanted->search = search;
  return true;
}

static bool want_format(struct lls_schema *s, const json_t *schema, struct wanted *wanted)
{
  const char *name = json_string_value(json_object_get(schema, "format"));
  bool standard = false;
  if (name == NULL)
    return true;
  const char *expression = lls_schema_format(name, &standard);
  if (expression == NULL)
    return !standard || lls_schema_leave_out(s, schema, "format", name);
  return want(s, schema, "format", expression, false, wanted);
}

static bool read_wanted(struct lls_schema *s, const struct lls_schema_set *set,
                        struct wanted *wanted)
{
  for (uint32_t i = 0; i < set->n; i++) {
    const json_t *schema = set->members[i].schema;
    const json_t *pattern = json_object_get(schema, "pattern");
    if (pattern != NULL && !json_is_string(pattern))
      return !lls_schema_fail(s, schema, "'pattern' must be a string");
    if (!want(s, schema, "pattern", json_string_value(pattern), true, wanted) ||
        !want_format(s, schema, wanted))
      return false;
  }
  return lls_schema_count(s, set, "minLength", true, &wanted->min) &&
         lls_schema_count(s, set, "maxLength", false, &wanted->max);
}

/* The member that has the keyword, for messages. */
static const json_t *member_with(const struct lls_schema_set *set, const char *one,
                                 const char *other)
{
  for (uint32_t i = 0; i < set->n; i++)
    if (lls_schema_get(set, i, one) != NULL || lls_schema_get(set, i, other) != NULL)
      return set->members[i].schema;
  return set->members[0].schema;
}

/* Tried again without the lengths where it cannot be held to them. */
static uint32_t by_expression(struct lls_schema *s, const struct lls_schema_set *set,
                              const struct wanted *wanted)
{
  struct lls_regex_use use = {.search = wanted->search,
                              .json = true,
                              .bounded = true,
                              .min = wanted->min,
                              .max = wanted->max};
  struct lls_error err = {0};
  int code = 0;
  size_t n = strlen(wanted->expression);
  uint32_t node =
      lls_grammar_regex(s->json.tree, wanted->expression, n, use, &code, &err);
  if (code == -ENOTSUP) {
    if (!lls_schema_leave_out(s, member_with(set, "minLength", "maxLength"),
                              wanted->min > 0 ? "minLength" : "maxLength",
                              "beside this pattern or format"))
      return LLS_GRAMMAR_NONE;
    use.bounded = false;
    node = lls_grammar_regex(s->json.tree, wanted->expression, n, use, &code, &err);
  }
  if (code == -EINVAL &&
      lls_schema_leave_out(s, member_with(set, "pattern", "format"), "pattern", err.text))
    return lls_grammar_repeat(s->json.tree, s->json.character, wanted->min, wanted->max);
  return node;
}

uint32_t lls_schema_string(struct lls_schema *s, const struct lls_schema_set *set)
{
  struct wanted wanted = {.max = LLS_GRAMMAR_UNBOUNDED};
  if (!read_wanted(s, set, &wanted))
    return LLS_GRAMMAR_NONE;
  if (wanted.min > wanted.max)
    return s->json.nothing;
  if (wanted.expression == NULL && wanted.min == 0 && wanted.max == LLS_GRAMMAR_UNBOUNDED)
    return s->json.string;
  uint32_t text =
      wanted.expression != NULL
          ? by_expression(s, set, &wanted)
          : lls_grammar_repeat(s->json.tree, s->json.character, wanted.min, wanted.max);
  return LLS_JSON_ROW(&s->json, s->json.quote, text, s->json.quote);
}
