/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's limits, measured in the same run as the operations compared with them:
 * memory read bandwidth, and the rate of a large matrix product of oneDNN, of which each
 * of our threads computes a part. A measurement ("piece") takes a few milliseconds, so
 * that other work on the machine leaves some pieces undisturbed.
 *
 * A read covers at least twice the largest cache, so that it does not measure the cache.
 * A product is repeated until a piece takes PRODUCT_SECONDS: after a pause the first few
 * hundred microseconds of AMX are an order of magnitude slower (measured: 400 GFLOP/s of
 * 5,000). A sample's limit is the median of its pieces, which a long load can expect of
 * the machine at that moment. `best` is the fastest piece of the run so far, the rate of
 * the undisturbed machine.
 */
#ifndef LLS_BENCH_LIMITS_H
#define LLS_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/bench.h"
#include "bench/limits_product.h"
#include "kernels/cpu/threads.h"

/* A product of which every thread computes its own part. */
struct limits_products {
  enum limits_type type;
  struct limits_shape shape;  /* shape of one thread's part */
  struct limits_product **of; /* (threads); NULL: the CPU lacks this type */
  unsigned repeat;            /* products in one piece */
};

struct limits_rates {
  double read; /* bytes/s, with pages of 2 MiB */
  double product[LIMITS_N_TYPES];
};

/* How a thread reads its part: `streams` places in parallel, with prefetches `ahead`
 * bytes before the use; 0: no prefetches. */
struct limits_way {
  unsigned streams;
  size_t ahead;
};

struct limits {
  struct lls_cpu_threads *threads;
  char *huge, *small; /* memory to read, with pages of 2 MiB and of 4 KiB */
  size_t bytes;       /* bytes of each, many times the caches */
  struct limits_products products[LIMITS_N_TYPES];
  size_t next; /* index of the next piece to read */
  struct limits_rates best;
};

/* Returns how many bytes to cycle through so that none is still in a cache: the larger
 * of `least` and twice the largest cache, at most 1 GiB. */
size_t limits_cold_bytes(size_t least);

/* Returns 0 or -errno. */
int limits_create(struct lls_cpu_threads *, struct limits *);
void limits_destroy(struct limits *);

/* Tries all ways to read in turn and returns the bytes/s of the fastest, each way's a
 * median of a few pieces. Writes the way to *fastest unless that is NULL. */
double limits_read(struct limits *, bool huge_pages, struct limits_way *fastest);
/* Measures one piece. Returns operations/s, 0 if the CPU lacks the type. */
double limits_product(struct limits *, enum limits_type);

/* The same for a product of any shape: the rate of a piece, 0 if the CPU lacks the
 * type. */
int limits_products_create(const struct limits *, enum limits_type, struct limits_shape,
                           size_t copies, struct limits_products *);
void limits_products_destroy(const struct limits *, struct limits_products *);
double limits_products_rate(struct limits *, const struct limits_products *);

/* Measures all limits for about 100 ms and returns the medians. */
struct limits_rates limits_sample(struct limits *);
/* Returns the rate of the fastest product for weights of that type: an integer product
 * if oneDNN has a kernel for it. */
double limits_matrix(const struct limits_rates *, enum limits_type weights);

#endif
