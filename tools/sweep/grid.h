/* SPDX-License-Identifier: Apache-2.0 */
/* The points of a sweep: the product of its axes, the last axis running fastest. */
#ifndef LLS_SWEEP_GRID_H
#define LLS_SWEEP_GRID_H

#include "tools/sweep/sweep.h"

#define LLS_AXES_MAX 8

struct lls_axis {
  char *name;    /* of an option, as it was written */
  char **values; /* (n) */
  size_t n;
};

struct lls_grid {
  struct lls_axis axes[LLS_AXES_MAX];
  size_t n_axes;
  bool listed; /* points are the first values of all axes, the second ones, ..., and no
                  product */
};

/*
 * One more axis from NAME=A,B,C or NAME=FIRST..LAST or NAME=FIRST..LAST:STEP (numbers,
 * step 1 by default). -EINVAL if it is none, the name is there already, or two values
 * would have the same result file.
 */
int lls_grid_add(struct lls_grid *, const char *text, size_t length,
                 struct lls_error *err);
/* The axes of --sweep. */
int lls_grid_read(struct lls_grid *, const char *lines, struct lls_error *err);
/* One more value of a listed grid's axis, which is made where it is not there. */
int lls_grid_append(struct lls_grid *, const char *name, const char *value,
                    struct lls_error *err);
void lls_grid_free(struct lls_grid *);

size_t lls_grid_points(const struct lls_grid *);
const char *lls_grid_value(const struct lls_grid *, size_t point, size_t axis);
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
