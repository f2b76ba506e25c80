/* SPDX-License-Identifier: Apache-2.0 */
/* Finished runs read back: numbers by their JSON keys, and repeats taken together. */
#ifndef LLS_SWEEP_RESULTS_H
#define LLS_SWEEP_RESULTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/base/error.h"

/* A number at "a.b.c"; NaN where there is none; "inf" is infinity. */
double lls_result_number(const json_t *result, const char *path);
json_t *lls_result_read(const char *path, struct lls_error *err);

/* The numbers that tables of runs have; the last has no title. */
#define LLS_RESULT_COLUMNS 9
struct lls_result_column {
  const char *title, *path;
  double scale;
  bool more_is_better;
};
extern const struct lls_result_column lls_result_columns[LLS_RESULT_COLUMNS + 1];

/* A mean with its interval; low and high are NaN for one value. */
struct lls_interval {
  double mean, cv, low, high;
};

/* 95 % interval of the mean by the percentile bootstrap, 2,000 resamples of a fixed seed.
 * NaNs are left out. */
struct lls_interval lls_bootstrap(const double *values, size_t n);

#endif
