/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hidden form: a token's X, the input of the layer's q, k, v products, is cached,
 * and K and V are computed from it again in each step (Apt-Serve, section 4.1). X is
 * copied from its blocks to rows; cuBLASLt multiplies the rows by the k and v part of
 * the weight; the results, with k rotated, are written to the blocks that attention
 * reads. Restored tokens of all sequences are rows of the same product.
 *
 * Bytes in addition to the product's, for a token and layer: X is read and written
 * once, and so are K and V, 16 bytes a thread (rope.cuh); the product takes 2 kv
 * columns operations for each element.
 */
#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/rope.cuh"

struct restored { /* token `token` of a sequence */
  uint32_t sequence, token;
};

/* Finds the sequence of a restored token: the last one that begins no later. */
static __device__ __forceinline__ restored find_restored(const lls_cuda_step *step,
                                                         uint32_t index)
{
  uint32_t low = 0, high = step->n_sequences;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (step->sequences[middle].first_restored <= index)
      low = middle;
    else
      high = middle;
  }
  return {low, index - step->sequences[low].first_restored};
}

#define NONE (~(uint64_t)0) /* slot of a row that is not stored */

/* One thread for each piece of a head of X of a row; block (pieces, heads at once). */
template <class T, class E, int N>
__global__ void write_hidden(const lls_cuda_step *step, lls_cuda_pool pool,
                             uint32_t layer, uint32_t columns, const void *h)
{
  uint32_t row = blockIdx.x, hd = pool.head_dim;
  uint32_t head = blockIdx.y * blockDim.y + threadIdx.y, at = threadIdx.x * N;
  uint64_t slot = NONE;
  if (row < step->n_rows && head < pool.kv_heads) {
    const lls_cuda_sequence s = step->sequences[step->row_sequence[row]];
    if (s.scratch)
      slot = find_token(x_list(step, s, pool, layer), s.context + row - s.first_row);
  }
  wait_for_earlier();
  let_next_begin();
  if (slot == NONE)
    return;
  const T *from = (const T *)h + (size_t)row * columns + head * hd + at;
  several<T, N> x = load_several<T, N>(from);
  E *to = (E *)pool.data + slot + (size_t)head * pool.block_tokens * hd + at;
  store_several(to, convert(x, to));
}

template <class T, class E, int N>
__global__ void read_hidden(const lls_cuda_step *step, lls_cuda_pool pool,
                            lls_cuda_restore a)
{
  uint32_t head = blockIdx.y * blockDim.y + threadIdx.y, at = threadIdx.x * N;
  uint32_t hd = pool.head_dim;
  if (head >= pool.kv_heads)
    return;
  restored r = find_restored(step, a.first + blockIdx.x);
  const lls_cuda_sequence s = step->sequences[r.sequence];
  uint64_t slot = find_token(x_list(step, s, pool, a.layer), r.token);
  const E *from =
      (const E *)pool.data + slot + (size_t)head * pool.block_tokens * hd + at;
  T *to = (T *)a.x + ((size_t)blockIdx.x * pool.kv_heads + head) * hd + at;
  wait_for_earlier();
  let_next_begin();
  store_several(to, convert(load_several<E, N>(from), to));
}

/* One thread for each share of a head of k and v of a row. */
template <class T, class E, int N>
__global__ void write_restored(const lls_cuda_step *step, lls_cuda_pool pool,
                               lls_cuda_restore a)
{
  unsigned head = blockIdx.y * blockDim.y + threadIdx.y, hd = pool.head_dim;
  bool is_v = head >= pool.kv_heads;
  if (head >= 2 * pool.kv_heads)
    return;
  restored r = find_restored(step, a.first + blockIdx.x);
  const lls_cuda_sequence s = step->sequences[r.sequence];
  unsigned kv_head = is_v ? head - pool.kv_heads : head;
  const kv_list list = is_v ? v_list(step, s, pool, a.layer, kv_head)
                            : k_list(step, s, pool, a.layer, kv_head);
  uint64_t slot = find_token(list, r.token);
  wait_for_earlier();
  let_next_begin();
  const share part = share_of<N>(threadIdx.x, is_v ? 0 : a.pairs);
  const T *x = (const T *)a.kv + ((size_t)blockIdx.x * 2 * pool.kv_heads + head) * hd;
  several<T, N> first = load_several<T, N>(x + part.first), second = first;
  if (part.second < hd)
    second = load_several<T, N>(x + part.second);
  if (part.rotated)
    rotate(first, second, a.angles + (size_t)r.token * 2 * a.pairs + part.first, a.pairs);
  store_share((E *)pool.data + slot, part, first, second, hd);
}

/* ---- launching --------------------------------------------------------------------- */

/* call<activation type, cache type>(arguments) */
#define FOR_TYPES(numbers, element, call, ...)                                           \
  ((numbers) == LLS_F32 ? ((element) == LLS_F32 ? call<float, float>(__VA_ARGS__)        \
                                                : call<float, bf16>(__VA_ARGS__))        \
                        : ((element) == LLS_F32 ? call<bf16, float>(__VA_ARGS__)         \
                                                : call<bf16, bf16>(__VA_ARGS__)))

template <class T, class E>
static int launch_write(cudaStream_t s, const lls_cuda_step *step,
                        const lls_cuda_pool *pool, uint32_t layer, uint32_t n_rows,
                        uint32_t columns, const void *h)
{
  constexpr int N = PIECE<T, E>;
  bool pieces = in_pieces(pool->head_dim, 0, N) && columns % N == 0 &&
                (uintptr_t)h % sizeof(several<T, N>) == 0;
  uint32_t lanes = pool->head_dim / (pieces ? N : 1);
  return launch_early(s, pieces ? write_hidden<T, E, N> : write_hidden<T, E, 1>,
                      head_grid(n_rows, pool->kv_heads, lanes), head_block(lanes), 0,
                      step, *pool, layer, columns, h);
}

extern "C" int lls_cuda_run_hidden_write(cudaStream_t s, enum lls_dtype numbers,
                                         const struct lls_cuda_step *step,
                                         const struct lls_cuda_pool *pool, uint32_t layer,
                                         uint32_t n_rows, uint32_t columns, const void *h)
{
  if (n_rows == 0)
    return 0;
  return FOR_TYPES(numbers, pool->element, launch_write, s, step, pool, layer, n_rows,
                   columns, h);
}

template <class T, class E>
static int launch_read(cudaStream_t s, const lls_cuda_step *step,
                       const lls_cuda_pool *pool, const lls_cuda_restore *a)
{
  constexpr int N = PIECE<T, E>;
  bool pieces = in_pieces(pool->head_dim, 0, N);
  uint32_t lanes = pool->head_dim / (pieces ? N : 1);
  return launch_early(s, pieces ? read_hidden<T, E, N> : read_hidden<T, E, 1>,
                      head_grid(a->n_rows, pool->kv_heads, lanes), head_block(lanes), 0,
                      step, *pool, *a);
}

extern "C" int lls_cuda_run_restore_read(cudaStream_t s, enum lls_dtype numbers,
                                         const struct lls_cuda_step *step,
                                         const struct lls_cuda_pool *pool,
                                         const struct lls_cuda_restore *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_TYPES(numbers, pool->element, launch_read, s, step, pool, a);
}

template <class T, class E>
static int launch_restored(cudaStream_t s, const lls_cuda_step *step,
                           const lls_cuda_pool *pool, const lls_cuda_restore *a)
{
  constexpr int N = PIECE<T, E>;
  bool pieces = in_pieces(pool->head_dim, a->pairs, N);
  uint32_t shares = shares_of(pool->head_dim, pieces ? N : 1);
  return launch_early(s, pieces ? write_restored<T, E, N> : write_restored<T, E, 1>,
                      head_grid(a->n_rows, 2 * pool->kv_heads, shares),
                      head_block(shares), 0, step, *pool, *a);
}

extern "C" int lls_cuda_run_restore_write(cudaStream_t s, enum lls_dtype numbers,
                                          const struct lls_cuda_step *step,
                                          const struct lls_cuda_pool *pool,
                                          const struct lls_cuda_restore *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_TYPES(numbers, pool->element, launch_restored, s, step, pool, a);
}
