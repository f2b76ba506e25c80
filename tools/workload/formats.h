/* SPDX-License-Identifier: Apache-2.0 */
/* The known table formats: the columns of each, and their meanings. */
#ifndef LLS_WORKLOAD_FORMATS_H
#define LLS_WORKLOAD_FORMATS_H

#include "tools/workload/table.h"

#define LLS_MILLIONTHS 1e6 /* of the field ACCEPTANCE */

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
  LLS_FIELD_SESSION,
  LLS_FIELD_TURN,
  LLS_FIELD_WAIT,
  LLS_FIELD_TOOL,
  LLS_FIELD_KEPT,
  LLS_FIELD_ACCEPTANCE,
};

struct lls_column {
  const char *name;
  enum lls_field field;
  double scale; /* factor to the field's unit */
  bool required;
};

struct lls_format {
  const char *name;
  const struct lls_column *columns;
  bool strict;      /* an unknown column is an error */
  bool drops_empty; /* rows without an answer are failed requests, and are left out */
  bool adds_prompt; /* the prompt's column lacks the tokens that the session has kept */
};

/* Returns the format of this name or, for "auto", the first one whose columns are all
 * in the header line. */
const struct lls_format *lls_format_find(const struct lls_table *, const char *name);
/* Returns a required column that the header line lacks; NULL if there is none. */
const char *lls_format_missing(const struct lls_format *, const struct lls_table *);

#endif
