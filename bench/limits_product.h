/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LLS_BENCH_LIMITS_PRODUCT_H
#define LLS_BENCH_LIMITS_PRODUCT_H

#include <stddef.h>

enum limits_type { LIMITS_F32, LIMITS_BF16, LIMITS_INT8, LIMITS_N_TYPES };

struct limits_product;

/*
 * oneDNN's c (ROWS, SIDE) = a (ROWS, SIDE) b (SIDE, SIDE), on the calling thread alone:
 * the shape that it was fastest with among many on AVX2, and short enough (6 ms there) to
 * be undisturbed now and then. -ENOTSUP: not on this CPU.
 */
#define LIMITS_ROWS 1024
#define LIMITS_SIDE 512
int limits_product_create(enum limits_type, struct limits_product **out);
void limits_product_run(struct limits_product *);
void limits_product_destroy(struct limits_product *);

#endif
