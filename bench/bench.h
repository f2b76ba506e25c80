/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every benchmark needs: a clock and order statistics.
 *
 * On a machine shared with other work the wall clock also measures that work. The other
 * clock is the processor time of the process divided among its threads; it leaves out
 * the time they were not running, though not what others do to caches and memory.
 */
#ifndef LLS_BENCH_BENCH_H
#define LLS_BENCH_BENCH_H

#include <stdlib.h>
#include <time.h>

struct bench_clock {
  unsigned cpu_threads; /* 0: the wall clock; else processor time per thread */
};

static inline double bench_seconds(const struct bench_clock *c)
{
  struct timespec t;
  clock_gettime(c->cpu_threads != 0 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  double seconds = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
  return c->cpu_threads != 0 ? seconds / c->cpu_threads : seconds;
}

static inline int bench_compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double bench_median(double *values, size_t n)
{
  qsort(values, n, sizeof *values, bench_compare);
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

#endif
