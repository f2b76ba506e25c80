/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clock and order statistics for all benchmarks. The clock is wall time: the processor
 * time of a virtual machine excludes the time which its host took away, so that it has
 * shown rates above what the hardware can do.
 */
#ifndef LLS_BENCH_BENCH_H
#define LLS_BENCH_BENCH_H

#include <stdlib.h>
#include <time.h>

static inline double bench_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The CPU time of this process, for ratios of two programs on a shared machine. */
static inline double bench_cpu_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline int bench_compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns the median; sorts the values. */
static inline double bench_median(double *values, size_t n)
{
  qsort(values, n, sizeof *values, bench_compare);
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

#endif
