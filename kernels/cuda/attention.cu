/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over blocks of the cache's own numbers, and what puts the states of a shared
 * out context together. See attention.cuh. */
#include "kernels/cuda/attention.cuh"

/* A block a merge and KV head; in the order of tokens, so the same every time. */
__global__ void merge_states(const lls_cuda_plan *plan, const float *states,
                             lls_cuda_attention a)
{
  if (blockIdx.x >= plan->n_merges)
    return;
  const lls_cuda_merge g = plan->merges[blockIdx.x];
  uint32_t hd = a.head_dim, group = a.heads / a.kv_heads, kv_head = blockIdx.y;
  size_t floats = LLS_CUDA_STATE_FLOATS(hd),
         step = (size_t)g.stride * a.kv_heads * floats;
  const float *first = states + ((size_t)g.part * a.kv_heads + kv_head) * floats;
  for (unsigned i = threadIdx.x; i < g.n_queries * hd; i += blockDim.x) {
    uint32_t query = i / hd, d = i % hd;
    const float *s = first, *scale = first + 16 * hd + query;
    float max = NOTHING, sum = 0, value = 0;
    for (uint32_t k = 0; k < g.n_parts; k++, s += step, scale += step) {
      float later = fmaxf(max, scale[0]), base = later == NOTHING ? 0 : later;
      float decay = exp2f(max - base), factor = exp2f(scale[0] - base);
      value = value * decay + factor * s[i];
      sum = sum * decay + factor * scale[16];
      max = later;
    }
    uint32_t index = g.first_query + query;
    size_t row = g.first_row + index / group, head = kv_head * group + index % group;
    ((bf16 *)a.out)[(row * a.heads + head) * hd + d] = from_float<bf16>(value / sum);
  }
}

extern "C" bool lls_cuda_attention_fits(enum lls_dtype numbers,
                                        const struct lls_cuda_pool *pool,
                                        const struct lls_cuda_attention *a)
{
  bool size =
      a->head_dim == 64 || a->head_dim == 80 || a->head_dim == 96 || a->head_dim == 128;
  return numbers == LLS_BF16 && pool->element == LLS_BF16 && size &&
         a->heads / a->kv_heads <= LLS_CUDA_LARGE;
}

extern "C" int lls_cuda_attention_setup(void)
{
  int rc = setup_all<false>();
  if (rc == 0)
    rc = load(merge_states); /* a graph always has it, the run before only at need */
  return rc != 0 ? rc : lls_cuda_attention_int8_setup();
}

extern "C" int lls_cuda_run_attention(cudaStream_t s, const struct lls_cuda_step *step,
                                      const struct lls_cuda_plan *plan,
                                      const struct lls_cuda_pool *pool,
                                      const struct lls_cuda_grid *grid, float *states,
                                      const struct lls_cuda_attention *a)
{
  int rc = pool->scales != NULL
               ? lls_cuda_run_attention_int8(s, step, plan, pool, grid, states, a)
               : run_any<false>({s, step, plan, pool, grid, states, a});
  if (rc == 0 && grid->merges > 0)
    rc = launch(s, merge_states, dim3(grid->merges, a->kv_heads), 4 * WARP, 0, plan,
                (const float *)states, *a);
  return rc;
}
