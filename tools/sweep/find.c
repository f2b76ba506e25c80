/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --find-rate: finds the highest rate that keeps an attainment, for each point of
 * --sweep and, with --num-runs, for each seed; the rates of the seeds give a mean and
 * an interval. Every search doubles its rate from the low end until the attainment is
 * missed, then halves the bracket. All searches advance together, one rate each in a
 * round, so that their runs keep all jobs busy.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/report.h"
#include "tools/sweep/grid.h"
#include "tools/sweep/results.h"

#define PATH_SIZE 4096
#define TRIES_MAX 60

struct search {
  size_t point; /* index in the base grid */
  int64_t seed;
  double rate;      /* the next rate to try */
  double low, high; /* highest attained, 0: none; lowest missed, infinity: none */
  bool over;
};

struct finding {
  const struct lls_sweep_options *options;
  const struct lls_runner *runner;
  struct lls_grid base;    /* the grid of --sweep */
  struct search *searches; /* (n); the seeds of a point are adjacent */
  size_t n;
  struct lls_grid_tally tally;
  struct lls_plot_source *tried; /* (n_tried); the paths are owned */
  size_t n_tried;
  FILE *out;
  struct lls_error *err;
};

/* ---- one search -------------------------------------------------------------------- */

static void advance(const struct lls_sweep_options *o, struct search *s, double attained)
{
  if (attained >= o->find_rate)
    s->low = s->rate;
  else
    s->high = s->rate;
  s->over = s->low == 0 || s->low >= o->find_rate_high ||
            (isfinite(s->high) && s->high - s->low <= o->find_rate_tolerance * s->high);
  s->rate =
      isinf(s->high) ? fmin(2 * s->rate, o->find_rate_high) : (s->low + s->high) / 2;
}

/* ---- a round ----------------------------------------------------------------------- */

static int add_run(const struct finding *f, const struct search *s, struct lls_grid *grid)
{
  char text[32];
  int rc = 0;
  for (size_t axis = 0; rc == 0 && axis < f->base.n_axes; axis++)
    rc = lls_grid_append(grid, f->base.axes[axis].name,
                         lls_grid_value(&f->base, s->point, axis), f->err);
  snprintf(text, sizeof text, "%.6g", s->rate);
  if (rc == 0)
    rc = lls_grid_append(grid, LLS_RATE_AXIS, text, f->err);
  if (rc < 0 || f->options->num_runs == 1)
    return rc;
  snprintf(text, sizeof text, "%lld", (long long)s->seed);
  return lls_grid_append(grid, LLS_SEED_AXIS, text, f->err);
}

static void print_try(const struct finding *f, const struct lls_grid *grid, size_t point,
                      double rate, double attained)
{
  char name[LLS_RESULT_NAME];
  if (f->runner->no_table)
    return;
  lls_grid_name(grid, point, name, sizeof name);
  if (f->n > 1)
    fprintf(f->out, "%-40s", name);
  fprintf(f->out, "%12.4g req/s %8.2f %%\n", rate, 100 * attained);
}

static int keep_path(struct finding *f, const char *path)
{
  struct lls_plot_source *tried = reallocarray(f->tried, f->n_tried + 1, sizeof *tried);
  if (tried == NULL)
    return lls_fail(f->err, -ENOMEM, "no memory for paths");
  f->tried = tried;
  tried[f->n_tried] = (struct lls_plot_source){.path = strdup(path), .name = ""};
  if (tried[f->n_tried].path == NULL)
    return lls_fail(f->err, -ENOMEM, "no memory for paths");
  f->n_tried++;
  return 0;
}

/* Passes the attainment of one of the round's runs to its search. */
static int take_result(struct finding *f, const struct lls_grid *grid, size_t point,
                       struct search *s)
{
  char path[PATH_SIZE];
  int rc = lls_grid_path(grid, f->options, point, path, sizeof path, f->err);
  if (rc == 0)
    rc = keep_path(f, path);
  json_t *result = rc == 0 ? lls_result_read(path, f->err) : NULL;
  if (result == NULL)
    return rc < 0 ? rc : -EIO;
  double attained = lls_result_number(result, "slo_attainment.all");
  json_decref(result);
  if (isnan(attained))
    return lls_fail(f->err, -EINVAL,
                    "--find-rate: no request has an SLO; set --goodput or --slo-...");
  print_try(f, grid, point, s->rate, attained);
  advance(f->options, s, attained);
  return 0;
}

/* Runs one rate of each search that is not over. Returns 1 if there was one. */
static int run_round(struct finding *f)
{
  struct lls_grid grid = {.listed = true};
  size_t point = 0;
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < f->n; i++)
    if (!f->searches[i].over)
      rc = add_run(f, &f->searches[i], &grid);
  bool any = lls_grid_points(&grid) > 0;
  if (rc == 0 && any && lls_grid_check(&grid, f->runner, f->err) < 0)
    rc = -EINVAL;
  if (rc == 0 && any)
    rc = lls_grid_run(&grid, f->options, f->runner, &f->tally, f->err);
  for (size_t i = 0; rc == 0 && i < f->n; i++)
    if (!f->searches[i].over)
      rc = take_result(f, &grid, point++, &f->searches[i]);
  lls_grid_free(&grid);
  return rc < 0 ? rc : any;
}

/* ---- what was found ---------------------------------------------------------------- */

struct found {
  struct lls_interval rate;
  double missed;     /* mean of the lowest missed rates */
  bool below, above; /* some seed attains it at no rate; at every rate */
};

static struct found found_of(const struct finding *f, size_t first)
{
  struct found out = {.missed = 0};
  size_t repeats = (size_t)f->options->num_runs;
  double *rates = calloc(repeats, sizeof *rates);
  for (size_t i = 0; rates != NULL && i < repeats; i++) {
    const struct search *s = &f->searches[first + i];
    rates[i] = s->low;
    out.missed += s->high / (double)repeats;
    out.below |= s->low == 0;
    out.above |= isinf(s->high);
  }
  out.rate = lls_bootstrap(rates, rates != NULL ? repeats : 0);
  free(rates);
  return out;
}

static void print_rate(FILE *out, double value)
{
  if (isfinite(value))
    fprintf(out, " %9.4g", value);
  else
    fprintf(out, " %9s", "-");
}

static void print_found(const struct finding *f)
{
  const struct lls_sweep_options *o = f->options;
  fprintf(f->out, "highest rate at which %g %% of all requests meet their SLOs, req/s\n",
          100 * o->find_rate);
  fprintf(f->out, "%-40s %9s %9s %9s %9s\n", "", o->num_runs > 1 ? "mean" : "rate",
          "95 % from", "to", "not at");
  for (size_t i = 0; i < f->n; i += (size_t)o->num_runs) {
    const struct found found = found_of(f, i);
    char name[LLS_RESULT_NAME];
    lls_grid_name(&f->base, f->searches[i].point, name, sizeof name);
    fprintf(f->out, "%-40s", name[0] != '\0' ? name : "all runs");
    if (found.below || found.above) {
      fprintf(f->out, " %s %g\n", found.below ? "below" : "above",
              found.below ? o->find_rate_low : o->find_rate_high);
      continue;
    }
    print_rate(f->out, found.rate.mean);
    print_rate(f->out, found.rate.low);
    print_rate(f->out, found.rate.high);
    print_rate(f->out, found.missed);
    fputc('\n', f->out);
  }
}

static void print_one(const struct finding *f)
{
  const struct lls_sweep_options *o = f->options;
  const struct search *s = f->searches;
  if (s->low == 0)
    fprintf(f->out, "%g %% is not attained at %g req/s, where the search begins\n",
            100 * o->find_rate, o->find_rate_low);
  else if (isinf(s->high))
    fprintf(f->out, "%g %% is still attained at %g req/s, where the search ends\n",
            100 * o->find_rate, s->low);
  else
    fprintf(f->out, "%g %% is attained up to %.4g req/s, and not at %.4g\n",
            100 * o->find_rate, s->low, s->high);
}

static json_t *number(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}

static json_t *point_json(const struct finding *f, size_t first)
{
  const struct found found = found_of(f, first);
  json_t *seeds = json_array(), *low = json_array(), *high = json_array();
  char name[LLS_RESULT_NAME];
  lls_grid_name(&f->base, f->searches[first].point, name, sizeof name);
  for (size_t i = first; i < first + (size_t)f->options->num_runs; i++) {
    json_array_append_new(seeds, json_integer(f->searches[i].seed));
    json_array_append_new(low, json_real(f->searches[i].low));
    json_array_append_new(high, number(f->searches[i].high));
  }
  return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "point", name, "seeds", seeds,
                   "attained", low, "missed", high, "mean", number(found.rate.mean),
                   "low", number(found.rate.low), "high", number(found.rate.high));
}

static int write_found(const struct finding *f)
{
  char path[PATH_SIZE];
  json_t *points = json_array();
  for (size_t i = 0; i < f->n; i += (size_t)f->options->num_runs)
    json_array_append_new(points, point_json(f, i));
  json_t *all =
      json_pack("{s:f, s:o}", "find_rate", f->options->find_rate, "points", points);
  snprintf(path, sizeof path, "%.4000s/" LLS_FOUND_RATES, f->options->result_dir);
  int rc = all != NULL ? lls_report_write(all, path, f->err)
                       : lls_fail(f->err, -ENOMEM, "no memory for rates");
  json_decref(all);
  return rc;
}

/* ---- all of it --------------------------------------------------------------------- */

static int prepare(struct finding *f)
{
  const struct lls_sweep_options *o = f->options;
  int rc = lls_grid_read(&f->base, o->sweep, f->err);
  if (rc < 0)
    return -EINVAL;
  if (f->base.n_axes > LLS_AXES_MAX - 2) /* the rate and the seed are axes, too */
    return lls_fail(f->err, -EINVAL, "--find-rate: at most %d options in --sweep",
                    LLS_AXES_MAX - 2);
  for (size_t i = 0; i < f->base.n_axes; i++)
    if (strcmp(f->base.axes[i].name, LLS_RATE_AXIS) == 0 ||
        strcmp(f->base.axes[i].name, "request_rate") == 0)
      return lls_fail(f->err, -EINVAL,
                      "--find-rate looks for --request-rate, so --sweep can't set it");
  size_t repeats = (size_t)o->num_runs;
  f->n = lls_grid_points(&f->base) * repeats;
  f->searches = calloc(f->n, sizeof *f->searches);
  if (f->searches == NULL)
    return lls_fail(f->err, -ENOMEM, "no memory for %zu searches", f->n);
  for (size_t i = 0; i < f->n; i++)
    f->searches[i] =
        (struct search){.point = i / repeats,
                        .seed = lls_first_seed(f->runner) + (int64_t)(i % repeats),
                        .rate = o->find_rate_low,
                        .high = INFINITY};
  return 0;
}

static int find(struct finding *f)
{
  int rc = prepare(f);
  for (int round = 0, more = 1; rc == 0 && more > 0 && round < TRIES_MAX; round++) {
    more = run_round(f);
    rc = more < 0 ? more : 0;
  }
  if (rc < 0)
    return rc;
  if (f->n > 1)
    print_found(f);
  else
    print_one(f);
  if (!f->runner->no_table)
    lls_grid_print_tally(&f->tally, f->options->result_dir, f->out);
  rc = write_found(f);
  if (rc == 0 && f->options->plot[0] != '\0')
    rc = lls_plot(f->tried, f->n_tried, f->options->plot, f->err);
  return rc;
}

int lls_find_rates(const struct lls_sweep_options *o, const struct lls_runner *runner,
                   FILE *out, struct lls_error *err)
{
  struct finding f = {.options = o, .runner = runner, .out = out, .err = err};
  int rc = find(&f);
  while (f.n_tried > 0)
    free((char *)f.tried[--f.n_tried].path);
  free(f.tried);
  free(f.searches);
  free(f.tally.done);
  lls_grid_free(&f.base);
  return rc;
}
