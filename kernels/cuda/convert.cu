/* SPDX-License-Identifier: Apache-2.0 */
/* Converts weights from the file's types to the device's, and makes random weights. */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/number.cuh"

#define THREADS 256

static __device__ __forceinline__ float read_number(enum lls_dtype type, const void *x,
                                                    size_t i)
{
  switch (type) {
  case LLS_F32:
    return ((const float *)x)[i];
  case LLS_F16:
    return half_to_float(((const uint16_t *)x)[i]);
  case LLS_BF16:
    return to_float(((const bf16 *)x)[i]);
  case LLS_I8:
    break;
  }
  return ((const int8_t *)x)[i];
}

static __device__ __forceinline__ void write_number(enum lls_dtype type, void *y,
                                                    size_t i, float value)
{
  if (type == LLS_F32)
    ((float *)y)[i] = value;
  else
    ((bf16 *)y)[i] = from_float<bf16>(value);
}

__global__ void convert_numbers(enum lls_dtype from, const void *x, enum lls_dtype to,
                                void *y, size_t n)
{
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    write_number(to, y, i, read_number(from, x, i));
}

/* Uniform random values in +-0.02 sqrt(3), by splitmix64 of (seed, place in the whole
 * matrix): the same values as in kernels/cpu. */
__global__ void fill_numbers(uint64_t seed, size_t columns, size_t stride,
                             enum lls_dtype to, void *y, size_t n)
{
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  uint64_t place = i / columns * stride + i % columns;
  uint64_t z = seed + UINT64_C(0x9E3779B97F4A7C15) * (place + 1);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  z ^= z >> 31;
  write_number(to, y, i, ((float)(z >> 40) * 1.1920929e-7f - 1.0f) * 0.0346410162f);
}

extern "C" int lls_cuda_run_convert(cudaStream_t s, enum lls_dtype from, const void *x,
                                    enum lls_dtype to, void *y, size_t n)
{
  if (n == 0)
    return 0;
  return launch(s, convert_numbers, (unsigned)((n + THREADS - 1) / THREADS), THREADS, 0,
                from, x, to, y, n);
}

extern "C" int lls_cuda_run_fill(cudaStream_t s, uint64_t seed, size_t columns,
                                 size_t stride, enum lls_dtype to, void *y, size_t n)
{
  if (n == 0)
    return 0;
  return launch(s, fill_numbers, (unsigned)((n + THREADS - 1) / THREADS), THREADS, 0,
                seed, columns, stride, to, y, n);
}
