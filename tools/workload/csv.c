/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the rows of CSV traces. The header line alone decides the format (formats.c),
 * so columns may be in any order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/workload/formats.h"

#define TENANTS_MAX 65536

struct reading {
  struct lls_table in;
  const struct lls_format *format;
  /* (n_columns) NULL: a column that is not read */
  const struct lls_column *columns[LLS_COLUMNS_MAX];
  unsigned n_columns;
  struct lls_names tenants;
  int64_t first_date_ns;
};

/* ---- the header -------------------------------------------------------------------- */

static int bind_columns(struct reading *t, struct lls_error *err)
{
  t->n_columns = t->in.n_fields;
  for (unsigned i = 0; i < t->in.n_fields; i++) {
    t->columns[i] = NULL;
    for (const struct lls_column *c = t->format->columns; c->name != NULL; c++)
      if (strcmp(c->name, t->in.fields[i]) == 0)
        t->columns[i] = c;
    if (t->columns[i] == NULL && t->format->strict)
      return lls_bad(&t->in.place, err, "unknown column '%s' (see llmserve-trace(5))",
                     t->in.fields[i]);
    for (unsigned j = 0; j < i && t->columns[i] != NULL; j++)
      if (t->columns[j] != NULL && t->columns[j]->field == t->columns[i]->field)
        return lls_bad(&t->in.place, err, "columns '%s' and '%s' say the same",
                       t->columns[j]->name, t->columns[i]->name);
  }
  return 0;
}

static int read_header(struct reading *t, const char *name, struct lls_error *err)
{
  int rc = lls_table_next(&t->in, err);
  if (rc <= 0)
    return rc < 0 ? rc : lls_bad(&t->in.place, err, "the file is empty");
  if (strncmp(t->in.fields[0], "\xef\xbb\xbf", 3) == 0)
    t->in.fields[0] += 3;
  t->format = lls_format_find(&t->in, name);
  if (t->format == NULL)
    return lls_bad(&t->in.place, err,
                   "the columns are of no format that is known; our own has at least "
                   "prompt_tokens and output_tokens");
  const char *missing = lls_format_missing(t->format, &t->in);
  if (missing != NULL)
    return lls_bad(&t->in.place, err, "%s: column '%s' is missing", t->format->name,
                   missing);
  return bind_columns(t, err);
}

static bool has_field(const struct reading *t, enum lls_field field)
{
  for (unsigned i = 0; i < t->n_columns; i++)
    if (t->columns[i] != NULL && t->columns[i]->field == field)
      return true;
  return false;
}

/* ---- values ------------------------------------------------------------------------ */

static int read_count(const struct reading *t, const struct lls_column *c,
                      const char *text, uint32_t least, uint32_t *out,
                      struct lls_error *err)
{
  int64_t value;
  int rc = lls_table_number(&t->in, c->name, text, c->scale, least, LLS_LENGTH_MAX,
                            &value, err);
  if (rc == 0)
    *out = (uint32_t)value;
  return rc;
}

/* Reads a time such as "2023-11-16 18:15:46.6805900", relative to the first one of the
 * file. */
static int read_date(struct reading *t, const struct lls_column *c, const char *text,
                     int64_t *out, struct lls_error *err)
{
  struct tm tm = {0};
  const char *end = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);
  int64_t fraction = 0;
  if (end != NULL && *end == '.') {
    int64_t unit = LLS_NS_PER_S / 10;
    for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10)
      fraction += (*end - '0') * unit;
  }
  if (end == NULL || (*end != '\0' && *end != '+' && *end != 'Z'))
    return lls_table_bad(&t->in, c->name, text, "a time like 2023-11-16 18:15:46.6805900",
                         err);
  int64_t s = timegm(&tm), ns;
  if (s < 0 || s >= INT64_MAX / LLS_NS_PER_S)
    return lls_table_bad(&t->in, c->name, text, "a time from 1970 to 2261", err);
  ns = s * LLS_NS_PER_S + fraction;
  if (t->first_date_ns == LLS_NEVER)
    t->first_date_ns = ns;
  *out = ns - t->first_date_ns;
  if (*out < 0)
    return lls_bad(&t->in.place, err, "%s: is before the first row's", c->name);
  if (*out > LLS_TRACE_MAX_NS)
    return lls_bad(&t->in.place, err, "%s: is more than 400 days after the first row's",
                   c->name);
  return 0;
}

static int read_class(const struct reading *t, const struct lls_column *c,
                      const char *text, uint32_t *out, struct lls_error *err)
{
  if (text[0] == '\0')
    *out = LLS_CLASS_NONE;
  else if (strcmp(text, "realtime") == 0)
    *out = LLS_CLASS_REALTIME;
  else if (strcmp(text, "best_effort") == 0)
    *out = LLS_CLASS_BEST_EFFORT;
  else
    return lls_table_bad(&t->in, c->name, text, "realtime, best_effort or nothing", err);
  return 0;
}

/* Reads the tenant of our own format, which is a number; 0 or empty is none. */
static int read_tenant_number(const struct reading *t, const struct lls_column *c,
                              const char *text, struct lls_rows *rows, uint32_t *out,
                              struct lls_error *err)
{
  int64_t number = 0;
  int rc = text[0] == '\0' ? 0
                           : lls_table_number(&t->in, c->name, text, c->scale, 0,
                                              TENANTS_MAX, &number, err);
  *out = (uint32_t)number;
  if (*out > rows->n_tenants)
    rows->n_tenants = *out;
  return rc;
}

/* Reads the tenant of other formats, which is a name; names are numbered in order of
 * appearance. */
static int read_tenant_name(struct reading *t, const char *text, struct lls_rows *rows,
                            uint32_t *out, struct lls_error *err)
{
  *out = lls_names_number(&t->tenants, text, strlen(text));
  if (*out == 0)
    return lls_fail(err, -ENOMEM, "%s: no memory", t->in.place.file);
  rows->n_tenants = t->tenants.n;
  return 0;
}

static int read_label(const char *text, struct lls_rows *rows, struct lls_item *row,
                      struct lls_error *err)
{
  if (text[0] == '\0')
    return 0;
  row->label = lls_arena_text(rows->arena, text, strlen(text));
  return row->label == NULL ? lls_fail(err, -ENOMEM, "no memory for a label") : 0;
}

static int read_prefix(const struct reading *t, const struct lls_column *c,
                       const char *text, struct lls_rows *rows, struct lls_item *row,
                       struct lls_error *err)
{
  int64_t number;
  if (text[0] == '\0')
    return 0;
  int rc = lls_table_number(&t->in, c->name, text, c->scale, 0, 0x1p53, &number, err);
  if (rc < 0)
    return rc;
  uint64_t *hash = lls_arena_take(rows->arena, sizeof *hash);
  if (hash == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a prefix");
  *hash = (uint64_t)number;
  row->hashes = hash;
  row->n_hashes = 1;
  return 0;
}

static int64_t *slo_member(struct lls_slo *slo, enum lls_field field)
{
  switch (field) {
  case LLS_FIELD_TTFT:
    return &slo->ttft_ns;
  case LLS_FIELD_TBT:
    return &slo->tbt_ns;
  case LLS_FIELD_TPOT:
    return &slo->tpot_ns;
  default:
    return &slo->completion_ns;
  }
}

static int read_optional(struct reading *t, const struct lls_column *c, const char *text,
                         struct lls_rows *rows, struct lls_item *row,
                         struct lls_error *err)
{
  int64_t value = 0;
  int rc = 0;
  if (text[0] == '\0')
    return 0;
  switch (c->field) {
  case LLS_FIELD_MAX_NEW:
    return read_count(t, c, text, 1, &row->max_new_tokens, err);
  case LLS_FIELD_PRIORITY:
    rc = lls_table_number(&t->in, c->name, text, c->scale, INT32_MIN, INT32_MAX, &value,
                          err);
    row->priority = (int32_t)value;
    return rc;
  case LLS_FIELD_PREFIX:
    return read_prefix(t, c, text, rows, row, err);
  case LLS_FIELD_PREFIX_TOKENS:
    return read_count(t, c, text, 0, &row->hash_tokens, err);
  case LLS_FIELD_TURN:
    return read_count(t, c, text, 0, &row->turn, err);
  case LLS_FIELD_KEPT:
    row->growth = LLS_GROWTH_KEPT;
    return read_count(t, c, text, 0, &row->kept_tokens, err);
  case LLS_FIELD_WAIT:
    return lls_table_number(&t->in, c->name, text, c->scale, 0, (double)LLS_TRACE_MAX_NS,
                            &row->wait_ns, err);
  case LLS_FIELD_ACCEPTANCE:
    rc =
        lls_table_number(&t->in, c->name, text, c->scale, 0, LLS_MILLIONTHS, &value, err);
    row->acceptance = (double)value / LLS_MILLIONTHS;
    row->has_acceptance = rc == 0;
    return rc;
  case LLS_FIELD_TOOL:
    return lls_row_tool(&t->in.place, rows, row, text, strlen(text), err);
  default:
    return lls_table_number(&t->in, c->name, text, c->scale, 0, (double)LLS_TRACE_MAX_NS,
                            slo_member(&row->slo, c->field), err);
  }
}

static int read_field(struct reading *t, const struct lls_column *c, const char *text,
                      struct lls_rows *rows, struct lls_item *row, struct lls_error *err)
{
  switch (c->field) {
  case LLS_FIELD_ARRIVAL:
    if (text[0] == '\0' && has_field(t, LLS_FIELD_SESSION))
      return 0; /* a turn that is sent after the one before */
    return lls_table_number(&t->in, c->name, text, c->scale, 0, (double)LLS_TRACE_MAX_NS,
                            &row->arrival_ns, err);
  case LLS_FIELD_DATE:
    return read_date(t, c, text, &row->arrival_ns, err);
  case LLS_FIELD_PROMPT:
    return read_count(t, c, text, !t->format->drops_empty, &row->prompt_tokens, err);
  case LLS_FIELD_OUTPUT:
    return read_count(t, c, text, !t->format->drops_empty, &row->output_tokens, err);
  case LLS_FIELD_CLASS:
    return read_class(t, c, text, &row->request_class, err);
  case LLS_FIELD_TENANT:
    return t->format->strict ? read_tenant_number(t, c, text, rows, &row->tenant, err)
                             : read_tenant_name(t, text, rows, &row->tenant, err);
  case LLS_FIELD_LABEL:
    return read_label(text, rows, row, err);
  case LLS_FIELD_SESSION:
    return lls_row_session(&t->in.place, rows, row, text, strlen(text), err);
  default:
    return read_optional(t, c, text, rows, row, err);
  }
}

static int read_row(struct reading *t, struct lls_rows *rows, struct lls_error *err)
{
  struct lls_item *row = lls_rows_add(rows);
  if (row == NULL)
    return lls_bad(&t->in.place, err, "no memory for more than %u rows", rows->n);
  for (unsigned i = 0; i < t->n_columns; i++) {
    int rc = t->columns[i] == NULL
                 ? 0
                 : read_field(t, t->columns[i], t->in.fields[i], rows, row, err);
    if (rc < 0)
      return rc;
  }
  if (row->hash_tokens > row->prompt_tokens)
    return lls_bad(&t->in.place, err, "prefix_tokens %u are more than prompt_tokens %u",
                   row->hash_tokens, row->prompt_tokens);
  if (t->format->adds_prompt)
    row->prompt_tokens += row->kept_tokens;
  if (row->growth == LLS_GROWTH_KEPT && row->kept_tokens > row->prompt_tokens)
    return lls_bad(&t->in.place, err, "kept_tokens %u are more than prompt_tokens %u",
                   row->kept_tokens, row->prompt_tokens);
  if (row->prompt_tokens > LLS_LENGTH_MAX)
    return lls_bad(&t->in.place, err, "a prompt of %u tokens, and %u are allowed",
                   row->prompt_tokens, LLS_LENGTH_MAX);
  if (row->prompt_tokens == 0 || row->output_tokens == 0)
    rows->n--;
  return 0;
}

/* ---- files ------------------------------------------------------------------------- */

int lls_read_csv(const char *format, const char *path, struct lls_rows *rows,
                 struct lls_error *err)
{
  struct reading t = {.first_date_ns = LLS_NEVER};
  int rc = lls_table_open(&t.in, path, err);
  if (rc < 0)
    return rc;
  rc = read_header(&t, format, err);
  if (rc == 0)
    while ((rc = lls_table_row(&t.in, t.n_columns, err)) == 1 &&
           (rc = read_row(&t, rows, err)) == 0)
      ;
  rows->timed = has_field(&t, LLS_FIELD_ARRIVAL) || has_field(&t, LLS_FIELD_DATE);
  lls_names_free(&t.tenants);
  lls_table_close(&t.in);
  return rc;
}
