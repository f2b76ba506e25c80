/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention with 16 floats a vector. Over a cache of bf16, q, the weights and the
 * values of INT8 blocks are rounded to bf16, as on AMX, and multiplied in pairs: twice
 * as many products an instruction as in f32. So K and V need not be widened.
 */
#include "kernels/cpu/attention_simd.h"

static void attend_bf16(const struct lls_attention_task *t, uint32_t begin, uint32_t end,
                        const struct lls_attention_state *out, void *scratch)
{
  attend_as(t, begin, end, out, true, scratch);
}

void lls_cpu_attention_avx512(struct lls_cpu_attention_kernels *k)
{
  k->attend = attend;
  k->attend_bf16 = attend_bf16;
}
