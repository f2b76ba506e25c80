/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine can do, measured by other code than ours where there is any: memory
 * read bandwidth and the rate of a large f32 matrix product (oneDNN). The benchmarks
 * measure these in the same run as what they compare with them.
 */
#ifndef LLS_BENCH_LIMITS_H
#define LLS_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cpu/threads.h"

struct limits {
  struct lls_cpu_threads *threads;
  size_t read_bytes;  /* of the buffer: many times the caches */
  char *huge, *small; /* (read_bytes) on 2 MiB pages, on 4 KiB pages */
  float *a, *b, *c;   /* (size, size) each, per matrix */
};

#define LIMITS_MATRIX 2048

int limits_create(struct lls_cpu_threads *, struct limits *);
void limits_destroy(struct limits *);

/* One measurement each: bytes/s of reading all, operations/s of a product of 2048^3. */
double limits_read(const struct limits *, bool huge_pages, size_t prefetch_ahead);
double limits_f32(const struct limits *);

#endif
