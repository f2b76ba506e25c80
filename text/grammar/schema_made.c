/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas made by the compiler, found by the address of the schema they were derived
 * from. */
#include "text/grammar/schema_made.h"

#include "core/base/hash.h"

#include <stdlib.h>

struct key {
  const json_t *schema;
  uintptr_t kind;
};

struct lls_schema_made {
  UT_hash_handle hh;
  struct key key;
  json_t *made;
};

const json_t *lls_schema_find_made(const struct lls_schema *s, const json_t *schema,
                                   enum lls_schema_kind kind)
{
  struct key key = {schema, kind};
  const struct lls_schema_made *found;
  HASH_FIND(hh, s->made, &key, sizeof key, found);
  return found == NULL ? NULL : found->made;
}

const json_t *lls_schema_keep_made(struct lls_schema *s, const json_t *schema,
                                   enum lls_schema_kind kind, json_t *made)
{
  struct lls_schema_made *new = made == NULL ? NULL : calloc(1, sizeof *new);
  if (new == NULL) {
    json_decref(made);
    return NULL;
  }
  new->key = (struct key){schema, kind};
  new->made = made;
  HASH_ADD(hh, s->made, key, sizeof new->key, new);
  if (new->hh.tbl != NULL)
    return made;
  json_decref(made);
  free(new);
  return NULL;
}

void lls_schema_free_made(struct lls_schema *s)
{
  struct lls_schema_made *one, *next;
  HASH_ITER(hh, s->made, one, next)
  {
    HASH_DEL(s->made, one);
    json_decref(one->made);
    free(one);
  }
  json_decref(s->requires);
}

const json_t *lls_schema_not(struct lls_schema *s, const json_t *schema)
{
  const json_t *found = lls_schema_find_made(s, schema, LLS_SCHEMA_AS_NOT);
  return found != NULL ? found
                       : lls_schema_keep_made(s, schema, LLS_SCHEMA_AS_NOT,
                                              json_pack("{s:O}", "not", schema));
}

const json_t *lls_schema_requires(struct lls_schema *s, const char *name)
{
  if (s->requires == NULL)
  s->requires = json_object();
  json_t *made = json_object_get(s->requires, name);
  if (made != NULL)
    return made;
  made = json_pack("{s:[s]}", "required", name);
  return json_object_set_new(s->requires, name, made) == 0 ? made : NULL;
}

bool lls_schema_mark(struct lls_schema *s, const json_t *schema,
                     enum lls_schema_kind mark)
{
  return lls_schema_has_mark(s, schema, mark) ||
         lls_schema_keep_made(s, schema, mark, json_incref((json_t *)schema)) != NULL;
}

bool lls_schema_has_mark(const struct lls_schema *s, const json_t *schema,
                         enum lls_schema_kind mark)
{
  return lls_schema_find_made(s, schema, mark) != NULL;
}
