/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with vectors of 8. */
#include "kernels/cpu/attention_simd.h"

void lls_cpu_attention_avx2(struct lls_cpu_attention_kernels *k)
{
  k->attend = attend;
  k->attend_bf16 = attend;
}
