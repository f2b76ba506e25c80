/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations to e4m3, for cuBLASLt's products with weights of that type: each row has a
 * scale, its largest magnitude / 448. Numbers go where a piece of codes (codes.h) has the
 * same column: both sides of a product in one order, whichever it is, are the product.
 *
 * A block has a row, and reads it twice; that is 2 bytes read and one written for each
 * number beside the product's 2 outputs / (peak of FP8).
 */
#include "kernels/cuda/fp8.h"
#include "kernels/cuda/number.cuh"

#define THREADS 256
#define LARGEST 448.0f

/* To nearest, ties to even; no number where x is none. |x| <= 448, but for rounding. */
static __device__ __forceinline__ uint32_t to_e4m3(float x)
{
  uint32_t bits = __float_as_uint(x), size = bits & 0x7fffffff, sign = bits >> 24 & 0x80;
  float magnitude = __uint_as_float(size);
  if (!(magnitude < 480))
    return 0x7f;
  if (magnitude < 0x1p-6f) /* steps of 2^-9; eight are the least normal number */
    return sign | (uint32_t)rintf(magnitude * 512);
  return sign | (((size + 0x7ffff + (size >> 20 & 1)) >> 20) - (120 << 3));
}

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

/* A word of four codes: the second and third change places, as codes of 8 bits do. */
static __device__ __forceinline__ uint32_t four_codes(const bf16 *x, float inverse,
                                                      bool there)
{
  several<bf16, 4> v = {};
  if (there)
    v = *(const several<bf16, 4> *)x;
  return to_e4m3(to_float(v.v[0]) * inverse) | to_e4m3(to_float(v.v[2]) * inverse) << 8 |
         to_e4m3(to_float(v.v[1]) * inverse) << 16 |
         to_e4m3(to_float(v.v[3]) * inverse) << 24;
}

__global__ void quantise_rows(lls_cuda_quantise a)
{
  SHARED_ARRAY(float, room, THREADS / WARP);
  const bf16 *x = (const bf16 *)a.x + (size_t)blockIdx.x * a.columns;
  uint32_t *codes = (uint32_t *)(a.codes + (size_t)blockIdx.x * a.stride);
  float largest = 0;
  for (uint32_t k = threadIdx.x; k < a.columns; k += THREADS)
    largest = fmaxf(largest, fabsf(to_float(x[k])));
  largest = block_max(largest, room);
  float inverse = largest > 0 ? LARGEST / largest : 0;
  for (uint32_t i = threadIdx.x; i < a.stride / 4; i += THREADS) {
    uint32_t lane = i / 4 % 4, word = i % 4; /* of a piece of 64 columns */
    uint32_t k = i / 16 * 64 + word / 2 * 32 + lane * 8 + word % 2 * 4;
    codes[i] = four_codes(x + k, inverse, k < a.columns);
  }
  if (threadIdx.x == 0)
    a.scales[blockIdx.x] = largest / LARGEST;
}

extern "C" int lls_cuda_run_quantise(cudaStream_t s, const struct lls_cuda_quantise *a)
{
  if (a->n_rows == 0)
    return 0;
  return launch(s, quantise_rows, dim3(a->n_rows), THREADS, 0, *a);
}
