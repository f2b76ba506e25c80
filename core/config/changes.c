/* SPDX-License-Identifier: Apache-2.0 */
/* See changes.h. */
#include "core/config/changes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes the text over. */
static int put(struct lls_changes *c, char *text)
{
  size_t name = strcspn(text, "=") + 1;
  for (size_t i = 0; i < c->n; i++)
    if (strncmp(c->list[i], text, name) == 0) {
      free(c->list[i]);
      c->list[i] = text;
      return 0;
    }
  char **grown = realloc(c->list, (c->n + 1) * sizeof *grown);
  if (grown == NULL) {
    free(text);
    return -ENOMEM;
  }
  c->list = grown;
  grown[c->n++] = text;
  return 0;
}

int lls_changes_set(struct lls_changes *c, const char *section, const char *key,
                    const char *value)
{
  char *text;
  return asprintf(&text, "%s.%s=%s", section, key, value) < 0 ? -ENOMEM : put(c, text);
}

int lls_changes_add(struct lls_changes *c, const struct lls_changes *more)
{
  int rc = 0;
  for (size_t i = 0; i < more->n && rc == 0; i++) {
    char *text = strdup(more->list[i]);
    rc = text != NULL ? put(c, text) : -ENOMEM;
  }
  return rc;
}

void lls_changes_free(struct lls_changes *c)
{
  for (size_t i = 0; i < c->n; i++)
    free(c->list[i]);
  free(c->list);
  *c = (struct lls_changes){0};
}
