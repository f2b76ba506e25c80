/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts rows of activations to 8-bit codes, for cuBLASLt's products with weights of
 * that type, e4m3 or int8 (W8A8). Each row has a scale: its largest magnitude / the
 * type's largest. Columns have the same order as in a piece of codes (codes.h), since a
 * product only needs both sides to have the same order. Also converts 32-bit sums back
 * to activations: sums of int8, where 2^17 products of two codes fit, and of e4m3 on
 * GPUs whose cuBLASLt has no scales of rows.
 *
 * A block converts a row, and reads it twice: 2 bytes read and one written for each
 * element, in addition to the product's time of 2 outputs / (peak rate of the type).
 * Scaling the sums reads 4 bytes and writes 2 for each output of a row, in addition to
 * 2 inputs / (peak rate of int8): for 4096 inputs on an H100 (1979e12/s, 3.35e12
 * bytes/s) 1.8 ps in addition to 4.1 ps, if nothing is in the L2. Sums are computed 16
 * MiB at a time, so that most of them are in the L2 (linear.c). A type is a struct with
 * LARGEST, the magnitude that a row's largest value is scaled to; magnitude(x), used to
 * find the largest value; and code(x) for |x| <= LARGEST.
 */
#include "kernels/cuda/number.cuh"
#include "kernels/cuda/quantise.h"

#define THREADS 256

struct e4m3 {
  static constexpr float LARGEST = 448;

  static __device__ __forceinline__ float magnitude(float x)
  {
    return fabsf(x); /* the code of NaN is NaN */
  }

  /* Rounds to nearest, ties to even; NaN if x is NaN. */
  static __device__ __forceinline__ uint32_t code(float x)
  {
    uint32_t bits = __float_as_uint(x), size = bits & 0x7fffffff,
             sign = bits >> 24 & 0x80;
    float magnitude = __uint_as_float(size);
    if (!(magnitude < 480))
      return 0x7f;
    /* a subnormal in steps of 2^-9; eight steps are the least normal value */
    if (magnitude < 0x1p-6f)
      return sign | (uint32_t)rintf(magnitude * 512);
    return sign | (((size + 0x7ffff + (size >> 20 & 1)) >> 20) - (120 << 3));
  }
};

struct int8_code {
  static constexpr float LARGEST = 127;

  /* Counts NaN as infinite, so that its row's scale is infinite and its outputs are
   * NaN. */
  static __device__ __forceinline__ float magnitude(float x)
  {
    return x == x ? fabsf(x) : INFINITY;
  }

  /* Rounds to nearest, ties to even. */
  static __device__ __forceinline__ uint32_t code(float x)
  {
    return (uint32_t)(int32_t)rintf(fminf(fmaxf(x, -LARGEST), LARGEST)) & 0xff;
  }
};

static __device__ __forceinline__ float block_max(float x, shared<float> room)
{
  x = warp_max(x);
  if (threadIdx.x % WARP == 0)
    room[threadIdx.x / WARP] = x;
  __syncthreads();
  for (unsigned i = 0; i < THREADS / WARP; i++)
    x = fmaxf(x, room[i]);
  return x;
}

/* Packs four codes into a word with the second and third swapped, as in 8-bit codes. */
template <class Type>
static __device__ __forceinline__ uint32_t four_codes(const bf16 *x, float inverse,
                                                      bool there)
{
  several<bf16, 4> v = {};
  if (there)
    v = *(const several<bf16, 4> *)x;
  return Type::code(to_float(v.v[0]) * inverse) |
         Type::code(to_float(v.v[2]) * inverse) << 8 |
         Type::code(to_float(v.v[1]) * inverse) << 16 |
         Type::code(to_float(v.v[3]) * inverse) << 24;
}

template <class Type> __global__ void quantise_rows(lls_cuda_quantise a)
{
  SHARED_ARRAY(float, room, THREADS / WARP);
  const bf16 *x = (const bf16 *)a.x + (size_t)blockIdx.x * a.columns;
  uint32_t *codes = (uint32_t *)(a.codes + (size_t)blockIdx.x * a.stride);
  float largest = 0;
  for (uint32_t k = threadIdx.x; k < a.columns; k += THREADS)
    largest = fmaxf(largest, Type::magnitude(to_float(x[k])));
  largest = block_max(largest, room);
  float inverse = largest > 0 ? Type::LARGEST / largest : 0;
  for (uint32_t i = threadIdx.x; i < a.stride / 4; i += THREADS) {
    uint32_t lane = i / 4 % 4, word = i % 4; /* position in a piece of 64 columns */
    uint32_t k = i / 16 * 64 + word / 2 * 32 + lane * 8 + word % 2 * 4;
    codes[i] = four_codes<Type>(x + k, inverse, k < a.columns);
  }
  if (threadIdx.x == 0)
    a.scales[blockIdx.x] = largest / Type::LARGEST;
}

template <class Type> static int run_quantise(cudaStream_t s, const lls_cuda_quantise *a)
{
  if (a->n_rows == 0)
    return 0;
  return launch(s, quantise_rows<Type>, dim3(a->n_rows), THREADS, 0, *a);
}

/* A thread scales four outputs of a row. SUM: int32_t or float. */
template <class SUM> __global__ void scale_sums(lls_cuda_scale_sums a)
{
  uint32_t each = a.outputs / 4;
  size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  uint32_t row = (uint32_t)(i / each), o = (uint32_t)(i % each) * 4;
  if (row >= a.n_rows)
    return;
  const several<SUM, 4> sums =
      *(const several<SUM, 4> *)((const SUM *)a.sums + (size_t)row * a.outputs + o);
  bf16 *y = (bf16 *)a.y + (size_t)row * a.stride + o;
  float x_scale = a.x_scales[row];
#pragma unroll
  for (int k = 0; k < 4; k++) {
    float sum = (float)sums.v[k] * x_scale * a.w_scales[o + k];
    sum += a.bias != nullptr ? a.bias[o + k] : 0;
    sum += a.add ? to_float(y[k]) : 0;
    y[k] = from_float<bf16>(a.relu ? fmaxf(sum, 0) : sum);
  }
}

extern "C" int lls_cuda_run_quantise_e4m3(cudaStream_t s,
                                          const struct lls_cuda_quantise *a)
{
  return run_quantise<e4m3>(s, a);
}

extern "C" int lls_cuda_run_quantise_int8(cudaStream_t s,
                                          const struct lls_cuda_quantise *a)
{
  return run_quantise<int8_code>(s, a);
}

extern "C" int lls_cuda_run_scale_sums(cudaStream_t s,
                                       const struct lls_cuda_scale_sums *a)
{
  size_t threads = (size_t)a->n_rows * (a->outputs / 4);
  if (threads == 0)
    return 0;
  dim3 grid((unsigned)((threads + THREADS - 1) / THREADS));
  return a->f32 ? launch(s, scale_sums<float>, grid, THREADS, 0, *a)
                : launch(s, scale_sums<int32_t>, grid, THREADS, 0, *a);
}
