/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a CSV file line by line and splits lines into fields; empty lines are
 * skipped. */
#ifndef LLS_WORKLOAD_TABLE_H
#define LLS_WORKLOAD_TABLE_H

#include "tools/workload/reader.h"

#define LLS_COLUMNS_MAX 64

struct lls_table {
  struct lls_place place; /* the present line's place */
  FILE *file;
  char *line;
  size_t capacity;
  /* (n_fields) fields of the present line; they point into its text */
  char *fields[LLS_COLUMNS_MAX];
  unsigned n_fields;
};

int lls_table_open(struct lls_table *, const char *path, struct lls_error *err);
void lls_table_close(struct lls_table *);

/* Reads the next line. Returns 1: a line; 0: the end; or an error. */
int lls_table_next(struct lls_table *, struct lls_error *err);
/* Like lls_table_next, but the line must have as many fields as the header. */
int lls_table_row(struct lls_table *, unsigned n_fields, struct lls_error *err);
/* Returns the index of the field with this text; -1 if there is none. */
int lls_table_find(const struct lls_table *, const char *text);

/* Fails with an error about a field's content; `name` is the column's. */
int lls_table_bad(const struct lls_table *, const char *name, const char *text,
                  const char *expected, struct lls_error *err);
/* Reads a number, multiplies it by scale, rounds it and checks that it is from least to
 * most. */
int lls_table_number(const struct lls_table *, const char *name, const char *text,
                     double scale, double least, double most, int64_t *out,
                     struct lls_error *err);

#endif
