/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See traffic.h. Reads the requests as llmserve-sim does; the times of their answers
 * come from their ends in the log, in the same order: by arrival, then by number. Only
 * the first and the last token of an answer have times, so gaps and preemptions are
 * unknown.
 */
#include "tools/whatif/traffic.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/report.h"
#include "tools/workload/decision_file.h"
#include "tools/workload/workload.h"

struct answer {
  uint64_t number;
  int64_t arrival_ns, first_ns, last_ns; /* times by the server's clock */
  uint32_t tokens;
};

struct answers {
  struct answer *items; /* (n), indexed by number while reading */
  size_t n, room;
};

/* ---- reading ---------------------------------------------------------------------- */

static int add(struct answers *all, const struct lls_decision_line *line)
{
  if (all->n == all->room) {
    size_t room = all->room > 0 ? 2 * all->room : 1024;
    struct answer *items = reallocarray(all->items, room, sizeof *items);
    if (items == NULL)
      return -ENOMEM;
    all->items = items;
    all->room = room;
  }
  all->items[all->n++] = (struct answer){
      .number = line->number, .arrival_ns = line->time_ns, .first_ns = LLS_NEVER};
  return 0;
}

static void end(struct answers *all, const struct lls_decision_line *line)
{
  uint64_t at = all->n > 0 ? line->number - all->items[0].number : 0;
  if (at >= all->n)
    return;
  struct answer *a = &all->items[at];
  a->tokens = line->generated;
  a->first_ns = line->first_token_ns;
  a->last_ns = line->last_token_ns;
}

static int by_arrival(const void *a, const void *b)
{
  const struct answer *x = a, *y = b;
  if (x->arrival_ns != y->arrival_ns)
    return x->arrival_ns < y->arrival_ns ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

/* Reads the requests that ended with a token, as the workload has them. */
static int read_answers(const char *path, struct answers *out, struct lls_error *err)
{
  struct lls_decision_file in;
  struct lls_decision_line line = {0};
  int rc = lls_decision_file_open(&in, path, err);
  if (rc < 0)
    return rc;
  while ((rc = lls_decision_file_next(&in, &line, err)) > 0) {
    if (line.kind == 'A' && add(out, &line) < 0) {
      rc = lls_fail(err, -ENOMEM, "%s: no memory for its answers", path);
      break;
    }
    if (line.kind == 'E')
      end(out, &line);
  }
  lls_text_free(&line.items);
  lls_decision_file_close(&in);
  size_t kept = 0;
  for (size_t i = 0; i < out->n; i++)
    if (out->items[i].tokens > 0)
      out->items[kept++] = out->items[i];
  out->n = kept;
  if (kept > 0)
    qsort(out->items, kept, sizeof *out->items, by_arrival);
  return rc;
}

/* ---- properties of the traffic ---------------------------------------------------- */

static bool has_times(const struct answers *all)
{
  for (size_t i = 0; i < all->n; i++)
    if (all->items[i].first_ns == LLS_NEVER)
      return false;
  return all->n > 0;
}

static int tell_one(struct lls_report *report, const struct lls_item *item,
                    const struct answer *a)
{
  struct lls_track track = {0};
  /* shifts to the workload's clock */
  int64_t shift_ns = a->arrival_ns - item->arrival_ns;
  lls_report_begin(report, &track, item, item->arrival_ns);
  int rc = lls_report_tokens(report, &track, a->first_ns - shift_ns, 1);
  if (rc == 0 && a->tokens > 1)
    rc = lls_report_tokens(report, &track, a->last_ns - shift_ns, a->tokens - 1);
  lls_report_end(report, &track, LLS_OUTCOME_COMPLETED, a->last_ns - shift_ns);
  return rc;
}

/* Removes the metrics of gaps and preemptions: the report knows only one gap a request,
 * and no preemptions. */
static void forget_unknown(json_t *metrics)
{
  const char *key;
  void *next;
  json_t *value;
  json_object_foreach_safe(metrics, next, key, value)
  {
    if (strstr(key, "itl") != NULL || strcmp(key, "preemptions") == 0)
      json_object_del(metrics, key);
  }
}

static int measure(const struct lls_workload *w, const struct answers *all,
                   const char *goodput, json_t **out, struct lls_error *err)
{
  const struct lls_report_options options = {.goodput = goodput};
  const struct lls_report_header header = {
      .tool = "llmserve", .request_rate = NAN, .burstiness = NAN};
  struct lls_report *report;
  int rc = lls_report_create(w, &options, &report, err);
  if (rc < 0)
    return rc;
  for (uint32_t i = 0; rc == 0 && i < w->n_items; i++)
    rc = tell_one(report, &w->items[i], &all->items[i]);
  *out = rc == 0 ? lls_report_json(report, &header, false) : NULL;
  lls_report_destroy(report);
  forget_unknown(*out);
  return *out != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory for the served requests");
}

static void look_at_slos(const struct lls_workload *w, const char *goodput,
                         struct traffic *out)
{
  out->has_slos = goodput[0] != '\0';
  for (uint32_t i = 0; i < w->n_items && goodput[0] == '\0'; i++) {
    const struct lls_slo *s = &w->items[i].slo;
    out->gaps = out->gaps || s->tbt_ns != LLS_NEVER;
    out->has_slos = out->has_slos || s->ttft_ns != LLS_NEVER || s->tbt_ns != LLS_NEVER ||
                    s->tpot_ns != LLS_NEVER || s->completion_ns != LLS_NEVER;
  }
}

static int build(const char *path, struct lls_workload *w, struct lls_error *err)
{
  struct lls_workload_options options;
  const struct lls_bound_options bound = {&lls_workload_option_group, &options};
  int rc = lls_options_default(&bound, 1, err);
  if (rc < 0)
    return rc;
  rc = lls_option_set(&bound, 1, "trace", path, err);
  if (rc == 0)
    rc = lls_option_set(&bound, 1, "dataset_name", "decisions", err);
  if (rc == 0)
    rc = lls_workload_build(&options, w, err);
  lls_options_release(&bound, 1);
  return rc;
}

int traffic_read(const char *path, const char *goodput, struct traffic *out,
                 struct lls_error *err)
{
  struct answers all = {0};
  struct lls_workload w;
  *out = (struct traffic){0};
  int rc = build(path, &w, err);
  if (rc < 0)
    return rc;
  rc = read_answers(path, &all, err);
  out->requests = w.n_items;
  out->seconds = (double)w.last_arrival_ns * 1e-9;
  look_at_slos(&w, goodput, out);
  if (rc == 0 && all.n == w.n_items && has_times(&all))
    rc = measure(&w, &all, goodput, &out->metrics, err);
  free(all.items);
  lls_workload_free(&w);
  return rc;
}

void traffic_free(struct traffic *t)
{
  json_decref(t->metrics);
  *t = (struct traffic){0};
}
