/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the numbers of one CSV column, for a length distribution to draw from. */
#include <errno.h>
#include <stdlib.h>

#include "tools/workload/table.h"

struct numbers {
  uint32_t *values;
  size_t n, capacity;
};

static int add_number(struct numbers *numbers, uint32_t value)
{
  if (numbers->n == numbers->capacity) {
    size_t capacity = numbers->capacity > 0 ? 2 * numbers->capacity : 1024;
    uint32_t *values = reallocarray(numbers->values, capacity, sizeof *values);
    if (values == NULL)
      return -ENOMEM;
    numbers->values = values;
    numbers->capacity = capacity;
  }
  numbers->values[numbers->n++] = value;
  return 0;
}

/* Reads lengths; 0 is left out, since such requests failed. */
static int read_numbers(struct lls_table *t, const char *name, struct numbers *numbers,
                        struct lls_error *err)
{
  int rc = lls_table_next(t, err);
  int index = rc != 1 ? -1 : name[0] != '\0' ? lls_table_find(t, name) : 0;
  unsigned n_fields = t->n_fields;
  if (rc < 0)
    return rc;
  if (index < 0)
    return lls_bad(&t->place, err, "there is no column '%s'", name);
  while ((rc = lls_table_row(t, n_fields, err)) == 1) {
    int64_t value;
    rc = lls_table_number(t, name, t->fields[index], 1, 0, LLS_LENGTH_MAX, &value, err);
    if (rc == 0 && value > 0 && add_number(numbers, (uint32_t)value) < 0)
      rc = lls_fail(err, -ENOMEM, "%s: no memory", t->place.file);
    if (rc < 0)
      return rc;
  }
  if (rc == 0 && numbers->n == 0)
    return lls_bad(&t->place, err, "column '%s' has no lengths", name);
  return rc;
}

int lls_read_column(const char *path, const char *column, uint32_t **values, size_t *n,
                    struct lls_error *err)
{
  struct lls_table t;
  struct numbers numbers = {0};
  int rc = lls_table_open(&t, path, err);
  if (rc < 0)
    return rc;
  rc = read_numbers(&t, column, &numbers, err);
  lls_table_close(&t);
  if (rc < 0) {
    free(numbers.values);
    return rc;
  }
  *values = numbers.values;
  *n = numbers.n;
  return 0;
}
