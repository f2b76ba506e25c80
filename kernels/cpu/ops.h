/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of the CPU device: one function for each member of struct
 * lls_device_ops, with its signature (declared here through the vtable's own types, so
 * that a difference is a compile error), and what they want of working memory.
 */
#ifndef LLS_CPU_OPS_H
#define LLS_CPU_OPS_H

#include "core/engine/device.h"

/* linear.c */
size_t lls_cpu_linear_scratch(void);              /* bytes of each thread */
size_t lls_cpu_linear_shared(size_t max_columns); /* bytes of all together */
void lls_cpu_linear(struct lls_device *, const struct lls_weight *, const void *x,
                    uint32_t n_rows, enum lls_linear_store, void *y);
void lls_cpu_logits(struct lls_device *, const struct lls_weight *, const void *x,
                    uint32_t n_rows, float *y);

/* weight.c */
int lls_cpu_weight_create(struct lls_device *, const struct lls_tensor_view *parts,
                          const struct lls_tensor_view *biases, size_t n_parts,
                          enum lls_weight_format, struct lls_weight **out,
                          struct lls_error *err);
void lls_cpu_weight_destroy(struct lls_device *, struct lls_weight *);
size_t lls_cpu_weight_bytes(const struct lls_weight *);

/* table.c */
int lls_cpu_vector_create(struct lls_device *, const struct lls_tensor_view *,
                          float **out, struct lls_error *err);
int lls_cpu_table_create(struct lls_device *, const struct lls_tensor_view *, void **out,
                         struct lls_error *err);
void lls_cpu_table_destroy(struct lls_device *, void *table);

#endif
