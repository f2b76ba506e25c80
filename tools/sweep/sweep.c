/* SPDX-License-Identifier: Apache-2.0 */
/* Grids, repeats and the search for a rate, and the table of what they found. */
#include "tools/sweep/sweep.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sweep/grid.h"
#include "tools/sweep/results.h"

#define SEEDS_AXIS "seed"
#define PATH_SIZE  4096
#define TRIES_MAX  60

bool lls_sweep_wanted(const struct lls_sweep_options *o)
{
  return o->compare[0] != '\0' || o->sweep[0] != '\0' || o->num_runs > 1 ||
         !isnan(o->find_rate);
}

/* ---- the grid ---------------------------------------------------------------------- */

static int64_t first_seed(const struct lls_runner *runner)
{
  for (size_t i = 0; i < runner->n; i++) {
    const struct lls_param *p =
        lls_param_find(&runner->bound[i].group->table, SEEDS_AXIS);
    if (p != NULL)
      return *(const int64_t *)((const char *)runner->bound[i].values + p->offset);
  }
  return 0;
}

/* The axes of --sweep, then seeds where runs are repeated: repeats of a point are
 * together. */
static int make_grid(const struct lls_sweep_options *o, const struct lls_runner *runner,
                     struct lls_grid *grid, struct lls_error *err)
{
  const char *at = o->sweep;
  size_t length;
  int rc = 0;
  for (const char *line; rc == 0 && (line = lls_option_next(&at, &length)) != NULL;)
    rc = lls_grid_add(grid, line, length, err);
  if (rc == 0 && o->num_runs > 1) {
    char seeds[80];
    int64_t first = first_seed(runner);
    int n = snprintf(seeds, sizeof seeds, SEEDS_AXIS "=%lld..%lld", (long long)first,
                     (long long)(first + o->num_runs - 1));
    rc = lls_grid_add(grid, seeds, (size_t)n, err);
  }
  for (size_t point = 0; rc == 0 && point < lls_grid_points(grid); point++)
    rc = lls_grid_apply(grid, point, runner, err);
  return rc;
}

/* ---- the table --------------------------------------------------------------------- */

static void print_number(FILE *out, double value)
{
  if (isnan(value))
    fprintf(out, " %9s", "-");
  else
    fprintf(out, " %9.*f", fabs(value) < 100 ? 2 : 1, value);
}

static void print_titles(FILE *out, const char *first)
{
  fprintf(out, "%-40s", first);
  for (size_t c = 0; c < LLS_RESULT_COLUMNS; c++)
    fprintf(out, " %9s", lls_result_columns[c].title);
  fputc('\n', out);
}

/* The repeats of one point: means, and below them the intervals. */
static void print_repeats(FILE *out, const char *name, json_t *const *results, size_t n)
{
  struct lls_interval intervals[LLS_RESULT_COLUMNS];
  double *values = calloc(n, sizeof *values);
  if (values == NULL)
    return;
  for (size_t c = 0; c < LLS_RESULT_COLUMNS; c++) {
    for (size_t i = 0; i < n; i++)
      values[i] = lls_result_columns[c].scale *
                  lls_result_number(results[i], lls_result_columns[c].path);
    intervals[c] = lls_bootstrap(values, n);
  }
  free(values);
  fprintf(out, "%-40s", name);
  for (size_t c = 0; c < LLS_RESULT_COLUMNS; c++)
    print_number(out, intervals[c].mean);
  for (int edge = 0; n > 1 && edge < 2; edge++) {
    fprintf(out, "\n%-40s", edge == 0 ? "    95 % from" : "         to");
    for (size_t c = 0; c < LLS_RESULT_COLUMNS; c++)
      print_number(out, edge == 0 ? intervals[c].low : intervals[c].high);
  }
  if (n > 1) {
    fprintf(out, "\n%-40s", "    variation, %");
    for (size_t c = 0; c < LLS_RESULT_COLUMNS; c++)
      print_number(out, 100 * intervals[c].cv);
  }
  fputc('\n', out);
}

static json_t *read_point(const struct lls_grid *grid, const struct lls_sweep_options *o,
                          size_t point)
{
  char path[PATH_SIZE];
  if (lls_grid_path(grid, o, point, path, sizeof path, NULL) < 0)
    return NULL;
  return lls_result_read(path, NULL);
}

static void print_table(const struct lls_grid *grid, const struct lls_sweep_options *o,
                        FILE *out)
{
  size_t repeats = (size_t)o->num_runs, points = lls_grid_points(grid);
  size_t but = repeats > 1 ? grid->n_axes - 1 : LLS_AXES_MAX;
  json_t **results = calloc(repeats, sizeof(json_t *));
  if (results == NULL)
    return;
  print_titles(out, repeats > 1 ? "means of repeated runs (times in ms)" : "times in ms");
  for (size_t point = 0; point + repeats <= points; point += repeats) {
    char name[256];
    size_t n = 0;
    for (size_t i = 0; i < repeats; i++)
      if ((results[n] = read_point(grid, o, point + i)) != NULL)
        n++;
    lls_grid_name_but(grid, point, but, name, sizeof name);
    if (n > 0)
      print_repeats(out, name[0] != '\0' ? name : "all runs", results, n);
    else
      fprintf(out, "%-40s failed\n", name);
    while (n > 0)
      json_decref(results[--n]);
  }
  free(results);
}

static int plot_grid(const struct lls_grid *grid, const struct lls_sweep_options *o,
                     struct lls_error *err)
{
  size_t points = lls_grid_points(grid), n = 0;
  char **paths = calloc(points, sizeof(char *));
  int rc = paths == NULL ? lls_fail(err, -ENOMEM, "no memory for the plot") : 0;
  for (size_t point = 0; rc == 0 && point < points; point++) {
    char path[PATH_SIZE];
    rc = lls_grid_path(grid, o, point, path, sizeof path, err);
    if (rc == 0 && (paths[n] = strdup(path)) != NULL)
      n++;
  }
  if (rc == 0)
    rc = lls_plot((const char *const *)paths, n, o->plot, err);
  while (n > 0)
    free(paths[--n]);
  free(paths);
  return rc;
}

static int run_grid(const struct lls_sweep_options *o, const struct lls_runner *runner,
                    FILE *out, struct lls_error *err)
{
  struct lls_grid grid = {0};
  int rc = make_grid(o, runner, &grid, err);
  if (rc < 0) {
    lls_grid_free(&grid);
    return -EINVAL;
  }
  rc = lls_grid_run(&grid, o, runner, err);
  print_table(&grid, o, out);
  if (rc == 0 && o->plot[0] != '\0')
    rc = plot_grid(&grid, o, err);
  lls_grid_free(&grid);
  return rc;
}

/* ---- the highest rate -------------------------------------------------------------- */

struct search {
  const struct lls_sweep_options *options;
  const struct lls_runner *runner;
  FILE *out;
  struct lls_error *err;
};

/* Runs one rate (and its repeats); the mean attainment in *attained. */
static int try_rate(const struct search *s, double rate, double *attained)
{
  struct lls_sweep_options one = *s->options;
  struct lls_grid grid = {0};
  char axis[64];
  snprintf(axis, sizeof axis, "request-rate=%.6g", rate);
  one.sweep = axis;
  int rc = make_grid(&one, s->runner, &grid, s->err);
  if (rc == 0)
    rc = lls_grid_run(&grid, &one, s->runner, s->err);
  *attained = 0;
  size_t n = lls_grid_points(&grid);
  for (size_t point = 0; rc == 0 && point < n; point++) {
    json_t *result = read_point(&grid, &one, point);
    *attained += lls_result_number(result, "slo_attainment.all") / (double)n;
    json_decref(result);
  }
  lls_grid_free(&grid);
  if (rc == 0 && isnan(*attained))
    return lls_fail(s->err, -EINVAL,
                    "--find-rate: no request has an SLO; set --goodput or --slo-...");
  if (rc == 0)
    fprintf(s->out, "%12.4g req/s %8.2f %%\n", rate, 100 * *attained);
  return rc;
}

/* Doubles from the low end until a rate misses; then halves the bracket. */
static int find_rate(const struct search *s, double *low, double *high)
{
  const struct lls_sweep_options *o = s->options;
  double rate = o->find_rate_low, attained;
  *low = 0;
  *high = INFINITY;
  for (int i = 0; i < TRIES_MAX; i++) {
    int rc = try_rate(s, rate, &attained);
    if (rc < 0)
      return rc;
    if (attained >= o->find_rate)
      *low = rate;
    else
      *high = rate;
    if (*low == 0 || *low >= o->find_rate_high ||
        (isfinite(*high) && *high - *low <= o->find_rate_tolerance * *high))
      return 0;
    rate = isinf(*high) ? fmin(2 * rate, o->find_rate_high) : (*low + *high) / 2;
  }
  return 0;
}

static int search_rate(const struct lls_sweep_options *o, const struct lls_runner *runner,
                       FILE *out, struct lls_error *err)
{
  const struct search s = {o, runner, out, err};
  double low, high;
  if (o->sweep[0] != '\0')
    return lls_fail(err, -EINVAL, "--find-rate and --sweep: expected one of them");
  int rc = find_rate(&s, &low, &high);
  if (rc < 0)
    return rc;
  if (low == 0)
    fprintf(out, "%g %% is not attained at %g req/s, where the search begins\n",
            100 * o->find_rate, o->find_rate_low);
  else if (isinf(high))
    fprintf(out, "%g %% is still attained at %g req/s, where the search ends\n",
            100 * o->find_rate, low);
  else
    fprintf(out, "%g %% is attained up to %.4g req/s, and not at %.4g\n",
            100 * o->find_rate, low, high);
  return 0;
}

int lls_sweep(const struct lls_sweep_options *o, const struct lls_runner *runner,
              FILE *out, struct lls_error *err)
{
  if (o->compare[0] != '\0')
    return lls_compare(o->compare, out, err);
  return isnan(o->find_rate) ? run_grid(o, runner, out, err)
                             : search_rate(o, runner, out, err);
}
