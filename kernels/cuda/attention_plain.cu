/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention without tensor cores, for all shapes that attention.cu does not support:
 * f32, unusual head sizes, ALiBi. A block for each row and head, in tiles of 128 tokens.
 * It is correct, but not fast.
 */
#include "kernels/cuda/blocks.cuh"

#define THREADS  128
#define HEAD_MAX LLS_CUDA_HEAD_MAX
#define NOTHING  (-INFINITY)

/* The maximum over a block, returned to all its threads; room (THREADS / WARP). */
static __device__ __forceinline__ float block_max(float x, shared<float> room)
{
  x = warp_max(x);
  __syncthreads();
  if (threadIdx.x % WARP == 0)
    room[threadIdx.x / WARP] = x;
  __syncthreads();
  for (unsigned i = 0; i < blockDim.x / WARP; i++)
    x = fmaxf(x, room[i]);
  return x;
}

/* A token's K or V. */
template <class E> struct vector {
  const void *at;
  const uint16_t *scales; /* (2, head_dim) of an int8 block, else NULL */
  uint32_t head_dim;

  __device__ __forceinline__ vector(const lls_cuda_pool &pool, uint32_t layer,
                                    uint32_t kv_head, token_place place)
      : at((const E *)pool.data + place.at), scales(nullptr), head_dim(pool.head_dim)
  {
    if (place.half == NOT_INT8)
      return;
    at = (const uint8_t *)pool.data + place.at;
    scales = find_scales(pool, layer, kv_head, place.half);
  }

  __device__ __forceinline__ float operator[](uint32_t d) const
  {
    if (scales == nullptr)
      return to_float(((const E *)at)[d]);
    float step = half_to_float(scales[d]), least = half_to_float(scales[head_dim + d]);
    return least + step * (float)((const uint8_t *)at)[d];
  }
};

template <class T, class E>
__global__ void attend_row(const lls_cuda_step *step, lls_cuda_pool pool,
                           lls_cuda_attention a)
{
  SHARED_ARRAY(float, q, HEAD_MAX);
  SHARED_ARRAY(float, weight, THREADS);
  SHARED_ARRAY(token_place, place, THREADS);
  SHARED_ARRAY(float, room, THREADS / WARP);
  uint32_t row = blockIdx.x, head = blockIdx.y, hd = a.head_dim, tid = threadIdx.x;
  if (row >= step->n_rows)
    return;
  const lls_cuda_sequence sequence = step->sequences[step->row_sequence[row]];
  uint32_t kv_head = head / (a.heads / a.kv_heads);
  uint32_t position = sequence.context + row - sequence.first_row;
  uint32_t begin = lls_cuda_oldest(&a, position);
  const kv_list k = k_list(step, sequence, pool, a.layer, kv_head);
  const kv_list v = v_list(step, sequence, pool, a.layer, kv_head);
  const T *from = (const T *)a.qkv;
  from += (size_t)row * a.columns + (size_t)head * hd;
  for (unsigned d = tid; d < hd; d += THREADS)
    q[d] = to_float(from[d]) * a.scale;
  float max = NOTHING, sum = 0, value[HEAD_MAX / THREADS] = {0};
  if (a.sinks != nullptr) {
    max = a.sinks[head];
    sum = 1;
  }
  for (uint32_t first = begin; first <= position; first += THREADS) {
    uint32_t token = first + tid;
    __syncthreads(); /* q has arrived; weights and places are no longer read */
    float score = NOTHING;
    if (token <= position) {
      const vector<E> key(pool, a.layer, kv_head, find_place(pool, k, token));
      score = 0;
      for (uint32_t d = 0; d < hd; d++)
        score += q[d] * key[d];
      if (a.soft_cap > 0)
        score = a.soft_cap * tanhf(score / a.soft_cap);
      if (a.slopes != nullptr)
        score -= a.slopes[head] * (float)(position - token);
      place[tid] = find_place(pool, v, token);
    }
    float later = fmaxf(max, block_max(score, room)), decay = expf(max - later);
    float w = expf(score - later);
    weight[tid] = w;
    /* block_sum's barriers make the weights visible to all threads */
    sum = sum * decay + block_sum(w, room);
    max = later;
    uint32_t n = position + 1 - first < THREADS ? position + 1 - first : THREADS;
    for (unsigned i = 0; i < HEAD_MAX / THREADS; i++) {
      unsigned d = tid + i * THREADS;
      if (d >= hd)
        continue;
      value[i] *= decay;
      for (uint32_t t = 0; t < n; t++)
        value[i] += weight[t] * vector<E>(pool, a.layer, kv_head, place[t])[d];
    }
  }
  T *out = (T *)a.out + ((size_t)row * a.heads + head) * hd;
  for (unsigned i = 0; i < HEAD_MAX / THREADS; i++)
    if (tid + i * THREADS < hd)
      out[tid + i * THREADS] = from_float<T>(value[i] / sum);
}

template <class T, class E>
static int run(cudaStream_t s, const lls_cuda_step *step, const lls_cuda_pool *pool,
               const lls_cuda_attention *a)
{
  return launch(s, attend_row<T, E>, dim3(a->n_rows, a->heads), THREADS, 0, step, *pool,
                *a);
}

extern "C" int lls_cuda_run_attention_plain(cudaStream_t s, enum lls_dtype numbers,
                                            const struct lls_cuda_step *step,
                                            const struct lls_cuda_pool *pool,
                                            const struct lls_cuda_attention *a)
{
  if (a->n_rows == 0)
    return 0;
  if (numbers == LLS_F32)
    return pool->element == LLS_F32 ? run<float, float>(s, step, pool, a)
                                    : run<float, bf16>(s, step, pool, a);
  return pool->element == LLS_F32 ? run<bf16, float>(s, step, pool, a)
                                  : run<bf16, bf16>(s, step, pool, a);
}
