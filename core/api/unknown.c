/* SPDX-License-Identifier: Apache-2.0 */
#include "core/api/unknown.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NAME 100 /* of a parameter that is logged */

bool lls_unknown_add(struct lls_unknown_names *names, const char *name)
{
  if (names->n == LLS_MAX_UNKNOWN || strlen(name) > MAX_NAME)
    return false;
  for (unsigned i = 0; i < names->n; i++)
    if (strcmp(names->names[i], name) == 0)
      return false;
  char *copy = strdup(name);
  if (copy == NULL)
    return false;
  names->names[names->n++] = copy;
  return true;
}

void lls_unknown_free(struct lls_unknown_names *names)
{
  while (names->n > 0)
    free(names->names[--names->n]);
}
