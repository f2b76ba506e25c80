/* SPDX-License-Identifier: Apache-2.0 */
/* See changes.h. */
#include "core/config/changes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/plugin/loader.h"

/* Adds a text and takes ownership of it. */
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

/* ---- policies ---------------------------------------------------------------------- */

struct search {
  const char *name;
  struct lls_text others;
};

static int look_at(void *context, const char *name, const char *path)
{
  struct search *s = context;
  (void)path;
  if (strcmp(name, s->name) == 0)
    return 1;
  lls_text_printf(&s->others, "%s%s", s->others.length > 0 ? ", " : "", name);
  return 0;
}

bool lls_changes_starts_programs(const char *section)
{
  return strcmp(section, "scheduler.pipe") == 0;
}

int lls_changes_check_policy(uint32_t kind, const char *name, struct lls_error *err)
{
  const char *kind_name = lls_plugin_kind_name(kind);
  struct search s = {.name = name};
  char section[128];
  snprintf(section, sizeof section, "%s.%s", kind_name, name);
  if (strchr(name, '/') != NULL)
    return lls_fail(err, -EACCES, "%s '%.80s' is a path, which a request may not set",
                    kind_name, name);
  if (lls_changes_starts_programs(section))
    return lls_fail(err, -EACCES,
                    "%s '%s' starts a program, which a request may not: set it in the "
                    "file",
                    kind_name, name);
  int rc = lls_plugin_each(kind, look_at, &s);
  if (rc < 0 || s.others.failed)
    rc = lls_fail(err, -ENOMEM, "no memory to look for the %s", kind_name);
  else if (rc == 0)
    rc = lls_fail(err, -ENOENT, "no %s '%.80s'; there are: %s", kind_name, name,
                  s.others.length > 0 ? s.others.data : "none");
  lls_text_free(&s.others);
  return rc < 0 ? rc : 0;
}
