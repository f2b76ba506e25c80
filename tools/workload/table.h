/* SPDX-License-Identifier: Apache-2.0 */
/* A CSV file line by line, cut into fields; lines that are empty are passed over. */
#ifndef LLS_WORKLOAD_TABLE_H
#define LLS_WORKLOAD_TABLE_H

#include "tools/workload/reader.h"

#define LLS_COLUMNS_MAX 64

struct lls_table {
  struct lls_place place; /* of the line */
  FILE *file;
  char *line;
  size_t capacity;
  char *fields[LLS_COLUMNS_MAX]; /* (n_fields) of the line, which is cut up */
  unsigned n_fields;
};

int lls_table_open(struct lls_table *, const char *path, struct lls_error *err);
void lls_table_close(struct lls_table *);

/* 1: the next line is there; 0: there is none; or an error. */
int lls_table_next(struct lls_table *, struct lls_error *err);
/* The same, of a line that must have as many fields as the header. */
int lls_table_row(struct lls_table *, unsigned n_fields, struct lls_error *err);
/* Which field of the line is this text; -1 if none is. */
int lls_table_find(const struct lls_table *, const char *text);

/* The content of this field of the line, `name` being its column. */
int lls_table_bad(const struct lls_table *, const char *name, const char *text,
                  const char *expected, struct lls_error *err);
/* A number times scale, rounded, from least to most. */
int lls_table_number(const struct lls_table *, const char *name, const char *text,
                     double scale, double least, double most, int64_t *out,
                     struct lls_error *err);

#endif
