/* SPDX-License-Identifier: Apache-2.0 */
/* Reads finished runs: numbers by their JSON keys, and statistics over repeats. */
#ifndef LLS_SWEEP_RESULTS_H
#define LLS_SWEEP_RESULTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/base/error.h"

/* Returns the number at "a.b.c"; NaN if there is none; "inf" is infinity. */
double lls_result_number(const json_t *result, const char *path);
json_t *lls_result_read(const char *path, struct lls_error *err);

#define LLS_RESULT_NAME 256
/* the file of --find-rate in a folder, which is no run's result */
#define LLS_FOUND_RATES "find-rate.json"

/* Result files from one or more folders. */
struct lls_result_files {
  struct lls_result_file {
    char *path;
    char name[LLS_RESULT_NAME]; /* the name given to their source */
  } * list;                     /* (n) ordered by folder, then by file name */
  size_t n;
};
/* Adds a result file, or all of a folder. -EINVAL with an error: it cannot be read or
 * has no results. The struct starts zeroed and is freed in any case. */
int lls_result_files_add(struct lls_result_files *, const char *name, const char *path,
                         struct lls_error *err);
void lls_result_files_free(struct lls_result_files *);

/* The columns of tables of runs; the last one has no title. */
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

/* Returns the 95 % interval of a mean (n >= 2) by Student's t; NaN for fewer values. */
struct lls_interval lls_student(const double *values, size_t n);

/* Returns the 95 % interval of a mean by the percentile bootstrap, with 2,000 resamples
 * of a fixed seed. NaNs are ignored. */
struct lls_interval lls_bootstrap(const double *values, size_t n);

#endif
