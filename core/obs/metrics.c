/* SPDX-License-Identifier: Apache-2.0 */
/* Counts histograms, and writes samples as text; see metrics.h. */
#include "core/obs/metrics.h"

#include <math.h>

#include "core/base/check.h"

void lls_histogram_init(struct lls_histogram *histogram, const double *bounds,
                        unsigned n_bounds)
{
  LLS_CHECK(n_bounds <= LLS_HISTOGRAM_MAX);
  *histogram = (struct lls_histogram){.bounds = bounds, .n_bounds = n_bounds};
}

void lls_histogram_observe(struct lls_histogram *histogram, double value)
{
  unsigned bucket = 0;
  while (bucket < histogram->n_bounds && value > histogram->bounds[bucket])
    bucket++;
  histogram->counts[bucket]++;
  histogram->sum += value;
}

void lls_histogram_merge(struct lls_histogram *sum, const struct lls_histogram *more)
{
  if (more->n_bounds == 0)
    return;
  LLS_CHECK(sum->bounds == more->bounds && sum->n_bounds == more->n_bounds);
  for (unsigned i = 0; i <= sum->n_bounds; i++)
    sum->counts[i] += more->counts[i];
  sum->sum += more->sum;
}

uint64_t lls_histogram_count(const struct lls_histogram *histogram)
{
  uint64_t count = 0;
  for (unsigned i = 0; i <= histogram->n_bounds; i++)
    count += histogram->counts[i];
  return count;
}

void lls_metrics_head(struct lls_text *out, const char *name, const char *type,
                      const char *help)
{
  lls_text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void lls_metrics_sample(struct lls_text *out, const char *name, const char *labels,
                        double value)
{
  /* counters are integers: print all digits that a double can hold */
  int digits = value == floor(value) && fabs(value) < 0x1p53 ? 16 : 9;
  if (isnan(value))
    value = (double)NAN; /* parsers reject a NaN with a sign */
  if (labels[0] != '\0')
    lls_text_printf(out, "%s{%s} %.*g\n", name, labels, digits, value);
  else
    lls_text_printf(out, "%s %.*g\n", name, digits, value);
}

/* Writes one line of a histogram; suffix is "_bucket", "_sum" or "_count". */
static void histogram_line(struct lls_text *out, const char *name, const char *suffix,
                           const char *labels, double value)
{
  struct lls_text full = {0};
  lls_text_printf(&full, "%s%s", name, suffix);
  if (!full.failed)
    lls_metrics_sample(out, full.data, labels, value);
  lls_text_free(&full);
}

void lls_metrics_histogram(struct lls_text *out, const char *name, const char *labels,
                           const struct lls_histogram *histogram)
{
  uint64_t below = 0;
  const char *comma = labels[0] != '\0' ? "," : "";
  for (unsigned i = 0; i < histogram->n_bounds; i++) {
    below += histogram->counts[i];
    lls_text_printf(out, "%s_bucket{%s%sle=\"%.12g\"} %llu\n", name, labels, comma,
                    histogram->bounds[i], (unsigned long long)below);
  }
  below += histogram->counts[histogram->n_bounds];
  lls_text_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma,
                  (unsigned long long)below);
  histogram_line(out, name, "_sum", labels, histogram->sum);
  histogram_line(out, name, "_count", labels, (double)below);
}

void lls_metrics_label(struct lls_text *out, const char *name, const char *value)
{
  lls_text_printf(out, "%s%s=\"", out->length > 0 ? "," : "", name);
  for (; *value != '\0'; value++) {
    if (*value == '\n')
      lls_text_puts(out, "\\n");
    else if (*value == '"' || *value == '\\')
      lls_text_printf(out, "\\%c", *value);
    else
      lls_text_append(out, value, 1);
  }
  lls_text_puts(out, "\"");
}
