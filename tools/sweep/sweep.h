/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many runs from one command: grids (--sweep), repeats (--num-runs) and the search for
 * the highest rate that keeps an attainment (--find-rate).
 *
 * A run is a child process that has the options of its point set and writes one JSON into
 * the result folder. A point whose file is there is not run again if the file was made by
 * the same program, options, files, plugins and server (made_by.h), so a sweep that was
 * stopped goes on where it was; what was made by anything else is run again. A file is
 * moved there when it is complete.
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
  double find_rate; /* NaN: not asked for */
  double find_rate_low, find_rate_high, find_rate_tolerance;
  const char *plot;
  const char *plot_results; /* lines of NAME=FOLDER */
  const char *compare;      /* lines: two paths */
};

extern const struct lls_option_group lls_sweep_option_group;

/* How a tool does one run, in a process of its own, with the options as they are set. */
struct lls_runner {
  /* Everything that decides the run's result (made_by.h); NULL with a sentence: it can't
   * be run. */
  json_t *(*made_by)(void *context, struct lls_error *err);
  /* The result to path, with made_by as its member of that name. */
  int (*run)(void *context, const char *path, json_t *made_by, struct lls_error *err);
  void *context;
  const struct lls_bound_options *bound; /* (n) what a point may set */
  size_t n;
  bool quiet;    /* no progress is shown */
  bool no_table; /* of a grid, and of the rates that a search tries */
  bool at_once;  /* runs side by side do not disturb each other */
};

/* Is there more than one run to do? */
bool lls_sweep_wanted(const struct lls_sweep_options *);

/*
 * Does all of it, prints a table to out and draws the plot. -EINVAL: the options are
 * wrong, and nothing was run; another error: a run failed (it has said why), the others
 * were done.
 */
int lls_sweep(const struct lls_sweep_options *, const struct lls_runner *, FILE *out,
              struct lls_error *err);

/* Two results or folders of results, side by side; -EINVAL: they are none. */
int lls_compare(const char *paths, FILE *out, struct lls_error *err);

struct lls_plot_source {
  const char *path; /* of a result */
  const char *name; /* put before its series; "": nothing */
};

/* Can a plot be drawn? To be asked before anything is run: -EINVAL with a sentence where
 * there is no gnuplot. */
int lls_plot_check(const char *svg, struct lls_error *err);
/* Draws finished runs (n) to an SVG; a run alone gets its timeline too. -EIO with a
 * sentence: it could not; the results are as they were. */
int lls_plot(const struct lls_plot_source *, size_t n, const char *svg,
             struct lls_error *err);

#endif
