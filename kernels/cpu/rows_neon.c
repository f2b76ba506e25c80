/* SPDX-License-Identifier: Apache-2.0 */
/* The row kernels with 4 floats a vector. */
#include "kernels/cpu/rows_simd.h"

void lls_cpu_rows_neon(struct lls_cpu_row_kernels *k)
{
  fill(k);
}
