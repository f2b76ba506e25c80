/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables with a header line. A format is a list of the columns it knows; what is read is
 * decided by the header alone, so that columns may stand in any order.
 *
 * Our own format ("csv") has prompt_tokens and output_tokens, and where wanted
 *   arrival_s | arrival_ns   after the beginning
 *   max_new_tokens           what the client asks for
 *   class                    realtime, best_effort or nothing
 *   priority label
 *   tenant                   1.., or 0 or nothing
 *   ttft_ms tbt_ms tpot_ms completion_ms   SLOs; nothing: none
 *   prefix prefix_tokens     rows of one prefix number share that many first tokens
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uthash.h>

#include "tools/workload/reader.h"

#define MAX_COLUMNS 64
#define TENANTS_MAX 65536
#define TIME_MAX    (400.0 * 86400 * LLS_NS_PER_S) /* of a trace */

enum field {
  FIELD_ARRIVAL,
  FIELD_DATE,
  FIELD_PROMPT,
  FIELD_OUTPUT,
  FIELD_MAX_NEW,
  FIELD_CLASS,
  FIELD_PRIORITY,
  FIELD_TENANT,
  FIELD_LABEL,
  FIELD_TTFT,
  FIELD_TBT,
  FIELD_TPOT,
  FIELD_COMPLETION,
  FIELD_PREFIX,
  FIELD_PREFIX_TOKENS,
};

struct column {
  const char *name;
  enum field field;
  double scale; /* to the field's unit */
  bool required;
};

#define S  1e9
#define MS 1e6

static const struct column azure_columns[] = {
    {"TIMESTAMP", FIELD_DATE, 1, true},
    {"ContextTokens", FIELD_PROMPT, 1, true},
    {"GeneratedTokens", FIELD_OUTPUT, 1, true},
    {NULL, 0, 0, false},
};
static const struct column burstgpt_columns[] = {
    {"Timestamp", FIELD_ARRIVAL, S, true},
    {"Request tokens", FIELD_PROMPT, 1, true},
    {"Response tokens", FIELD_OUTPUT, 1, true},
    {NULL, 0, 0, false},
};
static const struct column servegen_columns[] = {
    {"arrival_s", FIELD_ARRIVAL, S, true},
    {"client_id", FIELD_TENANT, 1, true},
    {"input_tokens", FIELD_PROMPT, 1, true},
    {"output_tokens", FIELD_OUTPUT, 1, true},
    {NULL, 0, 0, false},
};
static const struct column distserve_columns[] = {
    {"prompt_len", FIELD_PROMPT, 1, true},
    {"output_len", FIELD_OUTPUT, 1, true},
    {"issue_time", FIELD_ARRIVAL, S, true},
    {NULL, 0, 0, false},
};
static const struct column lengths_columns[] = {
    {"num_prefill_tokens", FIELD_PROMPT, 1, true},
    {"num_decode_tokens", FIELD_OUTPUT, 1, true},
    {NULL, 0, 0, false},
};
static const struct column own_columns[] = {
    {"prompt_tokens", FIELD_PROMPT, 1, true},
    {"output_tokens", FIELD_OUTPUT, 1, true},
    {"arrival_s", FIELD_ARRIVAL, S, false},
    {"arrival_ns", FIELD_ARRIVAL, 1, false},
    {"max_new_tokens", FIELD_MAX_NEW, 1, false},
    {"class", FIELD_CLASS, 1, false},
    {"priority", FIELD_PRIORITY, 1, false},
    {"tenant", FIELD_TENANT, 1, false},
    {"label", FIELD_LABEL, 1, false},
    {"ttft_ms", FIELD_TTFT, MS, false},
    {"tbt_ms", FIELD_TBT, MS, false},
    {"tpot_ms", FIELD_TPOT, MS, false},
    {"completion_ms", FIELD_COMPLETION, MS, false},
    {"prefix", FIELD_PREFIX, 1, false},
    {"prefix_tokens", FIELD_PREFIX_TOKENS, 1, false},
    {NULL, 0, 0, false},
};

struct format {
  const char *name;
  const struct column *columns;
  bool strict;      /* an unknown column is an error */
  bool drops_empty; /* rows without an answer are requests that failed */
};

static const struct format formats[] = {
    {"azure", azure_columns, false, false},
    {"burstgpt", burstgpt_columns, false, true},
    {"servegen", servegen_columns, false, false},
    {"distserve", distserve_columns, false, false},
    {"lengths", lengths_columns, false, false},
    {"csv", own_columns, true, false},
};

struct tenant {
  UT_hash_handle hh;
  uint32_t number;
  char name[];
};

struct table {
  struct lls_place place;
  FILE *file;
  char *line;
  size_t capacity;
  char *fields[MAX_COLUMNS]; /* (n_fields) of the line, which is cut up */
  unsigned n_fields;
  const struct format *format;
  const struct column *columns[MAX_COLUMNS]; /* (n_columns) NULL: not read */
  unsigned n_columns;
  struct tenant *tenants;
  int64_t first_date_ns;
};

/* ---- lines ------------------------------------------------------------------------- */

static int open_table(struct table *t, const char *path, struct lls_error *err)
{
  *t = (struct table){.place = {.file = path}, .first_date_ns = LLS_NEVER};
  t->file = fopen(path, "r");
  if (t->file == NULL)
    return lls_fail(err, -errno, "%s: cannot be read: %s", path, strerror(errno));
  return 0;
}

static void close_table(struct table *t)
{
  struct tenant *tenant, *next;
  HASH_ITER(hh, t->tenants, tenant, next)
  {
    HASH_DEL(t->tenants, tenant);
    free(tenant);
  }
  free(t->line);
  fclose(t->file);
}

static void cut(struct table *t)
{
  t->n_fields = 0;
  for (char *at = t->line; at != NULL && t->n_fields < MAX_COLUMNS;)
    t->fields[t->n_fields++] = strsep(&at, ",");
}

/* 1: the next line that is not empty has been cut into fields; 0: there is none. */
static int next_line(struct table *t, struct lls_error *err)
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

/* ---- the header -------------------------------------------------------------------- */

static int find_field(const struct table *t, const char *name)
{
  for (unsigned i = 0; i < t->n_fields; i++)
    if (strcmp(t->fields[i], name) == 0)
      return (int)i;
  return -1;
}

static const char *missing_column(const struct table *t, const struct format *format)
{
  for (const struct column *c = format->columns; c->name != NULL; c++)
    if (c->required && find_field(t, c->name) < 0)
      return c->name;
  return NULL;
}

static const struct format *find_format(const struct table *t, const char *name)
{
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (strcmp(name, "auto") == 0 ? missing_column(t, &formats[i]) == NULL
                                  : strcmp(name, formats[i].name) == 0)
      return &formats[i];
  return NULL;
}

static int bind_columns(struct table *t, struct lls_error *err)
{
  t->n_columns = t->n_fields;
  for (unsigned i = 0; i < t->n_fields; i++) {
    t->columns[i] = NULL;
    for (const struct column *c = t->format->columns; c->name != NULL; c++)
      if (strcmp(c->name, t->fields[i]) == 0)
        t->columns[i] = c;
    if (t->columns[i] == NULL && t->format->strict)
      return lls_bad(&t->place, err, "unknown column '%s' (see tools/README)",
                     t->fields[i]);
    for (unsigned j = 0; j < i && t->columns[i] != NULL; j++)
      if (t->columns[j] != NULL && t->columns[j]->field == t->columns[i]->field)
        return lls_bad(&t->place, err, "columns '%s' and '%s' say the same",
                       t->columns[j]->name, t->columns[i]->name);
  }
  return 0;
}

static int read_header(struct table *t, const char *name, struct lls_error *err)
{
  int rc = next_line(t, err);
  if (rc <= 0)
    return rc < 0 ? rc : lls_bad(&t->place, err, "the file is empty");
  if (strncmp(t->fields[0], "\xef\xbb\xbf", 3) == 0)
    t->fields[0] += 3;
  t->format = find_format(t, name);
  if (t->format == NULL)
    return lls_bad(&t->place, err,
                   "the columns are of no format that is known; our own has at least "
                   "prompt_tokens and output_tokens");
  const char *missing = missing_column(t, t->format);
  if (missing != NULL)
    return lls_bad(&t->place, err, "%s: column '%s' is missing", t->format->name,
                   missing);
  return bind_columns(t, err);
}

/* ---- values ------------------------------------------------------------------------ */

static int bad_value(const struct table *t, const struct column *c, const char *text,
                     const char *expected, struct lls_error *err)
{
  return lls_bad(&t->place, err, "%s: expected %s, found '%.40s'", c->name, expected,
                 text);
}

static int read_number(const struct table *t, const struct column *c, const char *text,
                       double least, double most, int64_t *out, struct lls_error *err)
{
  char *end, expected[80];
  long double value = strtold(text, &end);
  if (end != text && *end == '\0' && isfinite(value)) {
    value *= (long double)c->scale;
    if (value >= (long double)least && value <= (long double)most) {
      *out = llroundl(value);
      return 0;
    }
  }
  snprintf(expected, sizeof expected, "a number from %.15g to %.15g", least / c->scale,
           most / c->scale);
  return bad_value(t, c, text, expected, err);
}

static int read_count(const struct table *t, const struct column *c, const char *text,
                      uint32_t least, uint32_t *out, struct lls_error *err)
{
  int64_t value;
  int rc = read_number(t, c, text, least, LLS_LENGTH_MAX, &value, err);
  if (rc == 0)
    *out = (uint32_t)value;
  return rc;
}

/* "2023-11-16 18:15:46.6805900" after the first such time of the file. */
static int read_date(struct table *t, const struct column *c, const char *text,
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
    return bad_value(t, c, text, "a time like 2023-11-16 18:15:46.6805900", err);
  int64_t ns = (int64_t)timegm(&tm) * LLS_NS_PER_S + fraction;
  if (t->first_date_ns == LLS_NEVER)
    t->first_date_ns = ns;
  *out = ns - t->first_date_ns;
  if (*out < 0)
    return lls_bad(&t->place, err, "%s: is before the first row's", c->name);
  return 0;
}

static int read_class(const struct table *t, const struct column *c, const char *text,
                      uint32_t *out, struct lls_error *err)
{
  if (text[0] == '\0')
    *out = LLS_CLASS_NONE;
  else if (strcmp(text, "realtime") == 0)
    *out = LLS_CLASS_REALTIME;
  else if (strcmp(text, "best_effort") == 0)
    *out = LLS_CLASS_BEST_EFFORT;
  else
    return bad_value(t, c, text, "realtime, best_effort or nothing", err);
  return 0;
}

/* Our own format numbers its tenants; 0 or nothing is none. */
static int read_tenant_number(const struct table *t, const struct column *c,
                              const char *text, struct lls_rows *rows, uint32_t *out,
                              struct lls_error *err)
{
  int64_t number = 0;
  int rc = text[0] == '\0' ? 0 : read_number(t, c, text, 0, TENANTS_MAX, &number, err);
  *out = (uint32_t)number;
  if (*out > rows->n_tenants)
    rows->n_tenants = *out;
  return rc;
}

/* Elsewhere they have names, and are numbered in the order they appear. */
static int read_tenant_name(struct table *t, const char *text, struct lls_rows *rows,
                            uint32_t *out, struct lls_error *err)
{
  struct tenant *tenant;
  HASH_FIND_STR(t->tenants, text, tenant);
  if (tenant == NULL) {
    size_t length = strlen(text);
    tenant = malloc(sizeof *tenant + length + 1);
    if (tenant == NULL)
      return lls_fail(err, -ENOMEM, "%s: no memory", t->place.file);
    memcpy(tenant->name, text, length + 1);
    tenant->number = ++rows->n_tenants;
    HASH_ADD_KEYPTR(hh, t->tenants, tenant->name, length, tenant);
  }
  *out = tenant->number;
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

static int read_prefix(const struct table *t, const struct column *c, const char *text,
                       struct lls_rows *rows, struct lls_item *row, struct lls_error *err)
{
  int64_t number;
  if (text[0] == '\0')
    return 0;
  int rc = read_number(t, c, text, 0, 0x1p53, &number, err);
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

static int64_t *slo_member(struct lls_slo *slo, enum field field)
{
  switch (field) {
  case FIELD_TTFT:
    return &slo->ttft_ns;
  case FIELD_TBT:
    return &slo->tbt_ns;
  case FIELD_TPOT:
    return &slo->tpot_ns;
  default:
    return &slo->completion_ns;
  }
}

static int read_optional(struct table *t, const struct column *c, const char *text,
                         struct lls_rows *rows, struct lls_item *row,
                         struct lls_error *err)
{
  int64_t value = 0;
  int rc = 0;
  if (text[0] == '\0')
    return 0;
  switch (c->field) {
  case FIELD_MAX_NEW:
    return read_count(t, c, text, 1, &row->max_new_tokens, err);
  case FIELD_PRIORITY:
    rc = read_number(t, c, text, INT32_MIN, INT32_MAX, &value, err);
    row->priority = (int32_t)value;
    return rc;
  case FIELD_PREFIX:
    return read_prefix(t, c, text, rows, row, err);
  case FIELD_PREFIX_TOKENS:
    return read_count(t, c, text, 0, &row->hash_tokens, err);
  default:
    return read_number(t, c, text, 0, TIME_MAX, slo_member(&row->slo, c->field), err);
  }
}

static int read_field(struct table *t, const struct column *c, const char *text,
                      struct lls_rows *rows, struct lls_item *row, struct lls_error *err)
{
  switch (c->field) {
  case FIELD_ARRIVAL:
    return read_number(t, c, text, 0, TIME_MAX, &row->arrival_ns, err);
  case FIELD_DATE:
    return read_date(t, c, text, &row->arrival_ns, err);
  case FIELD_PROMPT:
    return read_count(t, c, text, !t->format->drops_empty, &row->prompt_tokens, err);
  case FIELD_OUTPUT:
    return read_count(t, c, text, !t->format->drops_empty, &row->output_tokens, err);
  case FIELD_CLASS:
    return read_class(t, c, text, &row->request_class, err);
  case FIELD_TENANT:
    return t->format->strict ? read_tenant_number(t, c, text, rows, &row->tenant, err)
                             : read_tenant_name(t, text, rows, &row->tenant, err);
  case FIELD_LABEL:
    return read_label(text, rows, row, err);
  default:
    return read_optional(t, c, text, rows, row, err);
  }
}

static int read_row(struct table *t, struct lls_rows *rows, struct lls_error *err)
{
  if (t->n_fields != t->n_columns)
    return lls_bad(&t->place, err, "expected %u fields as in the header, found %u",
                   t->n_columns, t->n_fields);
  struct lls_item *row = lls_rows_add(rows);
  if (row == NULL)
    return lls_bad(&t->place, err, "no memory for more than %u rows", rows->n);
  for (unsigned i = 0; i < t->n_columns; i++) {
    int rc = t->columns[i] == NULL
                 ? 0
                 : read_field(t, t->columns[i], t->fields[i], rows, row, err);
    if (rc < 0)
      return rc;
  }
  if (row->hash_tokens > row->prompt_tokens)
    return lls_bad(&t->place, err, "prefix_tokens %u are more than prompt_tokens %u",
                   row->hash_tokens, row->prompt_tokens);
  if (row->prompt_tokens == 0 || row->output_tokens == 0)
    rows->n--;
  return 0;
}

/* ---- files ------------------------------------------------------------------------- */

static bool has_field(const struct table *t, enum field field)
{
  for (unsigned i = 0; i < t->n_columns; i++)
    if (t->columns[i] != NULL && t->columns[i]->field == field)
      return true;
  return false;
}

int lls_read_csv(const char *format, const char *path, struct lls_rows *rows,
                 struct lls_error *err)
{
  struct table t;
  int rc = open_table(&t, path, err);
  if (rc < 0)
    return rc;
  rc = read_header(&t, format, err);
  if (rc == 0)
    while ((rc = next_line(&t, err)) == 1 && (rc = read_row(&t, rows, err)) == 0)
      ;
  rows->timed = has_field(&t, FIELD_ARRIVAL) || has_field(&t, FIELD_DATE);
  close_table(&t);
  return rc;
}

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

static int read_numbers(struct table *t, const char *name, struct numbers *numbers,
                        struct lls_error *err)
{
  int rc = next_line(t, err);
  int index = rc == 1 ? name[0] != '\0' ? find_field(t, name) : 0 : -1;
  if (rc < 0)
    return rc;
  if (index < 0)
    return lls_bad(&t->place, err, "there is no column '%s'", name);
  const struct column column = {.name = name, .scale = 1};
  unsigned n_fields = t->n_fields;
  while ((rc = next_line(t, err)) == 1) {
    uint32_t value;
    if (t->n_fields != n_fields)
      return lls_bad(&t->place, err, "expected %u fields as in the header, found %u",
                     n_fields, t->n_fields);
    rc = read_count(t, &column, t->fields[index], 0, &value, err);
    if (rc == 0 && value > 0 && add_number(numbers, value) < 0)
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
  struct table t;
  struct numbers numbers = {0};
  int rc = open_table(&t, path, err);
  if (rc < 0)
    return rc;
  rc = read_numbers(&t, column, &numbers, err);
  close_table(&t);
  if (rc < 0)
    free(numbers.values);
  else
    *values = numbers.values, *n = numbers.n;
  return rc;
}
