/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The element types of activations, weights and cache. Kernels read them as f32, and
 * round their results to nearest, ties to even.
 */
#ifndef LLS_CUDA_NUMBER_CUH
#define LLS_CUDA_NUMBER_CUH

#include "kernels/cuda/kernel.cuh"

struct bf16 { /* the upper half of an f32 */
  uint16_t bits;
};

static __device__ __forceinline__ float to_float(float x)
{
  return x;
}

static __device__ __forceinline__ float to_float(bf16 x)
{
  return __uint_as_float((uint32_t)x.bits << 16);
}

/* Two bf16, the first in the lower half. */
static __device__ __forceinline__ uint32_t pack_bf16(float low, float high)
{
#ifdef __CUDACC__
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  uint32_t half[2];
  for (int i = 0; i < 2; i++) {
    uint32_t bits = __float_as_uint(i == 0 ? low : high);
    bool number = (bits & 0x7fffffff) <= 0x7f800000;
    half[i] = number ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fff;
  }
  return half[0] | half[1] << 16;
#endif
}

/* x y + z of two bf16 each, rounded once. */
static __device__ __forceinline__ uint32_t fma_bf16(uint32_t x, uint32_t y, uint32_t z)
{
#ifdef __CUDACC__
  uint32_t both;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(both) : "r"(x), "r"(y), "r"(z));
  return both;
#else
  float half[2];
  for (int i = 0; i < 2; i++, x >>= 16, y >>= 16, z >>= 16)
    half[i] = __uint_as_float(x << 16) * __uint_as_float(y << 16) +
              /* f32 has enough bits for what the kernels compute */
              __uint_as_float(z << 16);
  return pack_bf16(half[0], half[1]);
#endif
}

template <class T> __device__ __forceinline__ T from_float(float x);

template <> __device__ __forceinline__ float from_float<float>(float x)
{
  return x;
}

template <> __device__ __forceinline__ bf16 from_float<bf16>(float x)
{
  return bf16{(uint16_t)pack_bf16(x, 0)};
}

/* IEEE 754 binary16; multiplying makes subnormal halves normal. */
static __device__ __forceinline__ float half_to_float(uint16_t half)
{
#ifdef __CUDACC__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
  return x;
#else
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
  if (rest >= 0x7c00)
    return __uint_as_float(sign | 0x7f800000 | rest << 13);
  float scaled = __uint_as_float(rest << 13) * 5.192296858534828e33f; /* 2^112 */
  return __uint_as_float(sign | __float_as_uint(scaled));
#endif
}

/* ---- two halves in 32 bits, the first in the lower --------------------------------- */

#ifndef __CUDACC__
/* Emulator only: rounds f32 to f16. A sum computed in f32 is thus rounded twice. */
static inline uint32_t nearest_half(float x)
{
  uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits >= 0x477ff000)
    return sign | (bits > 0x7f800000 ? 0x7fff : 0x7c00);
  if (bits < 0x38800000) /* subnormal: in units of 2^-24 */
    return sign | (uint32_t)lrintf(__uint_as_float(bits) * 16777216.0f);
  return sign | (bits + 0xfff + (bits >> 13 & 1) - 0x38000000) >> 13;
}
#endif

static __device__ __forceinline__ uint32_t pack_half(float low, float high)
{
#ifdef __CUDACC__
  uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  return nearest_half(low) | nearest_half(high) << 16;
#endif
}

static __device__ __forceinline__ uint32_t add_half(uint32_t x, uint32_t y)
{
#ifdef __CUDACC__
  uint32_t both;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(both) : "r"(x), "r"(y));
  return both;
#else
  return pack_half(half_to_float((uint16_t)x) + half_to_float((uint16_t)y),
                   half_to_float(x >> 16) + half_to_float(y >> 16));
#endif
}

/* x y + z, rounded once. */
static __device__ __forceinline__ uint32_t fma_half(uint32_t x, uint32_t y, uint32_t z)
{
#ifdef __CUDACC__
  uint32_t both;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(both) : "r"(x), "r"(y), "r"(z));
  return both;
#else
  float half[2];
  for (int i = 0; i < 2; i++, x >>= 16, y >>= 16, z >>= 16)
    half[i] = half_to_float((uint16_t)x) * half_to_float((uint16_t)y) +
              half_to_float((uint16_t)z);
  return pack_half(half[0], half[1]);
#endif
}

/* N values that are loaded and stored at once. */
template <class T, int N> struct alignas(sizeof(T) * N) several {
  T v[N];
};

/* Loads four values that another block may have written during this launch. */
static __device__ __forceinline__ several<float, 4> load_written(const float *from)
{
  several<float, 4> x;
#ifdef __CUDACC__
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.v[0]), "=f"(x.v[1]), "=f"(x.v[2]), "=f"(x.v[3])
               : "l"(from)
               : "memory");
#else
  memcpy(&x, from, sizeof x);
#endif
  return x;
}

/* Values in 16 bytes. */
template <class T> constexpr int WIDE = 16 / sizeof(T);

template <class T, int N>
static __device__ __forceinline__ several<T, N> load_several(const T *from)
{
  return *(const several<T, N> *)from;
}

template <class T, int N>
static __device__ __forceinline__ void store_several(T *to, const several<T, N> &x)
{
  *(several<T, N> *)to = x;
}

/* Loads or stores N floats, 16 bytes at a time. */
template <int N>
static __device__ __forceinline__ void load_floats(float (&to)[N], const float *from)
{
  constexpr int AT_ONCE = N < 4 ? N : 4;
#pragma unroll
  for (int i = 0; i < N; i += AT_ONCE) {
    several<float, AT_ONCE> some = load_several<float, AT_ONCE>(from + i);
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++)
      to[i + k] = some.v[k];
  }
}

template <class T, int N>
static __device__ __forceinline__ several<T, N> round_all(const float (&x)[N])
{
  several<T, N> out;
  if constexpr (sizeof(T) == sizeof(bf16) && N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      uint32_t both = pack_bf16(x[i], x[i + 1]);
      out.v[i].bits = (uint16_t)both;
      out.v[i + 1].bits = (uint16_t)(both >> 16);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; i++)
      out.v[i] = from_float<T>(x[i]);
  }
  return out;
}

/* Converts values to another type, or leaves them. */
template <class T, int N>
static __device__ __forceinline__ several<T, N> convert(const several<T, N> &x, const T *)
{
  return x;
}

template <class To, class From, int N>
static __device__ __forceinline__ several<To, N> convert(const several<From, N> &x,
                                                         const To *)
{
  float wide[N];
#pragma unroll
  for (int i = 0; i < N; i++)
    wide[i] = to_float(x.v[i]);
  return round_all<To>(wide);
}

#endif
