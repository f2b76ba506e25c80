/* SPDX-License-Identifier: Apache-2.0 */
/* Describes the parameters of bodies as JSON Schema, from the tables that read them. */
#include <string.h>

#include "core/api/params_internal.h"

#define MOST_TYPES 4
#define MOST_NAME  16

/* The JSON types of the parameters that have a reader of their own. */
static const struct {
  const char *name, *types;
} shapes[] = {
    {"model", "string"},
    {"logit_bias", "object|array"},
    {"allowed_token_ids", "array"},
    {"bad_words", "array"},
    {"prediction", "object"},
    {"lora", "array"},
    {"logprob_token_ids", "array"},
    {"chat_template", "string"},
    {"seed", "integer"},
    {"stop", "string|array"},
    {"stop_regex", "string|array"},
    {"stop_token_ids", "array"},
    {"dry_sequence_breakers", "array"},
    {"samplers", "string|array"},
    {"truncation_side", "string"},
    {"parse_special", "boolean"},
    {"service_tier", "string"},
    {"class", "string"},
    {"user", "string"},
    {"cache_salt", "string"},
    {"prompt_cache_key", "string"},
    {"prompt_cache_retention", "string"},
    {"encoding_format", "string"},
    {"response_format", "object"},
    {"structured_outputs", "object"},
    {"guided_json", "object|string|boolean"},
    {"guided_regex", "string"},
    {"guided_choice", "array"},
    {"guided_grammar", "string"},
    {"grammar", "string"},
    {"regex", "string"},
    {"ebnf", "string"},
    {"json_schema", "object|string|boolean"},
    {"modalities", "array"},
    {"tools", "array"},
    {"tool_choice", "string|object"},
    {"prompt", "string|array"},
    {"messages", "array"},
    {"documents", "array"},
    {"chat_template_kwargs", "object"},
    {"input", "string|array"},
    {"query", "string|object"},
    {"text_1", "string|array|object"},
    {"text_2", "string|array|object"},
    {"content", "string"},
    {"tokens", "array"},
};

/* Adds the words of `types` to an array. null asks for nothing, so it is valid, too. */
json_t *lls_schema_of_types(const char *types)
{
  json_t *list = json_array();
  if (types == NULL || types[0] == '\0') {
    json_decref(list);
    return json_object();
  }
  while (*types != '\0') {
    size_t n = strcspn(types, "|");
    json_array_append_new(list, json_stringn(types, n));
    types += n + (types[n] == '|');
  }
  json_array_append_new(list, json_string("null"));
  return json_pack("{s:o}", "type", list);
}

static const char *types_of(const struct lls_row *row)
{
  static const char *const types[] = {[LLS_ROW_BOOLEAN] = "boolean",
                                      [LLS_ROW_INTEGER] = "integer",
                                      [LLS_ROW_NUMBER] = "number",
                                      [LLS_ROW_MILLISECONDS] = "number",
                                      [LLS_ROW_OBJECT] = "object"};
  if (row->type != LLS_ROW_SPECIAL)
    return types[row->type];
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    if (strcmp(shapes[i].name, row->name) == 0)
      return shapes[i].types;
  return "";
}

static void put_range(json_t *schema, const struct lls_row *row)
{
  double least = row->endless ? -1 : row->min;
  bool whole = row->type == LLS_ROW_INTEGER;
  json_object_set_new(schema, "minimum",
                      whole ? json_integer((json_int_t)least) : json_real(least));
  if (row->max < LLS_PARAM_ENDLESS)
    json_object_set_new(schema, "maximum",
                        whole ? json_integer((json_int_t)row->max) : json_real(row->max));
}

/* Describes the members that params_prediction.c reads. */
static json_t *prediction_members(void)
{
  json_t *type = lls_schema_of_types("string");
  json_object_set_new(type, "enum", json_pack("[s, n]", "content"));
  return json_pack("{s:o, s:o}", "type", type, "content",
                   lls_schema_of_types("string|array"));
}

static json_t *schema_of(const struct lls_row *row)
{
  json_t *schema = lls_schema_of_types(types_of(row));
  if (strcmp(row->name, "prediction") == 0)
    json_object_set_new(schema, "properties", prediction_members());
  if (row->type == LLS_ROW_INTEGER || row->type == LLS_ROW_NUMBER ||
      row->type == LLS_ROW_MILLISECONDS)
    put_range(schema, row);
  if (row->type != LLS_ROW_OBJECT)
    return schema;
  json_t *members = json_object();
  for (const struct lls_row *member = row->members; member->name != NULL; member++)
    json_object_set_new(members, member->name, schema_of(member));
  json_object_set_new(schema, "properties", members);
  if (row->ours)
    json_object_set_new(schema, "additionalProperties", json_false());
  return schema;
}

json_t *lls_params_schema(enum lls_endpoint endpoint)
{
  json_t *members = json_object();
  const char *name;
  unsigned endpoints;
  for (size_t i = 0; lls_param_elsewhere(i, &name, &endpoints); i++) {
    const struct lls_row row = {.name = name, .type = LLS_ROW_SPECIAL};
    if ((endpoints & endpoint) != 0)
      json_object_set_new(members, name, schema_of(&row));
  }
  for (const struct lls_row *row = lls_param_rows; row->name != NULL; row++)
    if ((row->endpoints & endpoint) != 0)
      json_object_set_new(members, row->name, schema_of(row));
  return members;
}

json_t *lls_params_refused(enum lls_endpoint endpoint)
{
  json_t *names = json_array();
  const char *name;
  unsigned endpoints;
  for (size_t i = 0; lls_param_refused_row(i, &name, &endpoints); i++)
    if ((endpoints & endpoint) != 0)
      json_array_append_new(names, json_string(name));
  return names;
}
