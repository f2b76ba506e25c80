/* SPDX-License-Identifier: Apache-2.0 */
/* The recurrent kernels with 8 floats a vector. */
#include "kernels/cpu/recurrent_simd.h"

void lls_cpu_recurrent_avx2(struct lls_cpu_recurrent_kernels *k)
{
  fill(k);
}
