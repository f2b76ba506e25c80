/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many runs from one command: grids (--sweep), repeats (--num-runs) and the search for
 * the highest rate that keeps an attainment (--find-rate).
 *
 * A run is a child process with the options of its point, which writes one JSON file
 * into the result folder. A point is not run again if its file was made by the same
 * program, options, files, plugins and server (made_by.h), so a sweep that was stopped
 * continues; results of other origins are run again. A file is moved there when it is
 * complete.
 */
#ifndef LLS_SWEEP_H
#define LLS_SWEEP_H

#include <jansson.h>
#include <stdbool.h>

#include "tools/cli/cli.h"

struct lls_sweep_options {
  const char *sweep; /* lines of NAME=VALUES */
  int64_t num_runs;
  int64_t jobs;
  const char *result_dir;
  double find_rate; /* NaN: no search */
  double find_rate_low, find_rate_high, find_rate_tolerance;
  const char *plot;
  const char *plot_results; /* lines of NAME=FOLDER */
  const char *compare;      /* two lines, each a path */
};

extern const struct lls_option_group lls_sweep_option_group;

/* How a tool does one run, in a separate process, with the options as they are set. */
struct lls_runner {
  /* Returns everything that affects the run's result (made_by.h). NULL with an error:
   * it cannot run. */
  json_t *(*made_by)(void *context, struct lls_error *err);
  /* Does the run and writes its result to path, with made_by as a member. */
  int (*run)(void *context, const char *path, json_t *made_by, struct lls_error *err);
  void *context;
  const struct lls_bound_options *bound; /* (n) the options that a point may set */
  size_t n;
  bool quiet;    /* no progress is shown */
  bool no_table; /* no tables of a grid and of the rates that a search tries */
  bool at_once;  /* several runs may run concurrently without disturbing each other */
};

/* Do the options ask for more than one run? */
bool lls_sweep_wanted(const struct lls_sweep_options *);

/*
 * Does all runs, prints a table to out and draws the plot. -EINVAL: the options are
 * wrong, and nothing was run. Another error: a run failed and has reported why; the
 * other runs were done.
 */
int lls_sweep(const struct lls_sweep_options *, const struct lls_runner *, FILE *out,
              struct lls_error *err);

/* Compares two results or folders of results. -EINVAL: one of them is none. */
int lls_compare(const char *paths, FILE *out, struct lls_error *err);

struct lls_plot_source {
  const char *path; /* path of a result */
  const char *name; /* prefix of its series' label; "": none */
};

/* Checks that a plot can be drawn, before anything runs. -EINVAL with an error if
 * gnuplot is missing. */
int lls_plot_check(const char *svg, struct lls_error *err);
/* Draws finished runs (n) to an SVG; a single run also gets its timeline. -EIO with an
 * error: drawing failed; the results are unchanged. */
int lls_plot(const struct lls_plot_source *, size_t n, const char *svg,
             struct lls_error *err);

#endif
