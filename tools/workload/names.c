/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table from names to numbers; see names.h. The key is the text of the name, which
 * lies in its entry.
 */
#include "tools/workload/names.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct lls_name {
  UT_hash_handle hh;
  uint32_t number;
  char text[];
};

uint32_t lls_names_number(struct lls_names *names, const char *text, size_t length)
{
  struct lls_name *name;
  HASH_FIND(hh, names->table, text, length, name);
  if (name != NULL)
    return name->number;
  name = malloc(sizeof *name + length);
  if (name == NULL)
    return 0;
  memcpy(name->text, text, length);
  name->number = ++names->n;
  HASH_ADD_KEYPTR(hh, names->table, name->text, length, name);
  return name->number;
}

void lls_names_free(struct lls_names *names)
{
  struct lls_name *name, *next;
  HASH_ITER(hh, names->table, name, next)
  {
    HASH_DEL(names->table, name);
    free(name);
  }
  *names = (struct lls_names){0};
}
