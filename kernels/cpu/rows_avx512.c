/* SPDX-License-Identifier: Apache-2.0 */
/* The row kernels with vectors of 16. */
#include "kernels/cpu/rows_simd.h"

void lls_cpu_rows_avx512(struct lls_cpu_row_kernels *k)
{
  fill(k);
}
