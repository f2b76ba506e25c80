/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads rows from a decision log: the requests of a server or a simulation, to be run
 * again with other policies. The log's plans are ignored. A request without an end, or
 * which ended without a token, becomes no row, because the length of its answer is
 * unknown.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/record/decision_log.h"
#include "tools/workload/decision_file.h"
#include "tools/workload/reader.h"

#define TENANTS_MAX 65536

struct recording {
  struct lls_decision_file in;
  struct lls_rows *rows;
  uint64_t first;   /* request number of row 0 */
  int64_t begin_ns; /* arrival time of row 0 */
};

/* ---- arrivals ---------------------------------------------------------------------- */

static uint32_t count_hashes(const char *text)
{
  uint32_t n = 0;
  for (const char *at = text; *at != '\0'; at++)
    n += *at == ' ';
  return n;
}

static int read_hashes(struct recording *r, const char *text, struct lls_item *row,
                       struct lls_error *err)
{
  uint32_t n = count_hashes(text);
  uint64_t *hashes = lls_arena_take(r->rows->arena, n * sizeof *hashes);
  if (hashes == NULL)
    return lls_fail(err, -ENOMEM, "%s: no memory for its prefixes", r->in.path);
  const char *at = text;
  for (uint32_t i = 0; i < n; i++) {
    char *end;
    hashes[i] = strtoull(at, &end, 16);
    if (end == at || (*end != ' ' && *end != '\0'))
      return lls_fail(err, -EINVAL,
                      "%s:%" PRIu64 ": hash %u: expected a hexadecimal number",
                      r->in.path, r->in.line, i + 1);
    at = end;
  }
  row->hashes = hashes;
  row->n_hashes = n;
  row->hash_tokens = LLS_DECISION_HASHED;
  return 0;
}

static int add_arrival(struct recording *r, const struct lls_decision_line *line,
                       struct lls_error *err)
{
  struct lls_rows *rows = r->rows;
  if (rows->n == 0) {
    r->first = line->number;
    r->begin_ns = line->time_ns;
  }
  if (line->number != r->first + rows->n)
    return lls_fail(err, -EINVAL,
                    "%s:%" PRIu64 ": number: expected %" PRIu64 ", found %" PRIu64,
                    r->in.path, r->in.line, r->first + rows->n, line->number);
  int64_t after_ns = line->time_ns - r->begin_ns;
  if (after_ns > LLS_TRACE_MAX_NS)
    return lls_fail(err, -EINVAL,
                    "%s:%" PRIu64 ": time: is more than 400 days after the first's",
                    r->in.path, r->in.line);
  if (line->asked.tenant > TENANTS_MAX)
    return lls_fail(err, -EINVAL, "%s:%" PRIu64 ": tenant: at most %u", r->in.path,
                    r->in.line, TENANTS_MAX);
  struct lls_item *row = lls_rows_add(rows);
  if (row == NULL)
    return lls_fail(err, -ENOMEM, "%s: no memory for more than %u rows", r->in.path,
                    rows->n);
  const struct lls_request *asked = &line->asked;
  row->arrival_ns = after_ns > 0 ? after_ns : 0;
  row->prompt_tokens = asked->prompt_tokens;
  row->max_new_tokens = asked->max_new_tokens;
  row->request_class = asked->request_class;
  row->priority = asked->priority;
  row->tenant = asked->tenant;
  row->slo = asked->slo;
  if (row->tenant > rows->n_tenants)
    rows->n_tenants = row->tenant;
  return read_hashes(r, line->rest, row, err);
}

/* ---- ends -------------------------------------------------------------------------- */

static int add_end(struct recording *r, const struct lls_decision_line *line,
                   struct lls_error *err)
{
  if (line->number < r->first || line->number - r->first >= r->rows->n)
    return lls_fail(err, -EINVAL,
                    "%s:%" PRIu64 ": request %" PRIu64 " ends before it came", r->in.path,
                    r->in.line, line->number);
  if (line->generated > LLS_LENGTH_MAX)
    return lls_fail(err, -EINVAL, "%s:%" PRIu64 ": generated tokens: at most %u",
                    r->in.path, r->in.line, LLS_LENGTH_MAX);
  r->rows->items[line->number - r->first].output_tokens = line->generated;
  return 0;
}

static void drop_unended(struct lls_rows *rows)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < rows->n; i++)
    if (rows->items[i].output_tokens > 0)
      rows->items[kept++] = rows->items[i];
  rows->n = kept;
}

int lls_read_recorded(const char *format, const char *path, struct lls_rows *rows,
                      struct lls_error *err)
{
  (void)format;
  struct recording r = {.rows = rows};
  struct lls_decision_line line = {0};
  int rc = lls_decision_file_open(&r.in, path, err);
  if (rc < 0)
    return rc;
  while ((rc = lls_decision_file_next(&r.in, &line, err)) > 0) {
    if (line.kind == 'A')
      rc = add_arrival(&r, &line, err);
    else if (line.kind == 'E')
      rc = add_end(&r, &line, err);
    if (rc < 0)
      break;
  }
  lls_text_free(&line.items);
  lls_decision_file_close(&r.in);
  rows->timed = true;
  if (rc == 0)
    drop_unended(rows);
  return rc;
}
