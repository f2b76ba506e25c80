/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the grammar of a structured answer from the request, through the cache of
 * grammars. */
#include "core/api/structured.h"

#include "core/api/api.h"
#include "core/base/json_parse.h"
#include "text/grammar/grammar_cache.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/lark.h"
#include "text/grammar/regex.h"
#include "text/grammar/structural_tag.h"
#include "text/tools/tool_grammar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int lls_structured_set(struct lls_structured *structured, enum lls_structured_kind kind,
                       json_t *value, const char *param, struct lls_api_error *error)
{
  if (structured->kind != LLS_STRUCTURED_NONE) {
    json_decref(value);
    return lls_api_fail(error, 400, NULL, param,
                        "'%s' stands beside '%s': an answer keeps to one of them", param,
                        structured->param);
  }
  structured->kind = kind;
  structured->strict = true;
  structured->value = value;
  snprintf(structured->param, sizeof structured->param, "%s", param);
  return 0;
}

/* Returns the JSON that build_form reads. */
static json_t *form_json(const struct lls_structured *structured)
{
  return json_pack("{s:i, s:b, s:O?}", "kind", (int)structured->kind, "strict",
                   structured->strict, "value", structured->value);
}

int lls_structured_set_answer(struct lls_structured *structured,
                              const struct lls_tool_constraint *constraint,
                              bool keeps_form, const char *param,
                              struct lls_api_error *error)
{
  json_t *value = lls_tool_constraint_json(constraint);
  bool has_form = structured->kind != LLS_STRUCTURED_NONE && keeps_form;
  bool made =
      value != NULL &&
      (!has_form || json_object_set_new(value, "form", form_json(structured)) == 0);
  if (!made) {
    json_decref(value);
    return lls_api_fail(error, 503, NULL, NULL, "out of memory");
  }
  json_decref(structured->value);
  structured->value = value;
  structured->kind = LLS_STRUCTURED_ANSWER;
  structured->strict = true;
  if (!has_form)
    snprintf(structured->param, sizeof structured->param, "%s", param);
  return 0;
}

void lls_structured_free(struct lls_structured *structured)
{
  json_decref(structured->value);
  *structured = (struct lls_structured){0};
}

bool lls_structured_is_likely(const struct lls_text *body)
{
  /* one of these is in every body that requests structure, or DRY, whose breakers are
   * searched in the vocabulary; however its JSON escapes names */
  static const char *const signs[] = {
      "json_schema\"", "json_object\"", "structured_outputs\"", "\"guided_",
      "grammar\"",     "tool_choice\"", "structural_tag\"",     "\"strict\"",
      "\"format\"",    "\\u00",         "dry_multiplier\""};
  if (body->length == 0)
    return false;
  for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
    if (memmem(body->data, body->length, signs[i], strlen(signs[i])) != NULL)
      return true;
  return false;
}

/* ---- trees ---- */

static uint32_t build_regex(struct lls_grammar_tree *tree, const json_t *value)
{
  struct lls_error err = {0};
  int code;
  uint32_t node =
      lls_grammar_regex(tree, json_string_value(value), json_string_length(value),
                        (struct lls_regex_use){0}, &code, &err);
  return node != LLS_GRAMMAR_NONE ? node : lls_grammar_fail(tree, "%s", err.text);
}

static uint32_t build_choice(struct lls_grammar_tree *tree, const json_t *values)
{
  size_t n = json_array_size(values), i;
  const json_t *value;
  uint32_t *parts = malloc((n + 1) * sizeof *parts);
  if (parts == NULL)
    return lls_grammar_fail(tree, "no memory for the choice");
  json_array_foreach((json_t *)values, i, value)
  {
    parts[i] =
        lls_grammar_literal(tree, json_string_value(value), json_string_length(value));
  }
  uint32_t node = lls_grammar_choice(tree, parts, (uint32_t)n);
  free(parts);
  return node;
}

static uint32_t build(struct lls_grammar_tree *tree, const void *context);

static uint32_t build_answer(struct lls_grammar_tree *tree, const json_t *value)
{
  const json_t *form = json_object_get(value, "form");
  uint32_t node = LLS_GRAMMAR_NONE;
  if (form != NULL) {
    const struct lls_structured inner = {
        .kind =
            (enum lls_structured_kind)json_integer_value(json_object_get(form, "kind")),
        .strict = json_is_true(json_object_get(form, "strict")),
        .value = json_object_get(form, "value")};
    node = build(tree, &inner);
    if (node == LLS_GRAMMAR_NONE)
      return node;
  }
  return lls_tool_grammar_of_json(tree, value, node);
}

static uint32_t build(struct lls_grammar_tree *tree, const void *context)
{
  const struct lls_structured *structured = context;
  const json_t *value = structured->value;
  switch (structured->kind) {
  case LLS_STRUCTURED_NONE:
    break;
  case LLS_STRUCTURED_OBJECT:
    return lls_grammar_json_object(tree);
  case LLS_STRUCTURED_SCHEMA:
    return lls_grammar_json_schema(tree, value, structured->strict);
  case LLS_STRUCTURED_REGEX:
    return build_regex(tree, value);
  case LLS_STRUCTURED_CHOICE:
    return build_choice(tree, value);
  case LLS_STRUCTURED_GRAMMAR:
    return lls_grammar_text(tree, json_string_value(value), json_string_length(value));
  case LLS_STRUCTURED_TAG:
    return lls_grammar_structural_tag(tree, value);
  case LLS_STRUCTURED_ANSWER:
    return build_answer(tree, value);
  }
  return LLS_GRAMMAR_NONE;
}

/* ---- the cache ---- */

/* Returns the cache key of a grammar: its kind, and the JSON that it is built from. */
static char *key_of(const struct lls_structured *structured)
{
  char *json = structured->value == NULL
                   ? strdup("")
                   : json_dumps(structured->value, JSON_ENCODE_ANY | JSON_COMPACT);
  size_t n = json == NULL ? 0 : strlen(json);
  char *key = json == NULL ? NULL : malloc(n + 3);
  if (key != NULL) {
    key[0] = (char)('0' + structured->kind);
    key[1] = structured->strict ? 's' : 'l';
    memcpy(key + 2, json, n + 1);
  }
  free(json);
  return key;
}

static int refuse(int code, const char *param, const struct lls_error *err,
                  struct lls_api_error *error)
{
  if (code == -ENOMEM)
    return lls_api_fail(error, 503, NULL, NULL, "out of memory");
  if (code == -E2BIG || code == -ETIME)
    return lls_api_fail(error, 400, "grammar_too_large", param,
                        "'%s' takes more than an answer's grammar may: %s", param,
                        lls_error_text(err, code));
  return lls_api_fail(error, 400, "invalid_grammar", param, "'%s': %s", param,
                      lls_error_text(err, code));
}

int lls_structured_compile(const struct lls_api_config *config,
                           const struct lls_structured *structured,
                           struct lls_grammar **out, struct lls_api_error *error)
{
  struct lls_error err = {0};
  *out = NULL;
  if (structured->kind == LLS_STRUCTURED_NONE)
    return 0;
  if (config->grammars == NULL)
    return lls_api_fail(error, 400, "unsupported_parameter", structured->param,
                        "'%s' is not supported by this server", structured->param);
  char *key = key_of(structured);
  if (key == NULL)
    return lls_api_fail(error, 503, NULL, NULL, "out of memory");
  int rc = lls_grammar_cache_get(config->grammars, key, strlen(key), build, structured,
                                 out, &err);
  free(key);
  return rc == 0 ? 0 : refuse(rc, structured->param, &err, error);
}

int lls_structured_from_key(struct lls_grammar_cache *grammars, const char *key, size_t n,
                            struct lls_grammar **out, struct lls_error *err)
{
  struct lls_structured structured = {.kind = LLS_STRUCTURED_NONE};
  if (n < 2)
    return lls_fail(err, -EINVAL, "no grammar has such a key");
  structured.kind = (enum lls_structured_kind)(key[0] - '0');
  structured.strict = key[1] == 's';
  if (n > 2)
    structured.value =
        lls_json_parse(key + 2, n - 2, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
  int rc = lls_grammar_cache_get(grammars, key, n, build, &structured, out, err);
  lls_structured_free(&structured);
  return rc;
}
