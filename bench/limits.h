/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine can do, measured in the same run as what is compared with it: memory
 * read bandwidth, and the rate of a large matrix product as oneDNN does it, each of our
 * threads making its share. A limit is the fastest that was seen so far in the run, over
 * pieces of a few milliseconds, so that other work on the machine does not lower it.
 */
#ifndef LLS_BENCH_LIMITS_H
#define LLS_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/bench.h"
#include "bench/limits_product.h"
#include "kernels/cpu/threads.h"

struct limits {
  struct lls_cpu_threads *threads;
  struct bench_clock clock;
  char *huge, *small; /* on 2 MiB pages, on 4 KiB pages: many times the caches */
  unsigned streams;   /* that reading is fastest with on this machine */
  size_t ahead;       /* and how far ahead of its use each line is asked for; 0: never */
  struct limits_product **products[LIMITS_N_TYPES]; /* (threads); NULL: can't */
  size_t next;                                      /* piece to read */
  double best_read, best_product[LIMITS_N_TYPES];
};

/* Tries ways to read memory and keeps the fastest. 0 or -errno. */
int limits_create(struct lls_cpu_threads *, struct bench_clock, struct limits *);
void limits_destroy(struct limits *);

/* One measurement of a piece each: bytes/s, operations/s; 0 where the CPU can't. */
double limits_read(struct limits *, bool huge_pages);
double limits_product(struct limits *, enum limits_type);

/* Measures all for some 100 ms. */
void limits_sample(struct limits *);
/* The best so far, of huge pages; of the products that such weights may be multiplied by.
 */
double limits_best_read(const struct limits *);
double limits_best_matrix(const struct limits *, bool bf16_weights);

#endif
