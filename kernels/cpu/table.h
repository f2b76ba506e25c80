/* SPDX-License-Identifier: Apache-2.0 */
/* The lookup tables that embed reads; made by lls_cpu_table_create. */
#ifndef LLS_CPU_TABLE_H
#define LLS_CPU_TABLE_H

#include "core/engine/device.h"

struct lls_cpu_table {
  struct lls_tensor_view view; /* data is never NULL: the file's mapping, or `own` */
  void *own;                   /* (rows, columns) random bf16 or f32, or NULL */
};

/* Row `row` of a view as f32; data = NULL: its random numbers. */
void lls_cpu_read_row(const struct lls_tensor_view *, size_t row, float *out);

#endif
