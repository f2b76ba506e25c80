/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of y = x W^T + b; filled in by linear_*.c. */
#ifndef LLS_CPU_LINEAR_H
#define LLS_CPU_LINEAR_H

struct lls_cpu_linear_kernels {
  const char *name;
};

#endif
