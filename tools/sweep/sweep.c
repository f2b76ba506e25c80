/* SPDX-License-Identifier: Apache-2.0 */
/* Runs grids and repeats, prints the table of their results, and decides what a command
 * asks for: grid, search, comparison or plot. */
#include "tools/sweep/sweep.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sweep/grid.h"
#include "tools/sweep/results.h"

#define PATH_SIZE 4096

/* ---- the grid ---------------------------------------------------------------------- */

/* Makes the grid: the axes of --sweep, then the seed if runs are repeated, so that the
 * repeats of a point are adjacent. */
static int make_grid(const struct lls_sweep_options *o, const struct lls_runner *runner,
                     struct lls_grid *grid, struct lls_error *err)
{
  int rc = lls_grid_read(grid, o->sweep, err);
  if (rc == 0 && o->num_runs > 1) {
    char seeds[80];
    int64_t first = lls_first_seed(runner);
    int n = snprintf(seeds, sizeof seeds, LLS_SEED_AXIS "=%lld..%lld", (long long)first,
                     (long long)(first + o->num_runs - 1));
    rc = lls_sweep_add(grid, seeds, (size_t)n, err);
  }
  return rc == 0 ? lls_grid_check(grid, runner, err) : rc;
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

/* Counts the runs in which the scheduler was disabled, so that their numbers are those
 * of the built-in order. */
static size_t switched_off(json_t *const *results, size_t n)
{
  size_t off = 0;
  for (size_t i = 0; i < n; i++)
    off += json_is_true(
        json_object_get(json_object_get(results[i], "machine"), "fallen_back"));
  return off;
}

static void print_switched_off(FILE *out, json_t *const *results, size_t n)
{
  size_t off = switched_off(results, n);
  const char *name = json_string_value(
      json_object_get(json_object_get(results[0], "machine"), "scheduler"));
  if (off == 0)
    return;
  fprintf(out, "    ! %s was switched off for its plans", name != NULL ? name : "");
  if (n > 1)
    fprintf(out, " in %zu of %zu runs", off, n);
  fputs(": from then on the numbers are of the built-in order\n", out);
}

/* Prints the repeats of one point: means, and below them the intervals. */
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

static void print_point(FILE *out, const char *name, json_t *const *results, size_t n)
{
  print_repeats(out, name, results, n);
  print_switched_off(out, results, n);
}

static json_t *read_point(const struct lls_grid *grid, const struct lls_sweep_options *o,
                          size_t point)
{
  char path[PATH_SIZE];
  if (lls_grid_path(grid, o, point, path, sizeof path, NULL) < 0)
    return NULL;
  return lls_result_read(path, NULL);
}

/* done: for each point, whether it has a result. */
static void print_table(const struct lls_grid *grid, const struct lls_sweep_options *o,
                        const bool *done, FILE *out)
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
      if (done[point + i] && (results[n] = read_point(grid, o, point + i)) != NULL)
        n++;
    lls_grid_name_but(grid, point, but, name, sizeof name);
    if (n > 0)
      print_point(out, name[0] != '\0' ? name : "all runs", results, n);
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
  struct lls_plot_source *sources = calloc(points, sizeof *sources);
  int rc = sources == NULL ? lls_fail(err, -ENOMEM, "no memory for the plot") : 0;
  for (size_t point = 0; rc == 0 && point < points; point++) {
    char path[PATH_SIZE];
    rc = lls_grid_path(grid, o, point, path, sizeof path, err);
    if (rc == 0 && (sources[n].path = strdup(path)) != NULL)
      sources[n++].name = "";
  }
  if (rc == 0)
    rc = lls_plot(sources, n, o->plot, err);
  while (n > 0)
    free((char *)sources[--n].path);
  free(sources);
  return rc;
}

static int run_grid(const struct lls_sweep_options *o, const struct lls_runner *runner,
                    FILE *out, struct lls_error *err)
{
  struct lls_grid grid = {0};
  struct lls_grid_tally tally = {0};
  int rc = make_grid(o, runner, &grid, err);
  if (rc < 0) {
    lls_grid_free(&grid);
    return -EINVAL;
  }
  rc = lls_grid_run(&grid, o, runner, &tally, err);
  if (!runner->no_table && tally.done != NULL) {
    print_table(&grid, o, tally.done, out);
    lls_grid_print_tally(&tally, o->result_dir, out);
  }
  if (rc == 0 && o->plot[0] != '\0')
    rc = plot_grid(&grid, o, err);
  free(tally.done);
  lls_grid_free(&grid);
  return rc;
}

/* ---- results that are there -------------------------------------------------------- */

static int plot_results(const struct lls_sweep_options *o, struct lls_error *err)
{
  struct lls_result_files files = {0};
  const char *at = o->plot_results;
  size_t length;
  int rc = 0;
  if (o->plot[0] == '\0')
    return lls_fail(err, -EINVAL, "--plot-results: --plot says where to");
  for (const char *line; rc == 0 && (line = lls_option_next(&at, &length)) != NULL;) {
    char name[LLS_RESULT_NAME], folder[PATH_SIZE];
    const char *equals = memchr(line, '=', length);
    if (equals == NULL)
      rc = lls_fail(err, -EINVAL, "--plot-results: expected NAME=FOLDER, found '%.*s'",
                    (int)length, line);
    else {
      snprintf(name, sizeof name, "%.*s", (int)(equals - line), line);
      snprintf(folder, sizeof folder, "%.*s", (int)(line + length - equals - 1),
               equals + 1);
      rc = lls_result_files_add(&files, name, folder, err);
    }
  }
  struct lls_plot_source *sources = calloc(files.n + 1, sizeof *sources);
  for (size_t i = 0; sources != NULL && i < files.n; i++)
    sources[i] = (struct lls_plot_source){files.list[i].path, files.list[i].name};
  if (rc == 0)
    rc = sources != NULL ? lls_plot(sources, files.n, o->plot, err)
                         : lls_fail(err, -ENOMEM, "no memory for the plot");
  free(sources);
  lls_result_files_free(&files);
  return rc;
}

/* ---- all of it --------------------------------------------------------------------- */

bool lls_sweep_wanted(const struct lls_sweep_options *o)
{
  return o->compare[0] != '\0' || o->plot_results[0] != '\0' || o->sweep[0] != '\0' ||
         o->num_runs > 1 || !isnan(o->find_rate);
}

int lls_sweep(const struct lls_sweep_options *o, const struct lls_runner *runner,
              FILE *out, struct lls_error *err)
{
  if (o->compare[0] != '\0')
    return lls_compare(o->compare, out, err);
  int rc = o->plot[0] != '\0' ? lls_plot_check(o->plot, err) : 0;
  if (rc < 0)
    return rc;
  if (o->plot_results[0] != '\0')
    return plot_results(o, err);
  return isnan(o->find_rate) ? run_grid(o, runner, out, err)
                             : lls_find_rates(o, runner, out, err);
}
