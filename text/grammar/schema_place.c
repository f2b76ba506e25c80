/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves and writes JSON pointers (RFC 6901) in a schema's document. */
#include "text/grammar/schema_place.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 256 /* levels searched */

/* ---- resolving ---- */

static int hex(char c)
{
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* Decodes one step of a pointer (%, ~0, ~1). Returns the text after it. */
static const char *take_step(const char *from, char *step)
{
  for (; *from != '\0' && *from != '/'; from++) {
    *step = *from;
    if (*from == '%' && hex(from[1]) >= 0 && hex(from[2]) >= 0) {
      *step = (char)(hex(from[1]) * 16 + hex(from[2]));
      from += 2;
    }
    if (*step == '~' && (from[1] == '0' || from[1] == '1'))
      *step = *++from == '0' ? '~' : '/';
    step++;
  }
  *step = '\0';
  return from;
}

static const json_t *follow(const json_t *at, const char *pointer)
{
  char *step = malloc(strlen(pointer) + 1);
  while (step != NULL && at != NULL && *pointer == '/') {
    pointer = take_step(pointer + 1, step);
    at = json_is_array(at) ? json_array_get(at, strtoul(step, NULL, 10))
                           : json_object_get(at, step);
  }
  free(step);
  return step == NULL || *pointer != '\0' ? NULL : at;
}

static bool is_called(const json_t *schema, const char *keyword, const char *name)
{
  const char *is = json_string_value(json_object_get(schema, keyword));
  return is != NULL && strcmp(is, name) == 0;
}

/* Returns the schema at or below `at` whose $id or anchor is `name`. */
static const json_t *find_called(const json_t *at, const char *name, unsigned depth)
{
  const json_t *found = NULL, *child;
  const char *key;
  size_t index;
  const char *anchor = name[0] == '#' ? name + 1 : name;
  if (depth == DEEPEST)
    return NULL;
  if (is_called(at, "$id", name) || is_called(at, "id", name) ||
      (anchor != name && is_called(at, "$anchor", anchor)))
    return at;
  if (json_is_array(at))
    json_array_foreach((json_t *)at, index, child)
    {
      if (found == NULL)
        found = find_called(child, name, depth + 1);
    }
  else if (json_is_object(at))
    json_object_foreach((json_t *)at, key, child)
    {
      if (found == NULL && strcmp(key, "enum") != 0 && strcmp(key, "const") != 0)
        found = find_called(child, name, depth + 1);
    }
  return found;
}

const json_t *lls_schema_resolve(const json_t *root, const char *ref)
{
  if (strcmp(ref, "#") == 0)
    return root;
  if (strncmp(ref, "#/", 2) == 0)
    return follow(root, ref + 1);
  const json_t *found = find_called(root, ref, 0);
  const char *pointer = strstr(ref, "#/");
  if (found != NULL || pointer == NULL)
    return found;
  /* a pointer relative to a schema with its own $id */
  char *base = strndup(ref, (size_t)(pointer - ref));
  found = base == NULL ? NULL : find_called(root, base, 0);
  free(base);
  return found == NULL ? NULL : follow(found, pointer + 1);
}

/* ---- writing ---- */

/* Writes the steps from `at` to the schema after out[used]. Returns false if the schema
 * is not below `at`. */
static bool find_place(const json_t *at, const json_t *schema, char *out, size_t size,
                       size_t used, unsigned depth)
{
  const json_t *child;
  const char *key;
  size_t index;
  if (at == schema)
    return true;
  if (depth == DEEPEST || used + 1 >= size)
    return false;
  if (json_is_array(at))
    json_array_foreach((json_t *)at, index, child)
    {
      int n = snprintf(out + used, size - used, "/%zu", index);
      if (find_place(child, schema, out, size, used + (size_t)n, depth + 1))
        return true;
    }
  else if (json_is_object(at))
    json_object_foreach((json_t *)at, key, child)
    {
      int n = snprintf(out + used, size - used, "/%s", key);
      if (find_place(child, schema, out, size, used + (size_t)n, depth + 1))
        return true;
    }
  out[used] = '\0';
  return false;
}

const char *lls_schema_place(const json_t *root, const json_t *schema, char *out,
                             size_t size)
{
  snprintf(out, size, "#");
  if (json_is_object(schema) || json_is_array(schema))
    find_place(root, schema, out, size, 1, 0);
  return out;
}
