/* SPDX-License-Identifier: Apache-2.0 */
/* One large matrix product by oneDNN. limits.c measures its rate as a limit. */
#ifndef LLS_BENCH_LIMITS_PRODUCT_H
#define LLS_BENCH_LIMITS_PRODUCT_H

#include <stddef.h>

enum limits_type { LIMITS_F32, LIMITS_BF16, LIMITS_INT8, LIMITS_N_TYPES };

struct limits_product;

struct limits_shape {
  size_t rows, outputs, inputs;
};

/*
 * The shape of the large product: among shapes whose operands exceed the second-level
 * cache, as a prefill's do, oneDNN is fastest with this one on AVX2. On AMX it
 * reaches 2.7 TFLOP/s of two cores; 2,048 cubed 1.9, and 128 x 256 x 1024, which stays in
 * the cache, 4.4.
 */
#define LIMITS_SHAPE                                                                     \
  (struct limits_shape)                                                                  \
  {                                                                                      \
    1024, 512, 512                                                                       \
  }

/*
 * Creates oneDNN's c (rows, outputs) = a (rows, inputs) b (inputs, outputs), which runs
 * on the calling thread only. Each run uses the next of n copies of b. Returns 0, or
 * -ENOTSUP if the CPU lacks the type.
 */
int limits_product_create(enum limits_type, struct limits_shape, size_t n,
                          struct limits_product **out);
void limits_product_run(struct limits_product *);
void limits_product_destroy(struct limits_product *);

#endif
