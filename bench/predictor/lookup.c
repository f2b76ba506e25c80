/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long predictor retrieval's index takes to find 5 neighbours among many answers, and
 * how many of the true nearest 5 it finds.
 *
 *   bench/predictor/lookup [ANSWERS [DIMS]]      100000 answers of 384 dimensions
 *
 * Vectors are spread around 1,000 centres with a mean cosine of 0.7 to their centre, as
 * prompts cluster by subject. Prints wall time and the thread's CPU time, which on a
 * shared machine is what a quiet machine would take.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "plugins/predictors/retrieval/history.h"

#define CENTRES 1000
#define QUERIES 500
#define K       5

static uint64_t state = 1;

static double uniform(void)
{
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(state >> 11) * 0x1p-53 - 0.5;
}

static void normalise(float *v, uint32_t dims)
{
  double squares = 0;
  for (uint32_t i = 0; i < dims; i++)
    squares += (double)v[i] * (double)v[i];
  for (uint32_t i = 0; i < dims; i++)
    v[i] = (float)(v[i] / sqrt(squares));
}

static void around(const float *centre, float *v, uint32_t dims)
{
  for (uint32_t i = 0; i < dims;
       i++) /* uniform: variance 1/12; noise as long as centre */
    v[i] = (centre != NULL ? centre[i] : 0) + (float)(uniform() * sqrt(12.0 / dims));
  normalise(v, dims);
}

static double cpu_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float dot(const float *a, const float *b, uint32_t dims)
{
  float sum = 0;
  for (uint32_t i = 0; i < dims; i++)
    sum += a[i] * b[i];
  return sum;
}

/* Returns how many of the n found answers are among the true K nearest. */
static uint32_t right(const float *all, uint32_t n_all, const float *query, uint32_t dims,
                      const struct neighbour *near, uint32_t n)
{
  uint32_t nearer[K] = {0}, count = 0;
  for (uint32_t i = 0; i < n_all; i++) {
    float x = dot(all + (size_t)i * dims, query, dims);
    for (uint32_t k = 0; k < n; k++)
      nearer[k] += x > near[k].similarity + 1e-5f;
  }
  for (uint32_t k = 0; k < n; k++)
    count += nearer[k] < K;
  return count;
}

int main(int argc, char **argv)
{
  uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 100000;
  uint32_t dims = argc > 2 ? (uint32_t)atoi(argv[2]) : 384;
  struct history *h;
  float *centres = malloc((size_t)CENTRES * dims * sizeof *centres), query[4096];
  float *all = malloc((size_t)n * dims * sizeof *all);
  if (dims > 4096 || dims < 1 || centres == NULL || all == NULL ||
      history_create(dims, n, NULL, &h) < 0)
    return 1;
  for (uint32_t i = 0; i < CENTRES; i++)
    around(NULL, centres + (size_t)i * dims, dims);
  double added[QUERIES], wall[QUERIES], cpu[QUERIES], begin = cpu_seconds();
  for (uint32_t i = 0; i < n; i++) {
    float *v = all + (size_t)i * dims;
    around(centres + (size_t)(i % CENTRES) * dims, v, dims);
    double t0 = cpu_seconds();
    history_add(h, v, i + 1);
    added[i % QUERIES] = cpu_seconds() - t0; /* the last inserts, into the full index */
  }
  printf("%u answers of %u numbers put in, %.1f s of CPU; the last ones %.3f ms each\n",
         history_count(h), dims, cpu_seconds() - begin,
         bench_median(added, n < QUERIES ? n : QUERIES) * 1e3);
  uint32_t found = 0;
  struct neighbour near[K];
  for (uint32_t q = 0; q < QUERIES; q++) {
    around(centres + (size_t)(q * 7 % CENTRES) * dims, query, dims);
    double t0 = bench_seconds(), c0 = cpu_seconds();
    uint32_t m = history_near(h, query, K, near);
    cpu[q] = cpu_seconds() - c0;
    wall[q] = bench_seconds() - t0;
    if (q < 100)
      found += right(all, n, query, dims, near, m);
  }
  double p50 = bench_median(wall, QUERIES), p99 = wall[QUERIES * 99 / 100]; /* sorted */
  printf(
      "lookup p50 %.3f ms, p99 %.3f ms (CPU p50 %.3f ms); %.3f of the true %u nearest\n",
      p50 * 1e3, p99 * 1e3, bench_median(cpu, QUERIES) * 1e3, found / (100.0 * K), K);
  history_destroy(h);
  free(all);
  free(centres);
  return 0;
}
