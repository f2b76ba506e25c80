/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotary position embedding (RoFormer, Su et al., 2021, eq. 34), in pairs
 * (i, i + pairs), and writing K and V to the cache. One kernel does both, since both
 * read the same rows and each takes little time compared with a launch. Angles are
 * computed once a step for all layers, in double as on the CPU (position 1,000,000
 * leaves an f32 four bits after the point).
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/rope.cuh"

#define THREADS 128

__global__ void make_angles(const lls_cuda_step *step, lls_cuda_angles a)
{
  double position = a.from_zero ? (double)blockIdx.x : step->positions[blockIdx.x];
  float *cosine = a.angles + (size_t)blockIdx.x * 2 * a.pairs, *sine = cosine + a.pairs;
  for (unsigned i = threadIdx.x; i < a.pairs; i += blockDim.x) {
    double angle = position * (double)a.frequency[i];
    float x = (float)(cos(angle) * (double)a.factor);
    float y = (float)(sin(angle) * (double)a.factor);
    wait_for_earlier();
    let_next_begin();
    cosine[i] = x;
    sine[i] = y;
  }
}

extern "C" int lls_cuda_run_angles(cudaStream_t s, const struct lls_cuda_step *step,
                                   const struct lls_cuda_angles *a)
{
  if (a->n_rows == 0)
    return 0;
  return launch_early(s, make_angles, a->n_rows, THREADS / 2, 0, step, *a);
}

/* Returns where a head of a row is written, layer and head included, according to the
 * step's lists. */
static __device__ __forceinline__ size_t slot_of(const lls_cuda_step *step,
                                                 const lls_cuda_pool &pool,
                                                 const lls_cuda_rope_write &a,
                                                 unsigned row, bool is_v,
                                                 unsigned kv_head)
{
  bool scratch = step->sequences[step->row_sequence[row]].scratch != 0;
  unsigned layer = (scratch ? 0 : a.layer) + (is_v ? scratch ? 1 : pool.layers : 0);
  return step->kv_at[row] +
         ((size_t)layer * pool.kv_heads + kv_head) * pool.block_tokens * a.head_dim;
}

/* Moves a share of a head of which the dims from `turned` on are rotated; share_of has
 * these first. */
static __device__ __forceinline__ share moved(const share &s, uint32_t turned,
                                              uint32_t pairs)
{
  if (s.rotated)
    return {s.first + turned, s.second + turned, true};
  uint32_t first = s.first - 2 * pairs, second = s.second - 2 * pairs;
  return {first < turned ? first : s.first, second < turned ? second : s.second, false};
}

/* One thread for each share of a head of q, k and v of a row; q is untouched if nothing
 * is rotated. The destination is looked up before the wait for earlier kernels, so that
 * one round of loads remains after it. */
template <class T, class E, int N>
__global__ void rope_write(const lls_cuda_step *step, lls_cuda_pool pool,
                           lls_cuda_rope_write a)
{
  unsigned row = blockIdx.x, all = a.heads + a.kv_heads + a.v_heads, dims = a.head_dim;
  unsigned head = blockIdx.y * blockDim.y + threadIdx.y + (a.pairs > 0 ? 0 : a.heads);
  if (head >= all || row >= step->n_rows)
    return;
  bool is_v = head >= a.heads + a.kv_heads, written = head >= a.heads && a.write;
  unsigned pairs = is_v ? 0 : a.pairs;
  const share of = share_of<N>(threadIdx.x, pairs), s = moved(of, a.turned, pairs);
  size_t at = 0;
  if (written)
    at = slot_of(step, pool, a, row, is_v, (head - a.heads) % a.kv_heads);
  wait_for_earlier();
  let_next_begin();
  T *x = (T *)a.qkv + ((size_t)row * all + head) * dims;
  several<T, N> first = load_several<T, N>(x + s.first), second = first;
  if (s.second < dims)
    second = load_several<T, N>(x + s.second);
  if (s.rotated) {
    rotate(first, second, a.angles + (size_t)row * 2 * a.pairs + of.first, a.pairs);
    store_several(x + s.first, first);
    store_several(x + s.second, second);
  }
  if (written)
    store_share((E *)pool.data + at, s, first, second, dims);
}

template <class T, class E, int N>
static int launch_pieces(cudaStream_t s, const lls_cuda_step *step,
                         const lls_cuda_pool *pool, const lls_cuda_rope_write *a)
{
  unsigned heads = (a->pairs > 0 ? a->heads : 0) + a->kv_heads + a->v_heads;
  unsigned shares = shares_of(a->head_dim, N);
  return launch_early(s, rope_write<T, E, N>, head_grid(a->n_rows, heads, shares),
                      head_block(shares), 0, step, *pool, *a);
}

template <class T, class E>
static int launch_rope(cudaStream_t s, const lls_cuda_step *step,
                       const lls_cuda_pool *pool, const lls_cuda_rope_write *a)
{
  constexpr int N = PIECE<T, E>;
  return in_pieces(a->head_dim, a->pairs, N) && a->turned % N == 0
             ? launch_pieces<T, E, N>(s, step, pool, a)
             : launch_pieces<T, E, 1>(s, step, pool, a);
}

extern "C" int lls_cuda_run_rope_write(cudaStream_t s, enum lls_dtype numbers,
                                       const struct lls_cuda_step *step,
                                       const struct lls_cuda_pool *pool,
                                       const struct lls_cuda_rope_write *a)
{
  if (a->n_rows == 0)
    return 0;
  if (numbers == LLS_F32)
    return pool->element == LLS_F32 ? launch_rope<float, float>(s, step, pool, a)
                                    : launch_rope<float, bf16>(s, step, pool, a);
  return pool->element == LLS_F32 ? launch_rope<bf16, float>(s, step, pool, a)
                                  : launch_rope<bf16, bf16>(s, step, pool, a);
}
