/* SPDX-License-Identifier: Apache-2.0 */
/* The recurrent kernels with 4 floats a vector. */
#include "kernels/cpu/recurrent_simd.h"

void lls_cpu_recurrent_neon(struct lls_cpu_recurrent_kernels *k)
{
  fill(k);
}
