/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts whole blocks to int8 and back, with the same bytes as kernels/cpu/int8.c,
 * which has the formula and its reason. A thread converts a channel of a head for all
 * tokens of the block.
 *
 * Bytes of a value: quantising reads it twice, the second time from the
 * multiprocessor's cache, and writes 1; widening does the reverse. Both take some 10
 * operations a value and run at the speed of memory. A token is quantised once in its
 * life, and read in each step.
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/number.cuh"

#define THREADS   128
#define HALF_MOST 65504.0f
#define STEPS     255

/* Rounds a value from 0 to 65504 towards 0 to an f16. */
static __device__ __forceinline__ uint16_t cut_to_half(float x)
{
  uint32_t bits = __float_as_uint(x);
  if (bits < 0x38800000) /* subnormal: in units of 2^-24 */
    return (uint16_t)(x * 16777216.0f);
  return (uint16_t)((bits - 0x38000000) >> 13);
}

static __device__ __forceinline__ uint16_t round_down(float x)
{
  uint32_t sign = __float_as_uint(x) >> 31;
  float size = fabsf(x);
  uint16_t half = cut_to_half(size);
  if (sign != 0 && half_to_float(half) < size)
    half++;
  return (uint16_t)(sign << 15 | half);
}

/* Rounds x >= 0 up to an f16. */
static __device__ __forceinline__ uint16_t round_up(float x)
{
  uint16_t half = cut_to_half(x);
  return half_to_float(half) < x ? half + 1 : half;
}

static __device__ __forceinline__ float clipped(float x)
{
  if (!(x > -HALF_MOST))
    return -HALF_MOST;
  return x < HALF_MOST ? x : HALF_MOST;
}

/* The first number of a thread block's head in a block. */
template <class N>
static __device__ __forceinline__ size_t numbers_at(const lls_cuda_pool &pool,
                                                    size_t block)
{
  return block + (size_t)blockIdx.x * pool.block_tokens * pool.head_dim * sizeof(N);
}

/* The scales of the head in an int8 block, behind the bytes of all heads. */
static __device__ __forceinline__ size_t scales_at(const lls_cuda_pool &pool,
                                                   size_t block)
{
  size_t bytes = (size_t)gridDim.x * pool.block_tokens * pool.head_dim;
  return block + bytes + (size_t)blockIdx.x * 2 * pool.head_dim * sizeof(uint16_t);
}

static __device__ __forceinline__ size_t source_of(const lls_cuda_conversion &c)
{
  return (size_t)c.from + c.blocks[blockIdx.y].from * c.from_stride;
}

static __device__ __forceinline__ size_t target_of(const lls_cuda_conversion &c)
{
  return (size_t)c.to + c.blocks[blockIdx.y].to * c.to_stride;
}

/* A thread block for each head of K and of V in all layers, for each pair of blocks. */
template <class E> __global__ void quantise(lls_cuda_pool pool, lls_cuda_conversion c)
{
  uint32_t hd = pool.head_dim, slots = pool.block_tokens;
  const E *from = (const E *)numbers_at<E>(pool, source_of(c));
  uint8_t *to = (uint8_t *)numbers_at<uint8_t>(pool, target_of(c));
  uint16_t *scales = (uint16_t *)scales_at(pool, target_of(c));
  for (unsigned d = threadIdx.x; d < hd; d += blockDim.x) {
    float low = to_float(from[d]), high = low;
    for (uint32_t slot = 1; slot < slots; slot++) {
      float x = to_float(from[slot * hd + d]);
      low = x < low ? x : low;
      high = x > high ? x : high;
    }
    uint16_t least = round_down(clipped(low));
    float base = half_to_float(least);
    uint16_t step = round_up((clipped(high) - base) / STEPS);
    float per_step = step > 0 ? 1 / half_to_float(step) : 0;
    scales[d] = step;
    scales[hd + d] = least;
    for (uint32_t slot = 0; slot < slots; slot++) {
      float x = to_float(from[slot * hd + d]);
      float q =
          __fadd_rn(__fmul_rn(x - base, per_step), 0.5f); /* rounded as on the CPU */
      q = q > 0 ? q : 0;                                  /* replaces NaN, too */
      to[slot * hd + d] = (uint8_t)(q < STEPS ? q : STEPS);
    }
  }
}

/* Widens a thread's channels of some slots, from the first on. */
template <class E>
static __device__ __forceinline__ void widen_slots(const uint8_t *from,
                                                   const uint16_t *scales, E *to,
                                                   uint32_t hd, uint32_t n_slots)
{
  for (unsigned d = threadIdx.x; d < hd; d += blockDim.x) {
    float step = half_to_float(scales[d]), least = half_to_float(scales[hd + d]);
    for (uint32_t slot = 0; slot < n_slots; slot++)
      to[slot * hd + d] = from_float<E>(least + step * (float)from[slot * hd + d]);
  }
}

template <class E> __global__ void make_wide(lls_cuda_pool pool, lls_cuda_conversion c)
{
  widen_slots((const uint8_t *)numbers_at<uint8_t>(pool, source_of(c)),
              (const uint16_t *)scales_at(pool, source_of(c)),
              (E *)numbers_at<E>(pool, target_of(c)), pool.head_dim, pool.block_tokens);
}

template <class E> __global__ void widen(lls_cuda_pool pool, lls_cuda_widening w)
{
  uint32_t hd = pool.head_dim;
  size_t head = blockIdx.x, slots = head * pool.block_tokens;
  widen_slots(w.from + (slots + w.from_slot) * hd, w.scales + head * 2 * hd,
              (E *)w.to + (slots + w.to_slot) * hd, hd, w.n_slots);
}

static dim3 threads_for(const lls_cuda_pool &pool)
{
  unsigned warps = (pool.head_dim + WARP - 1) / WARP * WARP;
  return dim3(warps < THREADS ? warps : THREADS);
}

template <class E>
static int run(cudaStream_t s, const lls_cuda_pool &pool, const lls_cuda_conversion &c)
{
  dim3 grid(pool.sides * pool.layers * pool.kv_heads, c.n), block = threads_for(pool);
  if (c.quantise != 0)
    return launch(s, quantise<E>, grid, block, 0, pool, c);
  return launch(s, make_wide<E>, grid, block, 0, pool, c);
}

extern "C" int lls_cuda_run_conversion(cudaStream_t s, const struct lls_cuda_pool *pool,
                                       const struct lls_cuda_conversion *c)
{
  if (c->n == 0)
    return 0;
  return pool->element == LLS_F32 ? run<float>(s, *pool, *c) : run<bf16>(s, *pool, *c);
}

extern "C" int lls_cuda_run_widening(cudaStream_t s, const struct lls_cuda_pool *pool,
                                     const struct lls_cuda_widening *w)
{
  dim3 grid(w->heads), block = threads_for(*pool);
  if (w->heads == 0 || w->n_slots == 0)
    return 0;
  return pool->element == LLS_F32 ? launch(s, widen<float>, grid, block, 0, *pool, *w)
                                  : launch(s, widen<bf16>, grid, block, 0, *pool, *w);
}
