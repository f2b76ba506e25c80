/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LLS_BENCH_LIMITS_PRODUCT_H
#define LLS_BENCH_LIMITS_PRODUCT_H

#include <stddef.h>

enum limits_type { LIMITS_F32, LIMITS_BF16, LIMITS_INT8, LIMITS_N_TYPES };

struct limits_product;

/* oneDNN's c (rows, n) = a (rows, n) b (n, n), on the calling thread alone.
 * -ENOTSUP: not on this CPU. */
int limits_product_create(enum limits_type, size_t rows, size_t n,
                          struct limits_product **out);
void limits_product_run(struct limits_product *);
void limits_product_destroy(struct limits_product *);

#endif
