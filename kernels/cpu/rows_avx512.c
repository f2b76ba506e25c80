/* SPDX-License-Identifier: Apache-2.0 */
/* The row kernels with 16 floats a vector. */
#include "kernels/cpu/rows_simd.h"

void lls_cpu_rows_avx512(struct lls_cpu_row_kernels *k)
{
  fill(k);
}
