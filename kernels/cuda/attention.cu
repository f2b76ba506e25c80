/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over blocks in the cache's own element type, and the choice between these
 * kernels and those for int8 blocks. See attention.cuh. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/extras.h"

extern "C" bool lls_cuda_attention_fits(enum lls_dtype numbers,
                                        const struct lls_cuda_pool *pool,
                                        const struct lls_cuda_attention *a)
{
  if (pool->sides == 1)
    return lls_cuda_attention_latent_fits(numbers, pool, a);
  bool size =
      a->head_dim == 64 || a->head_dim == 80 || a->head_dim == 96 || a->head_dim == 128;
  return numbers == LLS_BF16 && pool->element == LLS_BF16 && size &&
         a->heads / a->kv_heads <= LLS_CUDA_LARGE && a->slopes == NULL &&
         pool->sides == 2;
}

extern "C" int lls_cuda_attention_setup(void)
{
  int rc = setup_all<false>();
  rc = rc != 0 ? rc : lls_cuda_attention_int8_setup();
  return rc != 0 ? rc : lls_cuda_attention_latent_setup();
}

extern "C" int lls_cuda_attention_at_once(const struct lls_cuda_pool *pool)
{
  return pool->int8 != 0 ? lls_cuda_attention_int8_at_once(pool)
                         : any_at_once<false>(pool->head_dim);
}

extern "C" int lls_cuda_run_attention(cudaStream_t s, const struct lls_cuda_step *step,
                                      const struct lls_cuda_plan *plan,
                                      const struct lls_cuda_pool *pool,
                                      const struct lls_cuda_grid *grid,
                                      const struct lls_cuda_states *states,
                                      const struct lls_cuda_attention *a)
{
  if (pool->sides == 1)
    return lls_cuda_run_attention_latent(s, step, plan, pool, grid, states, a);
  return pool->int8 != 0
             ? lls_cuda_run_attention_int8(s, step, plan, pool, grid, states, a)
             : run_any<false>({s, step, plan, pool, grid, states, a});
}
