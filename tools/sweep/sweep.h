/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many runs from one command: grids (--sweep), repeats (--num-runs) and the search for
 * the highest rate that keeps an attainment (--find-rate).
 *
 * A run is a child process that has the options of its point set and writes one JSON into
 * the result folder; a point whose file is there is not run again, so a sweep that was
 * stopped goes on where it was. Since a file is moved there when it is complete, one that
 * exists can be trusted.
 */
#ifndef LLS_SWEEP_H
#define LLS_SWEEP_H

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
  const char *compare; /* lines: two paths */
};

extern const struct lls_option_group lls_sweep_option_group;

/* How a tool does one run, in a process of its own: with the options as they are set now,
 * the result to path. */
struct lls_runner {
  int (*run)(void *context, const char *path, struct lls_error *err);
  void *context;
  const struct lls_bound_options *bound; /* (n) what a point may set */
  size_t n;
  bool quiet;   /* no progress on a terminal */
  bool at_once; /* runs side by side do not disturb each other */
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

/* Draws finished runs (paths, n of them) to an SVG; a run alone gets its timeline too.
 * -ENOENT with a sentence where there is no gnuplot. */
int lls_plot(const char *const *paths, size_t n, const char *svg, struct lls_error *err);

#endif
