/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that are known: which columns each has, and what they say. */
#ifndef LLS_WORKLOAD_FORMATS_H
#define LLS_WORKLOAD_FORMATS_H

#include "tools/workload/table.h"

enum lls_field {
  LLS_FIELD_ARRIVAL,
  LLS_FIELD_DATE,
  LLS_FIELD_PROMPT,
  LLS_FIELD_OUTPUT,
  LLS_FIELD_MAX_NEW,
  LLS_FIELD_CLASS,
  LLS_FIELD_PRIORITY,
  LLS_FIELD_TENANT,
  LLS_FIELD_LABEL,
  LLS_FIELD_TTFT,
  LLS_FIELD_TBT,
  LLS_FIELD_TPOT,
  LLS_FIELD_COMPLETION,
  LLS_FIELD_PREFIX,
  LLS_FIELD_PREFIX_TOKENS,
};

struct lls_column {
  const char *name;
  enum lls_field field;
  double scale; /* to the field's unit */
  bool required;
};

struct lls_format {
  const char *name;
  const struct lls_column *columns;
  bool strict;      /* an unknown column is an error */
  bool drops_empty; /* rows without an answer are requests that failed */
};

/* The format of that name, or for "auto" the first of which the line has all columns. */
const struct lls_format *lls_format_find(const struct lls_table *, const char *name);
/* A column that the format needs and the line has not; NULL if there is none. */
const char *lls_format_missing(const struct lls_format *, const struct lls_table *);

#endif
