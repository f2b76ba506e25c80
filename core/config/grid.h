/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges as text; axes, NAME=VALUES, and the points of their product, the last axis
 * running fastest. */
#ifndef LLS_CONFIG_GRID_H
#define LLS_CONFIG_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

/* Reads "A..B", two numbers. Returns 0; -ERANGE if A > B; -EINVAL if it is no range. */
int lls_range_parse(const char *text, double *low, double *high);

#define LLS_AXES_MAX 8

struct lls_axis {
  char *name;    /* name as it was written */
  char **values; /* (n) */
  size_t n;
};

struct lls_grid {
  struct lls_axis axes[LLS_AXES_MAX];
  size_t n_axes;
  /* point i has the ith value of every axis, instead of the product of all axes */
  bool listed;
};

/*
 * Adds an axis from NAME=A,B,C or NAME=FIRST..LAST or NAME=FIRST..LAST:STEP: numbers,
 * or durations and amounts of memory as in "100ms..1s:50ms"; a number without a unit
 * has LAST's. The step is 1 by default. Returns -EINVAL if the text is no axis, -EEXIST
 * if the grid has the name already, -E2BIG if there are too many axes or points.
 */
int lls_grid_add(struct lls_grid *, const char *text, size_t length,
                 struct lls_error *err);
/* Adds a value to an axis of a listed grid, and the axis if it does not exist. */
int lls_grid_append(struct lls_grid *, const char *name, const char *value,
                    struct lls_error *err);
void lls_grid_free(struct lls_grid *);

size_t lls_grid_points(const struct lls_grid *);
const char *lls_grid_value(const struct lls_grid *, size_t point, size_t axis);

#endif
