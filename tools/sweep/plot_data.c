/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the data of a plot; see plot_data.h. */
#include "tools/sweep/plot_data.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sweep/grid.h"

/* ---- labels ------------------------------------------------------------------------ */

static bool is_part(const char *part, size_t length, const char *name)
{
  size_t n = strlen(name);
  return length > n && strncmp(part, name, n) == 0 && part[n] == '=';
}

static void add_word(char out[LLS_PLOT_LABEL], const char *word, size_t length)
{
  size_t used = strlen(out);
  snprintf(out + used, LLS_PLOT_LABEL - used, "%s%.*s", used > 0 ? " " : "", (int)length,
           word);
}

/* Returns the length of a name without ".ini": "apt.ini" is "apt". */
static size_t without_ini(const char *name, size_t length)
{
  bool ini = length > 4 && strncmp(name + length - 4, ".ini", 4) == 0;
  return ini ? length - 4 : length;
}

/*
 * Makes a run's label from the name given to its source, its --label, and the swept
 * options: "request-rate=2_config=apt.ini_tenants=3_seed=1.json" becomes "apt
 * tenants=3". The name of a file that belongs to no sweep is used only if there is no
 * other label.
 */
static void label(struct lls_plot_run *run, const struct lls_plot_source *source)
{
  const char *slash = strrchr(source->path, '/');
  const char *at = slash != NULL ? slash + 1 : source->path;
  const char *given = json_string_value(json_object_get(run->result, "label"));
  size_t left = strlen(at);
  if (left > 5 && strcmp(at + left - 5, ".json") == 0)
    left -= 5;
  add_word(run->series, source->name, strlen(source->name));
  if (given != NULL)
    add_word(run->series, given, strlen(given));
  if (memchr(at, '=', left) == NULL) {
    if (run->series[0] == '\0')
      add_word(run->series, at, left);
    return;
  }
  while (left > 0) {
    const char *end = memchr(at, '_', left);
    size_t part = end != NULL ? (size_t)(end - at) : left;
    if (is_part(at, part, LLS_RATE_AXIS))
      run->rate = strtod(at + strlen(LLS_RATE_AXIS) + 1, NULL);
    else if (is_part(at, part, "config"))
      add_word(run->series, at + 7, without_ini(at + 7, part - 7));
    else if (!is_part(at, part, LLS_SEED_AXIS))
      add_word(run->series, at, part);
    left -= end != NULL ? part + 1 : part;
    at += end != NULL ? part + 1 : part;
  }
}

/* ---- runs -------------------------------------------------------------------------- */

static int in_order(const void *a, const void *b)
{
  const struct lls_plot_run *x = a, *y = b;
  if (x->order != y->order)
    return x->order < y->order ? -1 : 1;
  return (x->rate > y->rate) - (x->rate < y->rate);
}

static size_t order_of(const struct lls_plot_runs *runs, const char *series)
{
  size_t next = 0;
  for (size_t i = 0; i < runs->n; i++) {
    if (strcmp(runs->list[i].series, series) == 0)
      return runs->list[i].order;
    if (runs->list[i].order >= next)
      next = runs->list[i].order + 1;
  }
  return next;
}

int lls_plot_read(const struct lls_plot_source *sources, size_t n,
                  struct lls_plot_runs *out, struct lls_error *err)
{
  *out = (struct lls_plot_runs){.list = calloc(n + 1, sizeof *out->list)};
  if (out->list == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the plot");
  for (size_t i = 0; i < n; i++) {
    struct lls_plot_run *run = &out->list[out->n];
    run->result = lls_result_read(sources[i].path, err);
    if (run->result == NULL) {
      lls_plot_free(out);
      return -EINVAL;
    }
    run->rate = lls_result_number(run->result, "request_rate");
    label(run, &sources[i]);
    run->order = order_of(out, run->series);
    out->n++;
  }
  qsort(out->list, out->n, sizeof *out->list, in_order);
  return 0;
}

void lls_plot_free(struct lls_plot_runs *runs)
{
  for (size_t i = 0; i < runs->n; i++)
    json_decref(runs->list[i].result);
  free(runs->list);
  *runs = (struct lls_plot_runs){0};
}

struct lls_plot_part lls_plot_series(const struct lls_plot_runs *runs, size_t from)
{
  size_t end = from;
  while (end < runs->n && runs->list[end].order == runs->list[from].order)
    end++;
  return (struct lls_plot_part){from, end};
}

struct lls_plot_part lls_plot_repeats(const struct lls_plot_runs *runs, size_t from)
{
  size_t end = from;
  while (end < runs->n && in_order(&runs->list[end], &runs->list[from]) == 0)
    end++;
  return (struct lls_plot_part){from, end};
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

size_t lls_plot_values(const struct lls_plot_runs *runs, struct lls_plot_part part,
                       const char *key, double **values)
{
  size_t n = 0;
  *values = NULL;
  for (size_t i = part.from; i < part.end; i++) {
    const json_t *list =
        json_object_get(json_object_get(runs->list[i].result, "quantiles"), key);
    double *more = reallocarray(*values, n + json_array_size(list) + 1, sizeof *more);
    if (more == NULL)
      break;
    *values = more;
    for (size_t q = 0; q < json_array_size(list); q++)
      more[n++] = json_number_value(json_array_get(list, q));
  }
  if (n > 1)
    qsort(*values, n, sizeof **values, ascending);
  return n;
}

struct lls_interval lls_plot_interval(const struct lls_plot_runs *runs,
                                      struct lls_plot_part part, const char *key)
{
  double *values = calloc(part.end - part.from, sizeof *values);
  size_t n = values != NULL ? part.end - part.from : 0;
  for (size_t i = 0; i < n; i++)
    values[i] = lls_result_number(runs->list[part.from + i].result, key);
  struct lls_interval out = lls_bootstrap(values, n);
  if (isnan(out.low)) /* there is only one value */
    out.low = out.high = out.mean;
  free(values);
  return out;
}

/* ---- what all have in common ------------------------------------------------------- */

static bool has_rate(const struct lls_plot_runs *runs, struct lls_plot_part series,
                     double rate)
{
  for (size_t i = series.from; i < series.end; i++)
    if (runs->list[i].rate == rate)
      return true;
  return false;
}

static bool all_have(const struct lls_plot_runs *runs, double rate)
{
  for (size_t i = 0; i < runs->n;) {
    struct lls_plot_part series = lls_plot_series(runs, i);
    if (!has_rate(runs, series, rate))
      return false;
    i = series.end;
  }
  return true;
}

double lls_plot_common_rate(const struct lls_plot_runs *runs)
{
  double best = NAN;
  struct lls_plot_part first = lls_plot_series(runs, 0);
  for (size_t i = first.from; i < first.end; i++)
    if (isfinite(runs->list[i].rate) && all_have(runs, runs->list[i].rate))
      best = runs->list[i].rate;
  return best;
}

struct lls_plot_part lls_plot_at(const struct lls_plot_runs *runs,
                                 struct lls_plot_part series, double rate)
{
  struct lls_plot_part part = {series.from, series.from};
  while (part.end < series.end) {
    part = lls_plot_repeats(runs, part.end);
    if (runs->list[part.from].rate == rate)
      break;
  }
  return part;
}

static const json_t *at(const json_t *object, const char *path)
{
  char key[64];
  while (path != NULL) {
    size_t length = strcspn(path, ".");
    snprintf(key, sizeof key, "%.*s", (int)length, path);
    object = json_object_get(object, key);
    path = path[length] == '.' ? path + length + 1 : NULL;
  }
  return object;
}

/* Returns the member if it is equal in all runs, else NULL. */
static const json_t *common(const struct lls_plot_runs *runs, const char *path)
{
  const json_t *first = runs->n > 0 ? at(runs->list[0].result, path) : NULL;
  for (size_t i = 1; i < runs->n; i++)
    if (!json_equal(first, at(runs->list[i].result, path)))
      return NULL;
  return first;
}

static void print_time(FILE *out, double ms)
{
  if (ms >= 1000)
    fprintf(out, "%g s", ms / 1000);
  else
    fprintf(out, "%g ms", ms);
}

static void print_slos(FILE *out, const json_t *slos)
{
  static const char *const names[][2] = {
      {"ttft_ms", "TTFT"},       {"tbt_ms", "TBT"},
      {"tpot_ms", "TPOT"},       {"e2el_ms", "completion"},
      {"itl_p99_ms", "P99 TBT"}, {"itl_max_ms", "largest TBT"}};
  const char *between = "\\nSLOs: ";
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const json_t *range = json_object_get(slos, names[i][0]);
    double least = json_number_value(json_array_get(range, 0));
    double most = json_number_value(json_array_get(range, 1));
    if (range == NULL)
      continue;
    fprintf(out, "%s%s ", between, names[i][1]);
    between = ", ";
    print_time(out, least);
    if (most > least) {
      fputs(" to ", out);
      print_time(out, most);
    }
  }
}

void lls_plot_title(const struct lls_plot_runs *runs, char *text, size_t size)
{
  const char *model = json_string_value(common(runs, "model_id"));
  const char *device = json_string_value(common(runs, "machine.device"));
  const char *workload = json_string_value(common(runs, "workload"));
  const json_t *requests = common(runs, "num_prompts");
  FILE *out = fmemopen(text, size, "w");
  text[0] = '\0';
  if (out == NULL)
    return;
  if (model != NULL)
    fprintf(out, "%s%s%s", model, device != NULL ? " on " : "",
            device != NULL ? device : "");
  if (workload != NULL)
    fprintf(out, "%s%s", model != NULL ? ", " : "", workload);
  if (json_is_integer(requests))
    fprintf(out, "%s%lld requests", model != NULL || workload != NULL ? ", " : "",
            (long long)json_integer_value(requests));
  print_slos(out, common(runs, "slos"));
  fclose(out);
}
