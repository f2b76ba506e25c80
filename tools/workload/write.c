/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a workload in our own CSV format; see formats.c for the columns. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/workload/workload.h"

static void print_deadline(FILE *out, int64_t ns)
{
  if (ns == LLS_NEVER)
    fputc(',', out);
  else
    fprintf(out, ",%" PRId64 ".%06" PRId64, ns / 1000000, ns % 1000000);
}

static void print_item(FILE *out, const struct lls_item *item, bool sessions)
{
  static const char *const classes[] = {"", "realtime", "best_effort"};
  if (item->arrival_ns != LLS_NEVER)
    fprintf(out, "%" PRId64, item->arrival_ns);
  fprintf(out, ",%u,%u,%u,%s,%d,%u,%s", item->prompt_tokens, item->output_tokens,
          item->max_new_tokens, classes[item->request_class], item->priority,
          item->tenant, item->label);
  print_deadline(out, item->slo.ttft_ns);
  print_deadline(out, item->slo.tbt_ns);
  print_deadline(out, item->slo.tpot_ns);
  print_deadline(out, item->slo.completion_ns);
  if (sessions) {
    fprintf(out, ",%s", item->session != NULL ? item->session : "");
    print_deadline(out, item->wait_ns);
    fprintf(out, ",%s,%u", item->tool != NULL ? item->tool : "", item->kept_tokens);
  }
  fputc('\n', out);
}

static int close_file(FILE *out, const char *path, struct lls_error *err)
{
  int failed = ferror(out);
  if (fclose(out) != 0 || failed)
    return lls_fail(err, -EIO, "%s: cannot be written", path);
  return 0;
}

static int open_file(const char *path, FILE **out, struct lls_error *err)
{
  *out = fopen(path, "w");
  if (*out == NULL)
    return lls_fail(err, -errno, "%s: cannot be written: %s", path, strerror(errno));
  return 0;
}

int lls_workload_write(const struct lls_workload *workload, const char *path,
                       struct lls_error *err)
{
  FILE *out;
  bool sessions = workload->n_sessions > 0;
  int rc = open_file(path, &out, err);
  if (rc < 0)
    return rc;
  fputs(
      "arrival_ns,prompt_tokens,output_tokens,max_new_tokens,class,priority,tenant,label,"
      "ttft_ms,tbt_ms,tpot_ms,completion_ms",
      out);
  fputs(sessions ? ",session,wait_ms,tool,kept_tokens\n" : "\n", out);
  for (uint32_t i = 0; i < workload->n_items; i++)
    if (workload->items[i].batch == 0)
      print_item(out, &workload->items[i], sessions);
  return close_file(out, path, err);
}

int lls_workload_write_lengths(const struct lls_workload *workload, const char *path,
                               struct lls_error *err)
{
  FILE *out;
  int rc = open_file(path, &out, err);
  if (rc < 0)
    return rc;
  for (uint32_t i = 0; i < workload->n_items; i++)
    fprintf(out, "%s,%u\n", workload->items[i].label, workload->items[i].output_tokens);
  return close_file(out, path, err);
}
