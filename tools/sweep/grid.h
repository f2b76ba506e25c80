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
};

/*
 * One more axis from NAME=A,B,C or NAME=FIRST..LAST or NAME=FIRST..LAST:STEP (numbers,
 * step 1 by default). -EINVAL if it is none, or the name is there already.
 */
int lls_grid_add(struct lls_grid *, const char *text, size_t length,
                 struct lls_error *err);
void lls_grid_free(struct lls_grid *);

size_t lls_grid_points(const struct lls_grid *);
const char *lls_grid_value(const struct lls_grid *, size_t point, size_t axis);
/* Sets the options of a point. */
int lls_grid_apply(const struct lls_grid *, size_t point, const struct lls_runner *,
                   struct lls_error *err);
/* "request-rate=2_seed=1": a file name without folder and ending. */
void lls_grid_name(const struct lls_grid *, size_t point, char *out, size_t size);
/* The same without the axis `but`. */
void lls_grid_name_but(const struct lls_grid *, size_t point, size_t but, char *out,
                       size_t size);

/* Runs the points that have no result yet, `jobs` at a time; 0 or -EIO if one failed. */
int lls_grid_run(const struct lls_grid *, const struct lls_sweep_options *,
                 const struct lls_runner *, struct lls_error *err);
/* Where a point's result is. */
int lls_grid_path(const struct lls_grid *, const struct lls_sweep_options *, size_t point,
                  char *out, size_t size, struct lls_error *err);

#endif
