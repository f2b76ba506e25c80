/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with vectors of 16. */
#include "kernels/cpu/attention_simd.h"

void lls_cpu_attention_avx512(struct lls_cpu_attention_kernels *k)
{
  k->attend = attend;
  k->attend_bf16 = attend;
}
