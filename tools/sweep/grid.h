/* SPDX-License-Identifier: Apache-2.0 */
/* The grid of a sweep: its axes, and its points as options, names and runs. */
#ifndef LLS_SWEEP_GRID_H
#define LLS_SWEEP_GRID_H

#include "core/config/grid.h"
#include "tools/sweep/sweep.h"

/* Adds an axis. -EINVAL also if two of its values would have the same result file. */
int lls_sweep_add(struct lls_grid *, const char *text, size_t length,
                  struct lls_error *err);
/* Reads the axes of --sweep. */
int lls_grid_read(struct lls_grid *, const char *lines, struct lls_error *err);

/* Sets the options to those of a point. */
int lls_grid_apply(const struct lls_grid *, size_t point, const struct lls_runner *,
                   struct lls_error *err);
/* Checks that every point's options are valid. Leaves those of the last point set. */
int lls_grid_check(const struct lls_grid *, const struct lls_runner *,
                   struct lls_error *err);
/* The name of a point, such as "request-rate=2_seed=1": its file name without folder
 * and extension. */
void lls_grid_name(const struct lls_grid *, size_t point, char *out, size_t size);
/* Like lls_grid_name, without the axis `but`. */
void lls_grid_name_but(const struct lls_grid *, size_t point, size_t but, char *out,
                       size_t size);

#define LLS_SEED_AXIS "seed"
#define LLS_RATE_AXIS "request-rate"
/* Returns the value of --seed, the first of repeated runs. */
int64_t lls_first_seed(const struct lls_runner *);
/* Searches the highest rate for each point of --sweep (find.c). */
int lls_find_rates(const struct lls_sweep_options *, const struct lls_runner *, FILE *out,
                   struct lls_error *err);

/* Counts of the points of grids by outcome. */
struct lls_grid_tally {
  size_t total;
  size_t there;  /* points with a result of the same origin (made_by.h) */
  size_t others; /* points with a result of another origin, which ran again */
  size_t failed;
  /* (points of the last grid) the point has a result now; the caller frees it */
  bool *done;
};

/* Runs the points without a result of the same origin, `jobs` at a time, and adds to
 * the tally. Returns 0, or -EIO if a run failed. */
int lls_grid_run(const struct lls_grid *, const struct lls_sweep_options *,
                 const struct lls_runner *, struct lls_grid_tally *,
                 struct lls_error *err);
/* Prints "3 of 8 runs were there already", unless it is 0. */
void lls_grid_print_tally(const struct lls_grid_tally *, const char *folder, FILE *out);
/* The path of a point's result. */
int lls_grid_path(const struct lls_grid *, const struct lls_sweep_options *, size_t point,
                  char *out, size_t size, struct lls_error *err);

#endif
