/* SPDX-License-Identifier: Apache-2.0 */
/* One large matrix product by oneDNN, whose rate is a limit; limits.c repeats it. */
#ifndef LLS_BENCH_LIMITS_PRODUCT_H
#define LLS_BENCH_LIMITS_PRODUCT_H

#include <stddef.h>

enum limits_type { LIMITS_F32, LIMITS_BF16, LIMITS_INT8, LIMITS_N_TYPES };

struct limits_product;

struct limits_shape {
  size_t rows, outputs, inputs;
};

/*
 * A large product: the shape that oneDNN was fastest with among those whose operands
 * exceed the second-level cache, as a prefill's do (on AVX2; on AMX 2.7 TFLOP/s of two
 * cores, against 1.9 for 2,048 cubed and 4.4 for 128 x 256 x 1024, which stays in cache).
 */
#define LIMITS_SHAPE                                                                     \
  (struct limits_shape)                                                                  \
  {                                                                                      \
    1024, 512, 512                                                                       \
  }

/*
 * oneDNN's c (rows, outputs) = a (rows, inputs) b (inputs, outputs), on the calling
 * thread alone. There are n copies of b, of which each run takes the next. -ENOTSUP: not
 * on this CPU.
 */
int limits_product_create(enum limits_type, struct limits_shape, size_t n,
                          struct limits_product **out);
void limits_product_run(struct limits_product *);
void limits_product_destroy(struct limits_product *);

#endif
