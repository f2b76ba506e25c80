/* SPDX-License-Identifier: Apache-2.0 */
/* Reads decision logs; see decision_file.h. */
#include "tools/workload/decision_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int lls_decision_file_open(struct lls_decision_file *f, const char *path,
                           struct lls_error *err)
{
  *f = (struct lls_decision_file){.path = path, .file = fopen(path, "re")};
  return f->file != NULL
             ? 0
             : lls_fail(err, -errno, "%s: cannot open: %s", path, strerror(errno));
}

void lls_decision_file_close(struct lls_decision_file *f)
{
  if (f->file != NULL)
    fclose(f->file);
  free(f->text);
  *f = (struct lls_decision_file){0};
}

static bool read_header(const char *text, struct lls_decision_line *out)
{
  int end = 0;
  unsigned version;
  if (sscanf(text, "H %u %n", &version, &end) != 1 || end == 0 || version != 2)
    return false;
  out->rest = text + end;
  return true;
}

/* ---- numbers ----------------------------------------------------------------------- */

#define TIME_MOST   (INT64_C(1) << 60) /* ns, 36 years: sums of a few do not overflow */
#define MOST_TOKENS (INT64_C(1) << 24)
#define MOST_PARTS  (INT64_C(1) << 16)

struct number {
  const char *name;
  int64_t least, most;
};

/* Reads the next number of a line and checks its bounds. */
static int read_number(const struct lls_decision_file *f, const char **at,
                       const struct number *n, int64_t *out, struct lls_error *err)
{
  char *end;
  errno = 0;
  intmax_t value = strtoimax(*at, &end, 10);
  if (end != *at && errno == 0 && value >= n->least && value <= n->most &&
      (*end == ' ' || *end == '\0')) {
    *out = value;
    *at = end;
    return 0;
  }
  *at += strspn(*at, " ");
  return lls_fail(err, -EINVAL,
                  "%s:%" PRIu64 ": %s: expected a whole number from %" PRId64
                  " to %" PRId64 ", found '%.*s'",
                  f->path, f->line, n->name, n->least, n->most, (int)strcspn(*at, " "),
                  *at);
}

static int read_numbers(const struct lls_decision_file *f, const char **at,
                        const struct number *numbers, size_t n, int64_t *out,
                        struct lls_error *err)
{
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < n; i++)
    rc = read_number(f, at, &numbers[i], &out[i], err);
  return rc;
}

/* ---- lines ------------------------------------------------------------------------- */

enum { NUMBER, ARRIVED, PROMPT, MAX_NEW, CLASS, PRIORITY, TENANT, SLOS };
#define N_ARRIVAL (SLOS + 4)

static const struct number arrival[N_ARRIVAL] = {
    {"number", 1, INT64_MAX},
    {"time", 0, TIME_MOST},
    {"prompt tokens", 1, MOST_TOKENS},
    {"most new tokens", 0, UINT32_MAX},
    {"class", LLS_CLASS_NONE, LLS_CLASS_BEST_EFFORT},
    {"priority", INT32_MIN, INT32_MAX},
    {"tenant", 0, UINT32_MAX},
    {"TTFT", LLS_NEVER, TIME_MOST},
    {"TBT", LLS_NEVER, TIME_MOST},
    {"TPOT", LLS_NEVER, TIME_MOST},
    {"completion", LLS_NEVER, TIME_MOST},
};

static int read_arrival(const struct lls_decision_file *f, struct lls_decision_line *out,
                        struct lls_error *err)
{
  int64_t v[N_ARRIVAL];
  const char *at = f->text + 1;
  int rc = read_numbers(f, &at, arrival, N_ARRIVAL, v, err);
  if (rc < 0)
    return rc;
  out->number = (uint64_t)v[NUMBER];
  out->time_ns = v[ARRIVED];
  out->asked = (struct lls_request){
      .prompt_tokens = (uint32_t)v[PROMPT],
      .max_new_tokens = (uint32_t)v[MAX_NEW],
      .request_class = (uint32_t)v[CLASS],
      .priority = (int32_t)v[PRIORITY],
      .tenant = (uint32_t)v[TENANT],
      .slo = {v[SLOS], v[SLOS + 1], v[SLOS + 2], v[SLOS + 3]},
  };
  out->rest = at;
  return 0;
}

static const struct number plan[] = {{"time", 0, TIME_MOST}, {"duration", 0, TIME_MOST}};

static int read_plan(struct lls_decision_file *f, struct lls_decision_line *out,
                     struct lls_error *err)
{
  int64_t v[2];
  const char *at = f->text + 1;
  int rc = read_numbers(f, &at, plan, 2, v, err);
  if (rc < 0)
    return rc;
  lls_text_clear(&out->items);
  lls_text_puts(&out->items, at);
  out->time_ns = f->planned_ns = v[0];
  out->duration_ns = v[1];
  return out->items.length > 0 ? 0 : -ENODATA;
}

static int read_repeat(struct lls_decision_file *f, struct lls_decision_line *out,
                       struct lls_error *err)
{
  const struct number repeat[] = {
      {"time since the plan before", 0, TIME_MOST - f->planned_ns}, plan[1]};
  int64_t v[2];
  const char *at = f->text + 1;
  if (out->items.length == 0)
    return -ENODATA;
  int rc = read_numbers(f, &at, repeat, 2, v, err);
  if (rc < 0)
    return rc;
  out->kind = 'P';
  out->time_ns = f->planned_ns += v[0];
  out->duration_ns = v[1];
  return 0;
}

static int read_end(const struct lls_decision_file *f, struct lls_decision_line *out,
                    struct lls_error *err)
{
  static const struct number ending[] = {
      {"number", 1, INT64_MAX},
      {"generated tokens", 0, UINT32_MAX},
      {"reason", LLS_FINISH_NONE, LLS_FINISH_ERROR},
  };
  static const struct number first_token = {"first token", 0, TIME_MOST};
  static const struct number last_token = {"last token", 0, TIME_MOST};
  int64_t v[3];
  const char *at = f->text + 1;
  int rc = read_numbers(f, &at, ending, 3, v, err);
  if (rc < 0)
    return rc;
  out->number = (uint64_t)v[0];
  out->generated = (uint32_t)v[1];
  out->reason = (uint32_t)v[2];
  out->first_token_ns = out->last_token_ns = LLS_NEVER;
  if (*at == '\0')
    return 0;
  rc = read_number(f, &at, &first_token, &out->first_token_ns, err);
  return rc < 0 ? rc : read_number(f, &at, &last_token, &out->last_token_ns, err);
}

static int read_step(const struct lls_decision_file *f, struct lls_decision_line *out,
                     struct lls_error *err)
{
  static const struct number step[] = {
      {"duration", 1, TIME_MOST},          {"tokens drawn", 0, MOST_TOKENS},
      {"chunks", 0, MOST_PARTS},           {"tokens of chunks", 0, MOST_TOKENS},
      {"pairs", 0, INT64_C(1) << 50},      {"decodes", 0, MOST_PARTS},
      {"tokens read", 0, INT64_C(1) << 40}};
  int64_t v[sizeof step / sizeof *step];
  const char *at = f->text + 1;
  int rc = read_numbers(f, &at, step, sizeof step / sizeof *step, v, err);
  if (rc < 0)
    return rc;
  out->step = (struct lls_step_sample){.ns = v[0],
                                       .drawn = (uint32_t)v[1],
                                       .chunks = (uint32_t)v[2],
                                       .chunk_tokens = (uint64_t)v[3],
                                       .pairs = (uint64_t)v[4],
                                       .decodes = (uint32_t)v[5],
                                       .cached = (uint64_t)v[6]};
  return 0;
}

/* -ENODATA: not a line of a decision log; any other error has been reported in err. */
static int read_line(struct lls_decision_file *f, struct lls_decision_line *out,
                     struct lls_error *err)
{
  bool spaced = f->text[0] != '\0' && f->text[1] == ' ';
  switch (spaced ? f->text[0] : '\0') {
  case 'H':
    return read_header(f->text, out) ? 0 : -ENODATA;
  case 'A':
    return read_arrival(f, out, err);
  case 'P':
    return read_plan(f, out, err);
  case '=':
    return read_repeat(f, out, err);
  case 'E':
    return read_end(f, out, err);
  case 'T':
    return read_step(f, out, err);
  default:
    return -ENODATA;
  }
}

int lls_decision_file_next(struct lls_decision_file *f, struct lls_decision_line *out,
                           struct lls_error *err)
{
  ssize_t length = getline(&f->text, &f->room, f->file);
  if (length < 0)
    return 0;
  f->line++;
  f->text[strcspn(f->text, "\n")] = '\0';
  out->kind = f->text[0];
  int rc = read_line(f, out, err);
  if (rc != -ENODATA)
    return rc < 0 ? rc : 1;
  return lls_fail(err, -EINVAL,
                  "%s:%" PRIu64 ": expected a line of a decision log (version 2), found "
                  "'%.60s'",
                  f->path, f->line, f->text);
}
