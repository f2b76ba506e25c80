/* SPDX-License-Identifier: Apache-2.0 */
/* INT8 blocks with 4 channels a vector. */
#include "kernels/cpu/int8_simd.h"

void lls_cpu_int8_neon(struct lls_cpu_int8_kernels *k)
{
  k->quantise = quantise;
  k->widen = widen;
}
