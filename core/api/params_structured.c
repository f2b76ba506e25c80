/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the parameters of structured output, under the names that OpenAI, vLLM and
 * llama.cpp use. */
#include "core/api/params_internal.h"
#include "core/base/json_cost.h"

#include <stdio.h>
#include <string.h>

static int expected(const char *what, const char *name, const json_t *value,
                    struct lls_api_error *error)
{
  char shown[48];
  return lls_api_fail(error, 400, NULL, name, "'%s' must be %s, not %s", name, what,
                      lls_json_excerpt(value, shown, sizeof shown));
}

/* Reads a JSON schema: an object, or its text, which clients of vLLM and llama.cpp
 * send. */
static int set_schema(const json_t *value, const char *name, struct lls_api_params *out,
                      struct lls_api_error *error)
{
  json_t *schema =
      json_is_string(value)
          ? lls_json_load(json_string_value(value), json_string_length(value),
                          JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
          : json_incref((json_t *)value);
  if (!json_is_object(schema) && !json_is_boolean(schema)) {
    json_decref(schema);
    return expected("a JSON Schema", name, value, error);
  }
  return lls_structured_set(&out->structured, LLS_STRUCTURED_SCHEMA, schema, name, error);
}

int lls_param_schema(const json_t *value, const char *name,
                     const struct lls_params_context *context, struct lls_api_params *out,
                     struct lls_api_error *error)
{
  (void)context;
  if (json_is_object(value) && json_object_size(value) == 0 &&
      strcmp(name, "json_schema") == 0)
    return 0; /* clients of llama.cpp send an empty one for no schema */
  return set_schema(value, name, out, error);
}

/* Reads a structural tag: an object, or its text, which clients of vLLM send. */
static int set_tag(const json_t *value, const char *name, struct lls_api_params *out,
                   struct lls_api_error *error)
{
  json_t *tag = json_is_string(value)
                    ? lls_json_load(json_string_value(value), json_string_length(value),
                                    JSON_ALLOW_NUL, NULL)
                    : json_incref((json_t *)value);
  if (!json_is_object(tag)) {
    json_decref(tag);
    return expected("a structural tag, or its text", name, value, error);
  }
  return lls_structured_set(&out->structured, LLS_STRUCTURED_TAG, tag, name, error);
}

static int set_text(const json_t *value, const char *name, enum lls_structured_kind kind,
                    struct lls_api_params *out, struct lls_api_error *error)
{
  if (!json_is_string(value))
    return expected("a string", name, value, error);
  if (json_string_length(value) == 0) /* an empty text means none */
    return 0;
  return lls_structured_set(&out->structured, kind, json_incref((json_t *)value), name,
                            error);
}

int lls_param_regex(const json_t *value, const char *name,
                    const struct lls_params_context *context, struct lls_api_params *out,
                    struct lls_api_error *error)
{
  (void)context;
  return set_text(value, name, LLS_STRUCTURED_REGEX, out, error);
}

int lls_param_grammar(const json_t *value, const char *name,
                      const struct lls_params_context *context,
                      struct lls_api_params *out, struct lls_api_error *error)
{
  (void)context;
  return set_text(value, name, LLS_STRUCTURED_GRAMMAR, out, error);
}

int lls_param_choice(const json_t *value, const char *name,
                     const struct lls_params_context *context, struct lls_api_params *out,
                     struct lls_api_error *error)
{
  (void)context;
  size_t i;
  const json_t *text;
  if (!json_is_array(value))
    return expected("an array of strings", name, value, error);
  json_array_foreach((json_t *)value, i, text)
  {
    if (!json_is_string(text))
      return expected("an array of strings", name, value, error);
  }
  if (json_array_size(value) == 0)
    return 0;
  return lls_structured_set(&out->structured, LLS_STRUCTURED_CHOICE,
                            json_incref((json_t *)value), name, error);
}

static int read_object(const json_t *value, const char *name, struct lls_api_params *out,
                       struct lls_api_error *error)
{
  if (json_is_false(value))
    return 0;
  if (!json_is_true(value))
    return expected("a boolean", name, value, error);
  return lls_structured_set(&out->structured, LLS_STRUCTURED_OBJECT, NULL, name, error);
}

/* ---- structured_outputs ---- */

/* True for vLLM's members about white space and JSON names, which are ignored: they are
 * not settings here. */
static bool is_passed(const char *key)
{
  static const char *const passed[] = {"whitespace_pattern", "disable_any_whitespace",
                                       "disable_fallback", "backend"};
  for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++)
    if (strcmp(passed[i], key) == 0)
      return true;
  return false;
}

static int read_member(const char *key, const json_t *value,
                       const struct lls_params_context *context,
                       struct lls_api_params *out, struct lls_api_error *error)
{
  char name[64];
  snprintf(name, sizeof name, "structured_outputs.%.40s", key);
  if (is_passed(key) && context->on_unknown != NULL && !lls_param_asks_nothing(value))
    context->on_unknown(context->on_unknown_context, name);
  if (json_is_null(value) || is_passed(key))
    return 0;
  if (strcmp(key, "disable_additional_properties") == 0 && json_is_false(value))
    return 0;
  if (strcmp(key, "disable_additional_properties") == 0)
    return lls_api_fail(error, 400, "unsupported_parameter", name,
                        "'%s' is not supported: write \"additionalProperties\": false "
                        "into the schema",
                        name);
  if (strcmp(key, "json") == 0)
    return set_schema(value, name, out, error);
  if (strcmp(key, "regex") == 0)
    return lls_param_regex(value, name, context, out, error);
  if (strcmp(key, "choice") == 0)
    return lls_param_choice(value, name, context, out, error);
  if (strcmp(key, "grammar") == 0 && json_is_string(value) &&
      json_string_length(value) == 0)
    return lls_api_fail(error, 400, NULL, name, "'%s' must not be empty", name);
  if (strcmp(key, "grammar") == 0)
    return lls_param_grammar(value, name, context, out, error);
  if (strcmp(key, "json_object") == 0)
    return read_object(value, name, out, error);
  if (strcmp(key, "structural_tag") == 0)
    return set_tag(value, name, out, error);
  return lls_api_fail(error, 400, "unknown_parameter", name,
                      "'%s' is no part of 'structured_outputs', which knows json, regex, "
                      "choice, grammar, json_object, structural_tag",
                      name);
}

int lls_param_structured_outputs(const json_t *value, const char *name,
                                 const struct lls_params_context *context,
                                 struct lls_api_params *out, struct lls_api_error *error)
{
  const char *key;
  json_t *member;
  if (!json_is_object(value))
    return expected("an object", name, value, error);
  json_object_foreach((json_t *)value, key, member)
  {
    if (read_member(key, member, context, out, error) != 0)
      return -1;
  }
  return 0;
}

/* ---- response_format ---- */

/* Reads OpenAI's {"json_schema": {"schema": ..., "strict": ...}}, or llama.cpp's form
 * with the schema next to the type. Without "strict" OpenAI's form is not strict, and
 * llama.cpp's is. */
static int read_schema_format(const json_t *format, struct lls_api_params *out,
                              struct lls_api_error *error)
{
  const json_t *inner = json_object_get(format, "json_schema");
  const json_t *schema = json_object_get(inner != NULL ? inner : format, "schema");
  const json_t *strict = json_object_get(inner != NULL ? inner : format, "strict");
  const char *name =
      inner != NULL ? "response_format.json_schema.schema" : "response_format.schema";
  if (inner != NULL && !json_is_object(inner))
    return expected("an object", "response_format.json_schema", inner, error);
  if (strict != NULL && !json_is_null(strict) && !json_is_boolean(strict))
    return expected("a boolean", "response_format.json_schema.strict", strict, error);
  if (schema == NULL || json_is_null(schema)) {
    name = inner != NULL ? name : "response_format.json_schema";
    return lls_api_fail(error, 400, NULL, name, "'%s' is missing", name);
  }
  if (set_schema(schema, name, out, error) != 0)
    return -1;
  out->structured.strict = json_is_boolean(strict) ? json_is_true(strict) : inner == NULL;
  return 0;
}

/* Reads TGI's {"type": "json" or "json_object" or "regex", "value": ...}. */
static int read_value_format(const json_t *format, const char *type,
                             struct lls_api_params *out, struct lls_api_error *error)
{
  const json_t *value = json_object_get(format, "value");
  if (strcmp(type, "regex") == 0)
    return set_text(value, "response_format.value", LLS_STRUCTURED_REGEX, out, error);
  return set_schema(value, "response_format.value", out, error);
}

int lls_param_response_format(const json_t *value, const char *name,
                              const struct lls_params_context *context,
                              struct lls_api_params *out, struct lls_api_error *error)
{
  const char *type = json_string_value(json_object_get(value, "type"));
  (void)context;
  if (type != NULL && strcmp(type, "text") == 0)
    return 0;
  if (type != NULL && json_object_get(value, "value") != NULL &&
      (strncmp(type, "json", 4) == 0 || strcmp(type, "regex") == 0))
    return read_value_format(value, type, out, error);
  if (type != NULL && strcmp(type, "json_schema") == 0)
    return read_schema_format(value, out, error);
  if (type != NULL && strcmp(type, "json_object") == 0)
    return json_object_get(value, "schema") != NULL
               ? read_schema_format(value, out, error)
               : lls_structured_set(&out->structured, LLS_STRUCTURED_OBJECT, NULL, name,
                                    error);
  if (type != NULL && strcmp(type, "structural_tag") == 0)
    return set_tag(value, name, out, error);
  if (type != NULL && strcmp(type, "grammar") == 0)
    return lls_api_fail(error, 400, "unsupported_parameter", name,
                        "'response_format' of type \"%s\" is not supported", type);
  return lls_api_fail(error, 400, NULL, name,
                      "'response_format' must be an object with a 'type' of \"text\", "
                      "\"json_object\", \"json_schema\" or \"structural_tag\"");
}
