/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: their lengths, their patterns and their formats. */
#include "core/grammar/regex.h"
#include "core/grammar/regex_product.h"
#include "core/grammar/schema_compile.h"

#include <errno.h>
#include <string.h>

/* All that a set asks of a string's text. */
struct wanted {
  uint32_t min, max;
  /* patterns, which are searched, and formats, which are the whole text */
  struct lls_product_term terms[LLS_PRODUCT_TERMS]; /* (n) */
  uint32_t n;
};

static bool want(struct lls_schema *s, const json_t *schema, const char *keyword,
                 const char *expression, bool search, struct wanted *wanted)
{
  if (expression == NULL)
    return true;
  for (uint32_t i = 0; i < wanted->n; i++)
    if (wanted->terms[i].search == search &&
        strcmp(wanted->terms[i].pattern, expression) == 0)
      return true;
  if (wanted->n == LLS_PRODUCT_TERMS)
    return lls_schema_leave_out(s, schema, keyword,
                                "beside so many patterns and formats");
  wanted->terms[wanted->n++] =
      (struct lls_product_term){.pattern = expression, .search = search};
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

/* One expression and lengths it can be held to are simpler than a product. */
static uint32_t by_one(struct lls_schema *s, const struct wanted *wanted, bool bounded,
                       int *code, struct lls_error *err)
{
  struct lls_regex_use use = {.search = wanted->terms[0].search,
                              .json = true,
                              .bounded = bounded,
                              .min = wanted->min,
                              .max = wanted->max};
  return lls_grammar_regex(s->json.tree, wanted->terms[0].pattern,
                           strlen(wanted->terms[0].pattern), use, code, err);
}

static uint32_t by_all(struct lls_schema *s, const struct lls_schema_set *set,
                       const struct wanted *wanted, int *code, struct lls_error *err)
{
  struct lls_product product = {.n = wanted->n,
                                .min = wanted->min,
                                .max = wanted->max,
                                .json = true,
                                .nothing = s->json.nothing};
  memcpy(product.terms, wanted->terms, sizeof product.terms);
  return lls_schema_texts(s, set->members[0].schema, &product, code, err);
}

/* Tried again with the first expression alone where all together cannot be kept. */
static uint32_t by_expressions(struct lls_schema *s, const struct lls_schema_set *set,
                               const struct wanted *wanted)
{
  struct lls_error err = {0};
  int code = -ENOTSUP;
  uint32_t node = LLS_GRAMMAR_NONE;
  if (wanted->n == 1)
    node = by_one(s, wanted, true, &code, &err);
  if (code == -ENOTSUP)
    node = by_all(s, set, wanted, &code, &err);
  if (code == -ENOTSUP) {
    const char *keyword = wanted->n > 1     ? "pattern"
                          : wanted->min > 0 ? "minLength"
                                            : "maxLength";
    if (!lls_schema_leave_out(s, member_with(set, keyword, "format"), keyword,
                              wanted->n > 1 ? "beside another pattern or format"
                                            : "beside this pattern or format"))
      return LLS_GRAMMAR_NONE;
    node = by_one(s, wanted, false, &code, &err);
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
  if (wanted.n == 0 && wanted.min == 0 && wanted.max == LLS_GRAMMAR_UNBOUNDED)
    return s->json.string;
  uint32_t text = wanted.n > 0 ? by_expressions(s, set, &wanted)
                               : lls_grammar_repeat(s->json.tree, s->json.character,
                                                    wanted.min, wanted.max);
  return LLS_JSON_ROW(&s->json, s->json.quote, text, s->json.quote);
}
