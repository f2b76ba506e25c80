/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a plot: finished runs, ordered by series, each with its rate and its
 * label. */
#ifndef LLS_SWEEP_PLOT_DATA_H
#define LLS_SWEEP_PLOT_DATA_H

#include "tools/sweep/results.h"
#include "tools/sweep/sweep.h"

#define LLS_PLOT_LABEL 128
#define LLS_PLOT_TITLE 512
/* most series: seven hues, solid and dashed; more would look alike */
#define LLS_PLOT_CURVES 14

struct lls_plot_run {
  char series[LLS_PLOT_LABEL];
  size_t order; /* position of the series in the command line */
  double rate;  /* requested rate; infinity or NaN: none */
  json_t *result;
};

struct lls_plot_runs {
  struct lls_plot_run *list; /* (n) ordered by series, then by rate */
  size_t n;
};

/* Part of the list: a series, or the repeats of one rate: list[from .. end - 1]. */
struct lls_plot_part {
  size_t from, end;
};

int lls_plot_read(const struct lls_plot_source *, size_t n, struct lls_plot_runs *,
                  struct lls_error *err);
void lls_plot_free(struct lls_plot_runs *);

/* The series that begins at a run; the repeats that begin there. */
struct lls_plot_part lls_plot_series(const struct lls_plot_runs *, size_t from);
struct lls_plot_part lls_plot_repeats(const struct lls_plot_runs *, size_t from);

/* Returns the highest rate that all series have; NaN if there is none. */
double lls_plot_common_rate(const struct lls_plot_runs *);
/* Returns the repeats of a series at a rate; rate NaN: at its highest rate. */
struct lls_plot_part lls_plot_at(const struct lls_plot_runs *,
                                 struct lls_plot_part series, double rate);

/* Collects the quantiles of one quantity ("ttft_ms") from all repeats, sorted; returns
 * their number. Repeats have equally many requests, so all weigh the same. The caller
 * frees *values. */
size_t lls_plot_values(const struct lls_plot_runs *, struct lls_plot_part repeats,
                       const char *key, double **values);

/* Returns the mean of a number over the repeats, with its interval; for a single repeat
 * the bounds equal the mean. */
struct lls_interval lls_plot_interval(const struct lls_plot_runs *,
                                      struct lls_plot_part repeats, const char *key);

/* The title: what all runs have in common, such as "opt-13b on a100-40g, random, 600
 * requests" and "SLOs: TTFT 1 s". */
void lls_plot_title(const struct lls_plot_runs *, char *out, size_t size);

#endif
