/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of prompts on Hopper: the kernels, and the conditions for using them. See
 * attention_hopper.cuh. */
#include "kernels/cuda/attention_hopper.cuh"

template <int HD> static int setup(bool *there)
{
  int rc = load_body(attend_hopper<HD>, 90, there);
  return rc != 0 || !*there ? rc : allow_shared(attend_hopper<HD>, matrices<HD>::bytes);
}

extern "C" int lls_cuda_attention_hopper_setup(bool *there)
{
  int rc = setup<128>(there);
  return rc != 0 || !*there ? rc : setup<64>(there);
}

extern "C" bool lls_cuda_attention_hopper_fits(const struct lls_cuda_pool *pool,
                                               const struct lls_cuda_grid *grid,
                                               const struct lls_cuda_attention *a)
{
  return grid->hopper > 0 && pool->int8 == 0 && (a->head_dim == 64 || a->head_dim == 128);
}

extern "C" int lls_cuda_run_attention_hopper(
    cudaStream_t s, const struct lls_cuda_step *step, const struct lls_cuda_plan *plan,
    const struct lls_cuda_pool *pool, const struct lls_cuda_grid *grid,
    const struct lls_cuda_states *states, const struct lls_cuda_attention *a)
{
  auto run = [=](auto kernel, size_t bytes) {
    return launch(s, kernel, grid->hopper, HOPPER_THREADS, bytes, step, plan, *pool,
                  states->states, states->finished, *a);
  };
  return a->head_dim == 64 ? run(attend_hopper<64>, matrices<64>::bytes)
                           : run(attend_hopper<128>, matrices<128>::bytes);
}
