/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's limits, measured in the same run as what is compared with it: memory
 * read bandwidth, and the rate of a large matrix product as oneDNN does it, each of our
 * threads making its share. Both in pieces of a few milliseconds, some of which other
 * work on the machine leaves alone: `best` is the fastest of the run so far.
 *
 * Reading goes through twice the largest cache at least, or it would measure that. A
 * product is repeated until a piece takes PRODUCT_SECONDS: after a pause the first few
 * hundred microseconds of AMX are an order of magnitude slower (measured: 400 GFLOP/s of
 * 5,000). A sample's limit is the median of its pieces: what a long load can expect of
 * the machine in that moment; the best piece of a run shows what it can do undisturbed.
 */
#ifndef LLS_BENCH_LIMITS_H
#define LLS_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/bench.h"
#include "bench/limits_product.h"
#include "kernels/cpu/threads.h"

/* A product of which every thread makes its own part. */
struct limits_products {
  enum limits_type type;
  struct limits_shape shape;  /* of a part */
  struct limits_product **of; /* (threads); NULL: can't */
  unsigned repeat;            /* of a piece */
};

struct limits_rates {
  double read; /* bytes/s, 2 MiB pages */
  double product[LIMITS_N_TYPES];
};

/* How a thread reads its part: so many streams side by side, each line asked for `ahead`
 * bytes before its use; 0: never. */
struct limits_way {
  unsigned streams;
  size_t ahead;
};

struct limits {
  struct lls_cpu_threads *threads;
  char *huge, *small; /* on 2 MiB pages, on 4 KiB pages: many times the caches */
  size_t bytes;       /* of each */
  struct limits_products products[LIMITS_N_TYPES];
  size_t next; /* piece to read */
  struct limits_rates best;
};

/* Bytes to go through so that none of them is still in a cache: `least`, or twice the
 * largest cache (1 GiB at most). */
size_t limits_cold_bytes(size_t least);

/* 0 or -errno. */
int limits_create(struct lls_cpu_threads *, struct limits *);
void limits_destroy(struct limits *);

/* Bytes/s in the fastest of the ways to read (out if not NULL), which are taken in turns:
 * the medians of a few pieces each. */
double limits_read(struct limits *, bool huge_pages, struct limits_way *fastest);
/* One measurement of a piece: operations/s; 0 where the CPU can't. */
double limits_product(struct limits *, enum limits_type);

/* The same of any product: the rate of a piece, 0 if the CPU can't. */
int limits_products_create(const struct limits *, enum limits_type, struct limits_shape,
                           size_t copies, struct limits_products *);
void limits_products_destroy(const struct limits *, struct limits_products *);
double limits_products_rate(struct limits *, const struct limits_products *);

/* Measures all for some 100 ms and gives the medians. */
struct limits_rates limits_sample(struct limits *);
/* The fastest product that weights of that type may be multiplied by; of whole numbers
 * where oneDNN has a kernel for them. */
double limits_matrix(const struct limits_rates *, enum limits_type weights);

#endif
