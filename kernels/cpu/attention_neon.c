/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with 4 floats a vector. */
#include "kernels/cpu/attention_simd.h"

void lls_cpu_attention_neon(struct lls_cpu_attention_kernels *k)
{
  k->attend = attend;
  k->attend_bf16 = attend;
}
