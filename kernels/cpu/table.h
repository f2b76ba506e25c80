/* SPDX-License-Identifier: Apache-2.0 */
/* The lookup tables that `embed` reads; lls_cpu_table_create makes them. */
#ifndef LLS_CPU_TABLE_H
#define LLS_CPU_TABLE_H

#include "core/device/device.h"

struct lls_cpu_table {
  struct lls_tensor_view view; /* data is never NULL: in the file's mapping, or `own` */
  void *own;                   /* (rows, columns) random bf16 or f32, or NULL */
};

#endif
