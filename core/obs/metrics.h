/* SPDX-License-Identifier: Apache-2.0 */
/* Writes Prometheus' text format, and keeps histograms. */
#ifndef LLS_OBS_METRICS_H
#define LLS_OBS_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/text.h"

#define LLS_HISTOGRAM_MAX 32

struct lls_histogram {
  const double *bounds; /* (n_bounds) upper bounds, ascending; +Inf is implied */
  unsigned n_bounds;
  uint64_t counts[LLS_HISTOGRAM_MAX + 1]; /* (n_bounds + 1) counts, not cumulative */
  double sum;
};

/* Empties the histogram. bounds must stay valid as long as the histogram. */
void lls_histogram_init(struct lls_histogram *histogram, const double *bounds,
                        unsigned n_bounds);
void lls_histogram_observe(struct lls_histogram *histogram, double value);
/* Adds `more` to `sum`. Both have the same bounds, or `more` has none because it is
 * empty. */
void lls_histogram_merge(struct lls_histogram *sum, const struct lls_histogram *more);
uint64_t lls_histogram_count(const struct lls_histogram *histogram);

/*
 * Write "# HELP" and "# TYPE" of a metric ("gauge", "counter", "histogram"), then its
 * samples. labels are name="value" pairs with commas between them, escaped, or "".
 */
void lls_metrics_head(struct lls_text *out, const char *name, const char *type,
                      const char *help);
void lls_metrics_sample(struct lls_text *out, const char *name, const char *labels,
                        double value);
void lls_metrics_histogram(struct lls_text *out, const char *name, const char *labels,
                           const struct lls_histogram *histogram);

/* Appends name="value" with the value escaped, after a comma if out is not empty. */
void lls_metrics_label(struct lls_text *out, const char *name, const char *value);

#endif
