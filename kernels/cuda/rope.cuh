/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies vectors of heads in pieces of 16 bytes, and rotates them on the way (RoFormer,
 * Su et al., 2021, eq. 34), in pairs (i, i + pairs). A thread has two pieces of a
 * vector: two that are rotated with each other, or two neighbours of the part that is
 * not rotated. So nothing is read twice, and a warp's accesses are whole sectors of 32
 * bytes.
 */
#ifndef LLS_CUDA_ROPE_CUH
#define LLS_CUDA_ROPE_CUH

#include "kernels/cuda/number.cuh"

#define HEAD_THREADS 128 /* threads of a block, which has some heads of one row */

/* Values in a piece of a row of T that is stored as E. */
template <class T, class E>
constexpr int PIECE = sizeof(T) > sizeof(E) ? WIDE<T> : WIDE<E>;

/* Do vectors of `dims`, of which 2 x pairs are rotated, divide into pieces of n? */
static inline bool in_pieces(uint32_t dims, uint32_t pairs, int n)
{
  return dims % (uint32_t)n == 0 && pairs % (uint32_t)n == 0;
}

/* The thread block: (share, heads at once); the grid: (row, heads) blocks. */
static inline dim3 head_block(uint32_t shares)
{
  return dim3(shares, shares < HEAD_THREADS ? HEAD_THREADS / shares : 1);
}

static inline dim3 head_grid(uint32_t rows, uint32_t heads, uint32_t shares)
{
  unsigned at_once = head_block(shares).y;
  return dim3(rows, (heads + at_once - 1) / at_once);
}

/* Shares of a vector: each thread has two pieces. */
static inline uint32_t shares_of(uint32_t dims, int n)
{
  return (dims / (uint32_t)n + 1) / 2;
}

/* The beginnings of a thread's two pieces. If neither is rotated, the second may be
 * past the end. */
struct share {
  uint32_t first, second;
  bool rotated;
};

template <int N>
static __device__ __forceinline__ share share_of(uint32_t number, uint32_t pairs)
{
  if (number * N < pairs)
    return {number * N, pairs + number * N, true};
  return {2 * number * N, (2 * number + 1) * N, false};
}

/* Rotates both pieces of a share; a row's sines follow its cosines. */
template <class T, int N>
static __device__ __forceinline__ void rotate(several<T, N> &first, several<T, N> &second,
                                              const float *cosine, uint32_t pairs)
{
  float c[N], s[N], u[N], v[N];
  load_floats(c, cosine);
  load_floats(s, cosine + pairs);
#pragma unroll
  for (int i = 0; i < N; i++) {
    float x = to_float(first.v[i]), y = to_float(second.v[i]);
    u[i] = x * c[i] - y * s[i];
    v[i] = y * c[i] + x * s[i];
  }
  first = round_all<T>(u);
  second = round_all<T>(v);
}

/* Stores a share of a vector in the destination's type. */
template <class T, class E, int N>
static __device__ __forceinline__ void
store_share(E *to, const share &s, const several<T, N> &first,
            const several<T, N> &second, uint32_t dims)
{
  store_several(to + s.first, convert(first, to));
  if (s.second < dims)
    store_several(to + s.second, convert(second, to));
}

#endif
