/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine can do, measured in the same run as what is compared with it: memory
 * read bandwidth, and the rate of a large matrix product as oneDNN does it, each of our
 * threads making its share.
 */
#ifndef LLS_BENCH_LIMITS_H
#define LLS_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/bench.h"
#include "bench/limits_product.h"
#include "kernels/cpu/threads.h"

#define LIMITS_MATRIX 2048 /* rows and columns of the products */

struct limits {
  struct lls_cpu_threads *threads;
  struct bench_clock clock;
  size_t bytes;       /* read at a time: many times the caches */
  char *huge, *small; /* (bytes) on 2 MiB pages, on 4 KiB pages */
  unsigned streams;   /* that reading is fastest with on this machine */
  size_t ahead;       /* and how far ahead of its use each line is asked for; 0: never */
  struct limits_product **products[LIMITS_N_TYPES]; /* (threads); NULL: can't */
};

/* Tries ways to read memory and keeps the fastest. 0 or -errno. */
int limits_create(struct lls_cpu_threads *, struct bench_clock, struct limits *);
void limits_destroy(struct limits *);

/* One measurement each: bytes/s, operations/s; 0 where the CPU can't. */
double limits_read(const struct limits *, bool huge_pages);
double limits_product(const struct limits *, enum limits_type);
/* The faster of the products that f32 or bf16 weights may be multiplied by. */
double limits_matrix(const struct limits *, bool bf16_weights);

#endif
