/* SPDX-License-Identifier: Apache-2.0 */
/* See tool_types.h. Keywords that are not understood do not restrict the types. */
#include "text/tools/tool_types.h"

#include <string.h>

#define MOST_DEPTH 16

static unsigned types_of(const json_t *root, const json_t *schema, unsigned depth);

static unsigned by_name(const json_t *name)
{
  static const struct {
    const char *name;
    unsigned types;
  } all[] = {{"string", LLS_TOOL_TYPE_STRING},  {"integer", LLS_TOOL_TYPE_NUMBER},
             {"number", LLS_TOOL_TYPE_NUMBER},  {"boolean", LLS_TOOL_TYPE_BOOLEAN},
             {"null", LLS_TOOL_TYPE_NULL},      {"object", LLS_TOOL_TYPE_STRUCTURE},
             {"array", LLS_TOOL_TYPE_STRUCTURE}};
  const char *text = json_string_value(name);
  for (size_t i = 0; text != NULL && i < sizeof all / sizeof *all; i++)
    if (strcmp(text, all[i].name) == 0)
      return all[i].types;
  return LLS_TOOL_TYPE_ANY;
}

static unsigned of_value(const json_t *value)
{
  switch (json_typeof(value)) {
  case JSON_STRING:
    return LLS_TOOL_TYPE_STRING;
  case JSON_INTEGER:
  case JSON_REAL:
    return LLS_TOOL_TYPE_NUMBER;
  case JSON_TRUE:
  case JSON_FALSE:
    return LLS_TOOL_TYPE_BOOLEAN;
  case JSON_NULL:
    return LLS_TOOL_TYPE_NULL;
  default:
    return LLS_TOOL_TYPE_STRUCTURE;
  }
}

/* "type": a name or a list of names. */
static unsigned by_type(const json_t *type)
{
  unsigned types = 0;
  size_t i;
  const json_t *name;
  if (!json_is_array(type))
    return type != NULL ? by_name(type) : LLS_TOOL_TYPE_ANY;
  json_array_foreach((json_t *)type, i, name) types |= by_name(name);
  return types;
}

static unsigned by_values(const json_t *schema)
{
  const json_t *constant = json_object_get(schema, "const"), *value;
  unsigned types = 0;
  size_t i;
  if (constant != NULL)
    return of_value(constant);
  json_array_foreach(json_object_get(schema, "enum"), i, value) types |= of_value(value);
  return types != 0 ? types : LLS_TOOL_TYPE_ANY;
}

/* Returns the types of all branches together. */
static unsigned by_branches(const json_t *root, const json_t *branches, unsigned depth)
{
  unsigned types = 0;
  size_t i;
  const json_t *branch;
  json_array_foreach((json_t *)branches, i, branch) types |=
      types_of(root, branch, depth);
  return json_array_size(branches) > 0 ? types : LLS_TOOL_TYPE_ANY;
}

/* Resolves "#/$defs/name" in the tool's parameters; NULL for any other reference. */
static const json_t *follow(const json_t *root, const char *reference)
{
  char step[128];
  if (reference == NULL || *reference++ != '#')
    return NULL;
  const json_t *at = root;
  while (at != NULL && *reference == '/') {
    size_t n = strcspn(++reference, "/");
    if (n >= sizeof step)
      return NULL;
    memcpy(step, reference, n);
    step[n] = '\0';
    reference += n;
    at = json_object_get(at, step);
  }
  return at;
}

static unsigned types_of(const json_t *root, const json_t *schema, unsigned depth)
{
  size_t i;
  const json_t *branch;
  if (!json_is_object(schema) || depth == MOST_DEPTH)
    return LLS_TOOL_TYPE_ANY;
  unsigned types = by_type(json_object_get(schema, "type")) & by_values(schema);
  types &= by_branches(root, json_object_get(schema, "anyOf"), depth + 1);
  types &= by_branches(root, json_object_get(schema, "oneOf"), depth + 1);
  json_array_foreach(json_object_get(schema, "allOf"), i, branch) types &=
      types_of(root, branch, depth + 1);
  const json_t *named = follow(root, json_string_value(json_object_get(schema, "$ref")));
  if (named != NULL)
    types &= types_of(root, named, depth + 1);
  if (json_is_true(json_object_get(schema, "nullable")) && types != LLS_TOOL_TYPE_ANY)
    types |= LLS_TOOL_TYPE_NULL;
  return types != 0 ? types : LLS_TOOL_TYPE_ANY;
}

unsigned lls_tool_types(const json_t *parameters, const json_t *schema)
{
  return types_of(parameters, schema, 0);
}
