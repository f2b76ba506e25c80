/* SPDX-License-Identifier: Apache-2.0 */
/* Names of parameters, and of members of nested objects, that have no effect. */
#include "core/api/api_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/params_internal.h"

#define MAX_NAME 100 /* bytes of a reported parameter's name */

bool lls_unknown_add(struct lls_unknown_names *names, const char *name)
{
  if (names->n == LLS_MAX_UNKNOWN)
    return false;
  for (unsigned i = 0; i < names->n; i++)
    if (strncmp(names->names[i], name, MAX_NAME) == 0)
      return false;
  char *copy = strndup(name, MAX_NAME);
  if (copy == NULL)
    return false;
  names->names[names->n++] = copy;
  return true;
}

void lls_unknown_drop(struct lls_unknown_names *names, json_t *body,
                      const char *const *dropped)
{
  for (; *dropped != NULL; dropped++)
    if (json_object_get(body, *dropped) != NULL) {
      lls_unknown_add(names, *dropped);
      json_object_del(body, *dropped);
    }
}

void lls_unknown_free(struct lls_unknown_names *names)
{
  while (names->n > 0)
    free(names->names[--names->n]);
}

/* ---- nested members ---------------------------------------------------------------- */

/* Returns true if `name` is one of the words. */
static bool is_word_of(const char *words, const char *name)
{
  size_t n = strlen(name);
  for (const char *at = words; *at != '\0'; at += strspn(at, " ")) {
    size_t length = strcspn(at, " ");
    if (length == n && memcmp(at, name, n) == 0)
      return true;
    at += length;
  }
  return false;
}

void lls_unknown_add_members(struct lls_unknown_names *names, const json_t *object,
                             const char *path, const char *known)
{
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)object, name, value)
  {
    char note[MAX_NAME + 1];
    if (is_word_of(known, name) || !lls_param_asks(name, value))
      continue;
    snprintf(note, sizeof note, "%s.%s", path, name);
    lls_unknown_add(names, note);
  }
}

/* Goes from `value` along `rest`, the rest of the path. */
static void add_at(struct lls_unknown_names *names, const json_t *value, const char *rest,
                   const char *path, const char *known)
{
  size_t i, length = strcspn(rest, ".");
  json_t *inner;
  if (json_is_array(value)) {
    json_array_foreach((json_t *)value, i, inner)
    {
      if (json_is_object(inner))
        add_at(names, inner, rest, path, known);
    }
  } else if (length == 0) {
    lls_unknown_add_members(names, value, path, known);
  } else {
    char name[MAX_NAME];
    snprintf(name, sizeof name, "%.*s", (int)length, rest);
    add_at(names, json_object_get(value, name), rest + length + (rest[length] == '.'),
           path, known);
  }
}

void lls_unknown_add_at(struct lls_unknown_names *names, const json_t *body,
                        const char *path, const char *known)
{
  add_at(names, body, path, path, known);
}
