/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention with vectors of 16. Over a cache of bf16, q and the weights are rounded to
 * bf16 as on AMX and multiplied in pairs, twice as many at once as of f32; K and V need
 * not be widened. A cache that may have INT8 blocks stays with f32.
 */
#include "kernels/cpu/attention_simd.h"

static void attend_bf16(const struct lls_attention_task *t, uint32_t begin, uint32_t end,
                        const struct lls_attention_state *out, void *scratch)
{
  if (t->k.int8 == NULL)
    attend_as(t, begin, end, out, true, scratch);
  else
    attend(t, begin, end, out, scratch);
}

void lls_cpu_attention_avx512(struct lls_cpu_attention_kernels *k)
{
  k->attend = attend;
  k->attend_bf16 = attend_bf16;
}
