/* SPDX-License-Identifier: Apache-2.0 */
/* INT8 blocks with 16 channels a vector. */
#include "kernels/cpu/int8_simd.h"

void lls_cpu_int8_avx512(struct lls_cpu_int8_kernels *k)
{
  k->quantise = quantise;
  k->widen = widen;
}
