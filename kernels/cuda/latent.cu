/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares rows for multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section
 * 2.1), the attention of many heads that share one KV head: norms the latent, and copies
 * each head's rotated numbers after its absorbed query, which a product of experts.cu
 * makes in the same rows.
 *
 * Bytes of a bf16 row: 4 (heads rope + rank + rope), 33.3 KiB for DeepSeek-V3, most of
 * which the product before has just left in L2. Operations: 3 for each number of the
 * latent.
 */
#include "kernels/cuda/extras.h"
#include "kernels/cuda/rows.cuh"

/* Norms the latent of a row, by a whole block. */
template <class T, int N>
static __device__ __forceinline__ void norm_latent(const lls_cuda_latent &a, const T *kv,
                                                   T *to, shared<float> room)
{
  typedef several<T, N> group;
  const lls_latent_shape &s = a.shape;
  float squares = 0;
  for (uint32_t i = threadIdx.x; i < s.rank / N; i += blockDim.x) {
    const group x = ((const group *)kv)[i];
#pragma unroll
    for (int k = 0; k < N; k++)
      squares += to_float(x.v[k]) * to_float(x.v[k]);
  }
  squares = block_sum_once(squares, room);
  float factor = rsqrtf(squares / (float)s.rank + s.epsilon);
  for (uint32_t i = threadIdx.x; i < (s.rank + s.rope) / N; i += blockDim.x) {
    const group x = ((const group *)kv)[i];
    float value[N];
#pragma unroll
    for (int k = 0; k < N; k++)
      value[k] = to_float(x.v[k]) * (i < s.rank / N ? factor * s.norm[i * N + k] : 1);
    ((group *)to)[i] = round_all<T>(value);
  }
}

/* The first block of a row norms the latent, all others copy rotated numbers. */
template <class T, int N> __global__ void fill_latent(lls_cuda_latent a)
{
  SHARED_ARRAY(float, room, THREADS / WARP);
  typedef several<T, N> group;
  const lls_latent_shape &s = a.shape;
  uint32_t each = s.nope + s.rope, width = s.rank + s.rope, turned = s.rope / N;
  size_t row = blockIdx.x;
  T *to = (T *)a.rows + row * (s.heads + 1) * width;
  wait_for_earlier();
  let_next_begin();
  if (blockIdx.y == 0) {
    norm_latent<T, N>(a, (const T *)a.kv + row * width, to + (size_t)s.heads * width,
                      room);
    return;
  }
  uint32_t i = (blockIdx.y - 1) * blockDim.x + threadIdx.x, head = i / turned;
  if (head >= s.heads)
    return;
  const T *q = (const T *)a.q + row * s.heads * each + (size_t)head * each + s.nope;
  ((group *)(to + (size_t)head * width + s.rank))[i % turned] =
      ((const group *)q)[i % turned];
}

template <class T, int N>
static int launch_latent(cudaStream_t s, const lls_cuda_latent *a)
{
  uint32_t n = a->shape.heads * (a->shape.rope / N);
  return launch_early(s, fill_latent<T, N>, row_pieces(a->n_rows, n + THREADS, THREADS),
                      THREADS, 0, *a);
}

extern "C" int lls_cuda_run_latent(cudaStream_t s, enum lls_dtype numbers,
                                   const struct lls_cuda_latent *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_NUMBERS(numbers, a->shape.nope | a->shape.rope | a->shape.rank,
                     launch_latent, s, a);
}
