/* SPDX-License-Identifier: Apache-2.0 */
/* Reads CSV tables; see table.h. */
#include "tools/workload/table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int lls_table_open(struct lls_table *t, const char *path, struct lls_error *err)
{
  *t = (struct lls_table){.place = {.file = path}};
  t->file = fopen(path, "r");
  if (t->file == NULL)
    return lls_fail(err, -errno, "%s: cannot be read: %s", path, strerror(errno));
  return 0;
}

void lls_table_close(struct lls_table *t)
{
  free(t->line);
  fclose(t->file);
}

static void cut(struct lls_table *t)
{
  t->n_fields = 0;
  for (char *at = t->line; at != NULL && t->n_fields < LLS_COLUMNS_MAX;)
    t->fields[t->n_fields++] = strsep(&at, ",");
}

int lls_table_next(struct lls_table *t, struct lls_error *err)
{
  for (;;) {
    errno = 0;
    ssize_t length = getline(&t->line, &t->capacity, t->file);
    if (length < 0 && ferror(t->file))
      return lls_bad(&t->place, err, "cannot be read: %s", strerror(errno));
    if (length < 0)
      return 0;
    t->place.line++;
    if (memchr(t->line, '\0', (size_t)length) != NULL)
      return lls_bad(&t->place, err, "a zero byte: this is no text file");
    t->line[strcspn(t->line, "\r\n")] = '\0';
    if (t->line[0] == '\0')
      continue;
    cut(t);
    return 1;
  }
}

int lls_table_row(struct lls_table *t, unsigned n_fields, struct lls_error *err)
{
  int rc = lls_table_next(t, err);
  if (rc == 1 && t->n_fields != n_fields)
    return lls_bad(&t->place, err, "expected %u fields as in the header, found %u",
                   n_fields, t->n_fields);
  return rc;
}

int lls_table_find(const struct lls_table *t, const char *text)
{
  for (unsigned i = 0; i < t->n_fields; i++)
    if (strcmp(t->fields[i], text) == 0)
      return (int)i;
  return -1;
}

int lls_table_bad(const struct lls_table *t, const char *name, const char *text,
                  const char *expected, struct lls_error *err)
{
  return lls_bad(&t->place, err, "%s: expected %s, found '%.40s'", name, expected, text);
}

int lls_table_number(const struct lls_table *t, const char *name, const char *text,
                     double scale, double least, double most, int64_t *out,
                     struct lls_error *err)
{
  char *end, expected[80];
  long double value = strtold(text, &end);
  if (end != text && *end == '\0' && isfinite(value)) {
    value *= (long double)scale;
    if (value >= (long double)least && value <= (long double)most) {
      *out = llroundl(value);
      return 0;
    }
  }
  snprintf(expected, sizeof expected, "a number from %.15g to %.15g", least / scale,
           most / scale);
  return lls_table_bad(t, name, text, expected, err);
}
