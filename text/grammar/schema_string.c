/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: their lengths, their patterns and their formats. */
#include "text/grammar/regex.h"
#include "text/grammar/regex_product.h"
#include "text/grammar/schema_compile.h"
#include "text/grammar/schema_made.h"

#include <errno.h>
#include <string.h>

#define MOST_OTHERS 512

/* Everything that a set demands of a string's text. */
struct wanted {
  uint32_t min, max;
  /* patterns, which may match anywhere, and formats, which match the whole text */
  struct lls_product_term terms[LLS_PRODUCT_TERMS]; /* (n) */
  uint32_t n;
  const char *others[MOST_OTHERS]; /* (n_others) excluded texts */
  uint32_t n_others;
  bool none; /* no text is valid */
};

/* Adds a term. Its expression may be NULL. */
static bool want(struct lls_schema *s, const json_t *schema, const char *keyword,
                 struct lls_product_term term, struct wanted *wanted)
{
  if (term.pattern == NULL ||
      (!term.outside && term.search && lls_regex_is_in_all(s->json.tree, term.pattern)))
    return true;
  for (uint32_t i = 0; i < wanted->n; i++)
    if (wanted->terms[i].search == term.search &&
        wanted->terms[i].outside == term.outside &&
        strcmp(wanted->terms[i].pattern, term.pattern) == 0)
      return true;
  if (wanted->n == LLS_PRODUCT_TERMS)
    return lls_schema_leave_out(s, schema, keyword,
                                "beside so many patterns and formats");
  wanted->terms[wanted->n++] = term;
  return true;
}

/* Adds a format, or its opposite. An unknown format allows every text, so its opposite
 * allows none. */
static bool want_format(struct lls_schema *s, const json_t *schema, bool outside,
                        struct wanted *wanted)
{
  const char *name = json_string_value(json_object_get(schema, "format"));
  bool standard = false;
  if (name == NULL)
    return true;
  const char *expression = lls_schema_format(name, &standard);
  wanted->none |= expression == NULL && !standard && outside;
  if (expression == NULL)
    return !standard || lls_schema_leave_out(s, schema, "format", name);
  return want(s, schema, "format",
              (struct lls_product_term){.pattern = expression, .outside = outside},
              wanted);
}

/* Adds the excluded texts and terms of a `not` made by schema_negation.c. */
static bool want_others(struct lls_schema *s, const json_t *schema, struct wanted *wanted)
{
  const json_t *opposite = json_object_get(schema, "not"), *text;
  size_t index;
  json_array_foreach(json_object_get(opposite, "enum"), index, text)
  {
    if (wanted->n_others == MOST_OTHERS ||
        strlen(json_string_value(text)) != json_string_length(text))
      return lls_schema_leave_out(s, schema, "not", "with so many constants");
    wanted->others[wanted->n_others++] = json_string_value(text);
  }
  struct lls_product_term term = {
      .pattern = json_string_value(json_object_get(opposite, "pattern")),
      .search = true,
      .outside = true};
  return want(s, schema, "not", term, wanted) && want_format(s, opposite, true, wanted);
}

static bool read_wanted(struct lls_schema *s, const struct lls_schema_set *set,
                        struct wanted *wanted)
{
  for (uint32_t i = 0; i < set->n; i++) {
    const json_t *schema = set->members[i].schema;
    const json_t *pattern = json_object_get(schema, "pattern");
    if (pattern != NULL && !json_is_string(pattern))
      return !lls_schema_fail(s, schema, "'pattern' must be a string");
    struct lls_product_term term = {.pattern = json_string_value(pattern),
                                    .search = true};
    if (pattern != NULL && !lls_schema_check_pattern(s, schema, "pattern", term.pattern))
      return false;
    if (!want(s, schema, "pattern", term, wanted) ||
        !want_format(s, schema, false, wanted) ||
        (lls_schema_has_mark(s, schema, LLS_SCHEMA_PLAIN_NOT) &&
         !want_others(s, schema, wanted)))
      return false;
  }
  return lls_schema_count(s, set, "minLength", true, &wanted->min) &&
         lls_schema_count(s, set, "maxLength", false, &wanted->max);
}

/* Returns the member that has one of the keywords, for messages. */
static const json_t *member_with(const struct lls_schema_set *set, const char *one,
                                 const char *other)
{
  for (uint32_t i = 0; i < set->n; i++)
    if (lls_schema_get(set, i, one) != NULL || lls_schema_get(set, i, other) != NULL)
      return set->members[i].schema;
  return set->members[0].schema;
}

/* Builds a single expression with bounds on its length, which is simpler than a
 * product. */
static uint32_t by_one(struct lls_schema *s, const struct wanted *wanted, bool bounded,
                       bool narrow, int *code, struct lls_error *err)
{
  struct lls_regex_use use = {.search = wanted->terms[0].search,
                              .json = true,
                              .bounded = bounded,
                              .narrow = narrow,
                              .min = wanted->min,
                              .max = wanted->max};
  return lls_grammar_regex(s->json.tree, wanted->terms[0].pattern,
                           strlen(wanted->terms[0].pattern), use, code, err);
}

static uint32_t by_all(struct lls_schema *s, const struct lls_schema_set *set,
                       const struct wanted *wanted, int *code, struct lls_error *err)
{
  struct lls_product product = {.n = wanted->n,
                                .others = wanted->others,
                                .n_others = wanted->n_others,
                                .min = wanted->min,
                                .max = wanted->max,
                                .json = true,
                                .nothing = s->json.nothing};
  memcpy(product.terms, wanted->terms, sizeof product.terms);
  return lls_schema_texts(s, set->members[0].schema, &product, code, err);
}

/* Replaces formats by expressions for some of their texts. Returns false if there is
 * none for one of them. */
static bool want_some(const struct wanted *from, bool brief, struct wanted *wanted)
{
  bool any = false;
  *wanted = *from;
  for (uint32_t i = 0; i < wanted->n; i++) {
    struct lls_product_term *term = &wanted->terms[i];
    const char *some = lls_schema_format_some(term->pattern, brief);
    if (some != NULL && term->outside)
      return false;
    term->pattern = some != NULL ? some : term->pattern;
    any |= some != NULL;
  }
  return any;
}

/* Builds the string with formats that need not have all of their texts. */
static uint32_t by_some(struct lls_schema *s, const struct lls_schema_set *set,
                        const struct wanted *from, int *code, struct lls_error *err)
{
  struct wanted wanted;
  uint32_t node = LLS_GRAMMAR_NONE;
  if (*code == -ENOTSUP && want_some(from, false, &wanted))
    node = by_all(s, set, &wanted, code, err);
  if (*code == -ENOTSUP && from->n == 1 && from->n_others == 0 &&
      want_some(from, true, &wanted))
    node = by_one(s, &wanted, true, true, code, err);
  return node;
}

/* If all expressions together cannot be supported, the first one alone is tried. */
static uint32_t by_expressions(struct lls_schema *s, const struct lls_schema_set *set,
                               const struct wanted *wanted)
{
  struct lls_error err = {0};
  int code = -ENOTSUP;
  uint32_t node = LLS_GRAMMAR_NONE;
  if (wanted->n == 1 && wanted->n_others == 0 && !wanted->terms[0].outside)
    node = by_one(s, wanted, true, false, &code, &err);
  if (code == -ENOTSUP)
    node = by_all(s, set, wanted, &code, &err);
  if (code == -ENOTSUP)
    node = by_some(s, set, wanted, &code, &err);
  if (code == -ENOTSUP) {
    const char *keyword = wanted->n > 1     ? "pattern"
                          : wanted->min > 0 ? "minLength"
                                            : "maxLength";
    if (!lls_schema_leave_out(s, member_with(set, keyword, "format"), keyword,
                              wanted->n > 1 ? "beside another pattern or format"
                                            : "beside this pattern or format"))
      return LLS_GRAMMAR_NONE;
    node = by_one(s, wanted, false, false, &code, &err);
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
  if (wanted.min > wanted.max || wanted.none)
    return s->json.nothing;
  if (wanted.n == 0 && wanted.min == 0 && wanted.max == LLS_GRAMMAR_UNBOUNDED)
    return wanted.n_others == 0
               ? s->json.string
               : lls_json_string_but(&s->json, wanted.others, wanted.n_others);
  uint32_t text =
      wanted.n + wanted.n_others > 0
          ? by_expressions(s, set, &wanted)
          : lls_grammar_repeat(s->json.tree, s->json.character, wanted.min, wanted.max);
  return LLS_JSON_ROW(&s->json, s->json.quote, text, s->json.quote);
}
