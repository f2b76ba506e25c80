/* SPDX-License-Identifier: Apache-2.0 */
/* Reads shapes, the short form of schemas (openapi_answers.h). They are part of this
 * program, so mistakes in them are found by t/api/openapi_answers.t alone. */
#include "core/api/front/openapi_answers.h"

#include <string.h>

/* Characters that end a name. */
#define ENDS " :?|]}[{'"

static json_t *read_shape(const char **at);

static void skip_blanks(const char **at)
{
  *at += strspn(*at, " ");
}

/* Takes a character that is next. */
static void take(const char **at, char wanted)
{
  skip_blanks(at);
  if (**at == wanted)
    ++*at;
}

/* Reads "name:SHAPE", or "name?:SHAPE". */
static void read_member(const char **at, json_t *members, json_t *required)
{
  size_t n = strcspn(*at, ENDS);
  json_t *name = json_stringn(*at, n);
  *at += n;
  if (**at == '?')
    ++*at;
  else
    json_array_append(required, name);
  take(at, ':');
  json_object_set_new(members, json_string_value(name), read_shape(at));
  json_decref(name);
}

static json_t *read_object(const char **at)
{
  json_t *members = json_object(), *required = json_array(), *others = NULL;
  for (skip_blanks(at); **at != '}' && **at != '\0'; skip_blanks(at)) {
    if (**at == '*') {
      ++*at;
      others = read_shape(at);
    } else {
      read_member(at, members, required);
    }
  }
  take(at, '}');
  json_t *schema = json_pack("{s:s, s:o, s:o*}", "type", "object", "properties", members,
                             "additionalProperties", others);
  if (json_array_size(required) > 0)
    json_object_set(schema, "required", required);
  json_decref(required);
  return schema;
}

static json_t *read_word(const char **at)
{
  static const char *const types[] = {
      ['s'] = "string",  ['i'] = "integer", ['n'] = "number",
      ['b'] = "boolean", ['0'] = "null",    ['o'] = "object"};
  size_t n = strcspn(*at, ENDS);
  const char *word = *at;
  *at += n;
  if (n > 1)
    return json_pack("{s:o}", "$ref",
                     json_sprintf("#/components/schemas/%.*s", (int)n, word));
  unsigned char letter = (unsigned char)word[0];
  const char *type = letter < sizeof types / sizeof *types ? types[letter] : NULL;
  return type != NULL ? json_pack("{s:s}", "type", type) : json_object();
}

/* Reads one shape, without alternatives. */
static json_t *read_one(const char **at)
{
  skip_blanks(at);
  char first = **at;
  if (first != '{' && first != '[' && first != '\'')
    return read_word(at);
  ++*at;
  if (first == '{')
    return read_object(at);
  if (first == '\'') {
    size_t n = strcspn(*at, "'");
    json_t *schema = json_pack("{s:s, s:s%}", "type", "string", "const", *at, n);
    *at += n + 1;
    return schema;
  }
  json_t *schema = json_pack("{s:s, s:o}", "type", "array", "items", read_shape(at));
  take(at, ']');
  return schema;
}

static json_t *read_shape(const char **at)
{
  json_t *first = read_one(at);
  if (**at != '|')
    return first;
  json_t *all = json_pack("[o]", first);
  while (**at == '|') {
    ++*at;
    json_array_append_new(all, read_one(at));
  }
  return json_pack("{s:o}", "anyOf", all);
}

json_t *lls_openapi_shape(const char *shape)
{
  return read_shape(&shape);
}
