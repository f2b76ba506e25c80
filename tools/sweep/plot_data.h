/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a plot: finished runs, by series, each with its rate and its label. */
#ifndef LLS_SWEEP_PLOT_DATA_H
#define LLS_SWEEP_PLOT_DATA_H

#include "tools/sweep/results.h"
#include "tools/sweep/sweep.h"

#define LLS_PLOT_LABEL  128
#define LLS_PLOT_TITLE  512
#define LLS_PLOT_CURVES 14 /* more can't be told apart: seven hues, whole and dashed */

struct lls_plot_run {
  char series[LLS_PLOT_LABEL];
  size_t order; /* of the series: as they were given */
  double rate;  /* that was asked for; infinity or NaN: none */
  json_t *result;
};

struct lls_plot_runs {
  struct lls_plot_run *list; /* (n) by series, then rate */
  size_t n;
};

/* A series, or the repeats of one of its rates: list[from .. end - 1]. */
struct lls_plot_part {
  size_t from, end;
};

int lls_plot_read(const struct lls_plot_source *, size_t n, struct lls_plot_runs *,
                  struct lls_error *err);
void lls_plot_free(struct lls_plot_runs *);

/* The series that begins at a run, and the repeats that do. */
struct lls_plot_part lls_plot_series(const struct lls_plot_runs *, size_t from);
struct lls_plot_part lls_plot_repeats(const struct lls_plot_runs *, size_t from);

/* The highest rate that all series have; NaN where there is none. */
double lls_plot_common_rate(const struct lls_plot_runs *);
/* The repeats of a series at a rate; at its highest where that is NaN. */
struct lls_plot_part lls_plot_at(const struct lls_plot_runs *,
                                 struct lls_plot_part series, double rate);

/* The quantiles that the repeats keep of one quantity ("ttft_ms"), all together and in
 * order; how many. Repeats have as many requests each, so that each weighs the same. The
 * caller frees *values. */
size_t lls_plot_values(const struct lls_plot_runs *, struct lls_plot_part repeats,
                       const char *key, double **values);

/* The mean of a number of the repeats; its bounds are the mean where they are one. */
struct lls_interval lls_plot_interval(const struct lls_plot_runs *,
                                      struct lls_plot_part repeats, const char *key);

/* "opt-13b on a100-40g, random, 600 requests" and "SLOs: TTFT 1 s": what all runs have in
 * common. */
void lls_plot_title(const struct lls_plot_runs *, char *out, size_t size);

#endif
