/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram of durations; see histogram.h. */
#include "tools/report/histogram.h"

#define SUB_BITS 6 /* 64 buckets an octave */

/* Below 64 each value has its own bucket; above, buckets follow the six bits after the
 * highest. */
static unsigned bucket_of(int64_t ns)
{
  uint64_t value = ns < 0 ? 0 : (uint64_t)ns;
  if (value < 1u << SUB_BITS)
    return (unsigned)value;
  unsigned shift = 63 - (unsigned)__builtin_clzll(value) - SUB_BITS;
  return ((shift + 1) << SUB_BITS) + (unsigned)(value >> shift) - (1u << SUB_BITS);
}

static double bucket_begin(unsigned bucket)
{
  if (bucket < 2u << SUB_BITS)
    return bucket;
  unsigned shift = (bucket >> SUB_BITS) - 1;
  uint64_t mantissa = (1u << SUB_BITS) + (bucket & ((1u << SUB_BITS) - 1));
  return (double)(mantissa << shift);
}

/* Welford (1962), so that many long durations lose no precision. */
void lls_report_histogram_add(struct lls_report_histogram *histogram, int64_t ns)
{
  double before = (double)ns - histogram->mean;
  histogram->n++;
  histogram->mean += before / (double)histogram->n;
  histogram->squares += before * ((double)ns - histogram->mean);
  if (ns > histogram->max)
    histogram->max = ns;
  histogram->buckets[bucket_of(ns)]++;
}

/* Interpolates as if a bucket's values were evenly distributed in it. */
double lls_report_histogram_percentile(const struct lls_report_histogram *histogram,
                                       double percent)
{
  double rank = percent / 100 * (double)(histogram->n - 1), before = 0;
  if (histogram->n == 0)
    return 0;
  for (unsigned i = 0; i < LLS_HISTOGRAM_BUCKETS - 1; i++) {
    double count = (double)histogram->buckets[i];
    if (count > 0 && rank < before + count) {
      double begin = bucket_begin(i), width = bucket_begin(i + 1) - begin;
      double value = begin + (width > 1 ? width * (rank - before + 0.5) / count : 0);
      return value < (double)histogram->max ? value : (double)histogram->max;
    }
    before += count;
  }
  return (double)histogram->max;
}
