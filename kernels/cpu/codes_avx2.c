/* SPDX-License-Identifier: Apache-2.0 */
/* codes_simd.h for AVX2. */
#include "kernels/cpu/codes_simd.h"

void lls_cpu_codes_avx2(struct lls_cpu_linear_kernels *k)
{
  enter_codes(k);
}
