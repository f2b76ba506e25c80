/* SPDX-License-Identifier: Apache-2.0 */
/* The grid of a sweep: its axes, and its points as options, names and runs. */
#ifndef LLS_SWEEP_GRID_H
#define LLS_SWEEP_GRID_H

#include "core/config/grid.h"
#include "tools/sweep/sweep.h"

/* One more axis: -EINVAL too if two of its values would have the same result file. */
int lls_sweep_add(struct lls_grid *, const char *text, size_t length,
                  struct lls_error *err);
/* The axes of --sweep. */
int lls_grid_read(struct lls_grid *, const char *lines, struct lls_error *err);

/* Sets the options of a point. */
int lls_grid_apply(const struct lls_grid *, size_t point, const struct lls_runner *,
                   struct lls_error *err);
/* Can every point be set? Leaves the last one set. */
int lls_grid_check(const struct lls_grid *, const struct lls_runner *,
                   struct lls_error *err);
/* "request-rate=2_seed=1": a file name without folder and ending. */
void lls_grid_name(const struct lls_grid *, size_t point, char *out, size_t size);
/* The same without the axis `but`. */
void lls_grid_name_but(const struct lls_grid *, size_t point, size_t but, char *out,
                       size_t size);

#define LLS_SEED_AXIS "seed"
#define LLS_RATE_AXIS "request-rate"
/* --seed, where repeats begin. */
int64_t lls_first_seed(const struct lls_runner *);
/* The search for the highest rate, for each point of --sweep (find.c). */
int lls_find_rates(const struct lls_sweep_options *, const struct lls_runner *, FILE *out,
                   struct lls_error *err);

/* Counts of the points of grids by outcome. */
struct lls_grid_tally {
  size_t total;
  size_t there;  /* had a result that was made by the same */
  size_t others; /* had one that was made by something else, and were run again */
  size_t failed;
  bool *done; /* (points of the last grid) has a result now; the caller frees it */
};

/* Runs the points that have no result by the same yet, `jobs` at a time, and adds to the
 * tally; 0 or -EIO if one failed. */
int lls_grid_run(const struct lls_grid *, const struct lls_sweep_options *,
                 const struct lls_runner *, struct lls_grid_tally *,
                 struct lls_error *err);
/* "3 of 8 runs were there already": where any was. */
void lls_grid_print_tally(const struct lls_grid_tally *, const char *folder, FILE *out);
/* Where a point's result is. */
int lls_grid_path(const struct lls_grid *, const struct lls_sweep_options *, size_t point,
                  char *out, size_t size, struct lls_error *err);

#endif
