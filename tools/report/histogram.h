/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of durations in constant memory: 64 equal buckets for each power of two
 * of nanoseconds, so the relative error of a percentile is below 1/64. Mean and
 * deviation are exact.
 */
#ifndef LLS_REPORT_HISTOGRAM_H
#define LLS_REPORT_HISTOGRAM_H

#include <stdint.h>

#define LLS_HISTOGRAM_BUCKETS (59 * 64)

struct lls_report_histogram { /* all zero: empty */
  uint64_t n;
  double mean, squares; /* squares: sum of squared differences from the mean */
  int64_t max;
  uint64_t buckets[LLS_HISTOGRAM_BUCKETS];
};

void lls_report_histogram_add(struct lls_report_histogram *, int64_t ns);
/* percent: 0..100; returns 0 if the histogram is empty. */
double lls_report_histogram_percentile(const struct lls_report_histogram *,
                                       double percent);

#endif
