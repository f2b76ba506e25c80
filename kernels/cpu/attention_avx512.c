/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention with vectors of 16. Over a cache of bf16, q and the weights are rounded to
 * bf16 as on AMX, and so are the numbers of INT8 blocks, and multiplied in pairs, twice
 * as many at once as of f32; K and V need not be widened.
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
