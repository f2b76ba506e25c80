/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hidden form: a token's X, the input of the layer's q, k, v products, is cached, and
 * K and V are made of it again in each step (Apt-Serve, section 4.1). X goes from its
 * blocks to rows, the rows through cuBLASLt by the part of the weight that makes k and v,
 * and from there, k rotated on the way, to the blocks that attention reads. Restored
 * tokens of all sequences are rows of the same product.
 *
 * Bytes besides the product's, of a token and layer: X read and written once, K and V
 * read and written once; the product takes 2 kv columns operations for each of these.
 */
#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/rope.cuh"

#define THREADS 128

struct restored { /* token `token` of a sequence */
  uint32_t sequence, token;
};

/* The sequence that a restored token is of: the last that begins no later. */
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

/* A row of (kv_heads, head_dim) between here and a slot, whose heads are far apart. */
template <class To, class From>
static __device__ __forceinline__ void copy_heads(const lls_cuda_pool &pool, To *to,
                                                  size_t to_stride, const From *from,
                                                  size_t from_stride)
{
  uint32_t hd = pool.head_dim;
  for (unsigned i = threadIdx.x; i < pool.kv_heads * hd; i += blockDim.x)
    to[i / hd * to_stride + i % hd] =
        from_float<To>(to_float(from[i / hd * from_stride + i % hd]));
}

template <class T, class E>
__global__ void write_hidden(const lls_cuda_step *step, lls_cuda_pool pool,
                             uint32_t layer, uint32_t columns, const void *h)
{
  uint32_t row = blockIdx.x, hd = pool.head_dim;
  if (row >= step->n_rows)
    return;
  const lls_cuda_sequence s = step->sequences[step->row_sequence[row]];
  if (!s.scratch)
    return;
  uint64_t at = find_token(x_list(step, s, pool, layer), s.context + row - s.first_row);
  const T *from = (const T *)h + (size_t)row * columns;
  copy_heads(pool, (E *)pool.data + at, (size_t)pool.block_tokens * hd, from, hd);
}

template <class T, class E>
__global__ void read_hidden(const lls_cuda_step *step, lls_cuda_pool pool,
                            lls_cuda_restore a)
{
  uint32_t hd = pool.head_dim;
  restored r = find_restored(step, a.first + blockIdx.x);
  const lls_cuda_sequence s = step->sequences[r.sequence];
  uint64_t at = find_token(x_list(step, s, pool, a.layer), r.token);
  T *to = (T *)a.x + (size_t)blockIdx.x * pool.kv_heads * hd;
  copy_heads(pool, to, hd, (const E *)pool.data + at, (size_t)pool.block_tokens * hd);
}

/* A warp for each head of k and v of a row: block (lanes, heads at once). */
template <class T, class E>
__global__ void write_restored(const lls_cuda_step *step, lls_cuda_pool pool,
                               lls_cuda_restore a)
{
  unsigned head = blockIdx.y * blockDim.y + threadIdx.y, hd = pool.head_dim;
  bool there = head < 2 * pool.kv_heads, is_v = head >= pool.kv_heads;
  restored r = find_restored(step, a.first + blockIdx.x);
  T *x = (T *)a.kv + ((size_t)blockIdx.x * 2 * pool.kv_heads + head) * hd;
  if (there && !is_v)
    rotate(a.pairs, a.angles + (size_t)r.token * 2 * a.pairs, x);
  __syncwarp();
  if (!there)
    return;
  const lls_cuda_sequence s = step->sequences[r.sequence];
  unsigned kv_head = head % pool.kv_heads;
  const kv_list list = is_v ? v_list(step, s, pool, a.layer, kv_head)
                            : k_list(step, s, pool, a.layer, kv_head);
  E *slot = (E *)pool.data + find_token(list, r.token);
  for (unsigned d = threadIdx.x; d < hd; d += blockDim.x)
    slot[d] = from_float<E>(to_float(x[d]));
}

/* ---- launching --------------------------------------------------------------------- */

/* call<numbers, the cache's numbers>(arguments) */
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
  return launch(s, write_hidden<T, E>, n_rows, THREADS, 0, step, *pool, layer, columns,
                h);
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
  return launch(s, read_hidden<T, E>, a->n_rows, THREADS, 0, step, *pool, *a);
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
  unsigned heads = 2 * pool->kv_heads, at_once = THREADS / WARP;
  return launch(s, write_restored<T, E>, dim3(a->n_rows, (heads + at_once - 1) / at_once),
                dim3(WARP, at_once), 0, step, *pool, *a);
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
