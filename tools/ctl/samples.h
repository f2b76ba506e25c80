/* SPDX-License-Identifier: Apache-2.0 */
/* Reads values from the text of /metrics (Prometheus' text format 0.0.4). */
#ifndef LLS_CTL_SAMPLES_H
#define LLS_CTL_SAMPLES_H

/* Returns the sum of all samples of the series; with `label` (or NULL) only of those
 * whose labels contain this text, such as tier="host". 0 if there is none. */
double ctl_sum(const char *page, const char *series, const char *label);

/* Returns the quantile q (0 to 1) of the values that a histogram received between two
 * pages, interpolated in its bucket as Prometheus' histogram_quantile does; `before` may
 * be NULL. NAN if it received none. */
double ctl_quantile(const char *page, const char *before, const char *histogram,
                    double q);

#endif
