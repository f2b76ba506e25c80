/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over pools with int8 blocks; see attention.cuh. */
#include "kernels/cuda/attention.cuh"

extern "C" int lls_cuda_attention_int8_setup(void)
{
  return setup_all<true>();
}

extern "C" int lls_cuda_attention_int8_at_once(const struct lls_cuda_pool *pool)
{
  return any_at_once<true>(pool->head_dim);
}

extern "C" int lls_cuda_run_attention_int8(
    cudaStream_t s, const struct lls_cuda_step *step, const struct lls_cuda_plan *plan,
    const struct lls_cuda_pool *pool, const struct lls_cuda_grid *grid,
    const struct lls_cuda_states *states, const struct lls_cuda_attention *a)
{
  return run_any<true>({s, step, plan, pool, grid, states, a});
}
