/* SPDX-License-Identifier: Apache-2.0 */
/* The state that a cache manager under watch reports: its text form, and the comparison
 * with an earlier state; see watch.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plugin-check/watch.h"

static void put_text(void *context, const char *line)
{
  fprintf(context, "%s\n", line);
}

static void put_number(void *context, const char *name, double value)
{
  fprintf(context, "%s %.17g\n", name, value);
}

static int audit(void *self, const struct lls_sink *sink)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "audit", TAG_STEP);
  w->watch->failure[0] = '\0';
  int rc = w->real->cache.audit(w->self, sink);
  watch_leave(w, call);
  if (rc < 0)
    found(w->watch->findings, "audit finds fault with itself in step %" PRIu64 ": %s",
          w->step, w->watch->failure[0] != '\0' ? w->watch->failure : strerror(-rc));
  return rc;
}

char *watch_audit(struct witness *w)
{
  char *text = NULL;
  size_t bytes = 0;
  FILE *file = open_memstream(&text, &bytes);
  struct lls_sink sink = {.context = file, .number = put_number, .text = put_text};
  if (file == NULL)
    abort();
  audit(w, &sink);
  fclose(file);
  return text;
}

/* Returns the first line of b that differs from a's, or the first line beyond a. */
static const char *difference(const char *a, const char *b)
{
  size_t line = 0;
  for (size_t i = 0; a[i] != '\0' && a[i] == b[i]; i++)
    if (a[i] == '\n')
      line = i + 1;
  return b + line;
}

void watch_compare(struct witness *w, const char *before, uint32_t mark)
{
  char *after = watch_audit(w);
  if (strcmp(before, after) != 0) {
    const char *line = difference(before, after), *was = difference(after, before);
    found(w->watch->findings,
          "rollback(%u) in step %" PRIu64 " leaves another state than mark saw: \"%.*s\" "
          "was \"%.*s\"",
          mark, w->step, (int)strcspn(line, "\n"), line, (int)strcspn(was, "\n"), was);
  }
  free(after);
}

void watch_audits(struct lls_cache_vtable *ours)
{
  WATCHED(ours, audit);
}
