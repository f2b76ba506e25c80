/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine can do, measured in the same run as what is compared with it: memory
 * read bandwidth, and the rate of a large matrix product as oneDNN does it, each of our
 * threads making its share. Both in pieces of a few milliseconds, some of which other
 * work on the machine leaves alone: `best` is the fastest of the run so far.
 */
#ifndef LLS_BENCH_LIMITS_H
#define LLS_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/bench.h"
#include "bench/limits_product.h"
#include "kernels/cpu/threads.h"

struct limits_rates {
  double read; /* bytes/s, 2 MiB pages */
  double product[LIMITS_N_TYPES];
};

struct limits {
  struct lls_cpu_threads *threads;
  struct bench_clock clock;
  char *huge, *small; /* on 2 MiB pages, on 4 KiB pages: many times the caches */
  unsigned streams;   /* that reading is fastest with on this machine */
  size_t ahead;       /* and how far ahead of its use each line is asked for; 0: never */
  struct limits_product **products[LIMITS_N_TYPES]; /* (threads); NULL: can't */
  size_t next;                                      /* piece to read */
  struct limits_rates best;
};

/* Tries ways to read memory and keeps the fastest. 0 or -errno. */
int limits_create(struct lls_cpu_threads *, struct bench_clock, struct limits *);
void limits_destroy(struct limits *);

/* One measurement of a piece each: bytes/s, operations/s; 0 where the CPU can't. */
double limits_read(struct limits *, bool huge_pages);
double limits_product(struct limits *, enum limits_type);

/* Measures all for some 100 ms and gives the medians. */
struct limits_rates limits_sample(struct limits *);
/* The faster of the products that f32 or bf16 weights may be multiplied by. */
double limits_matrix(const struct limits_rates *, bool bf16_weights);

#endif
