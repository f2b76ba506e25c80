/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of rows in place that few models need: xIELU, queries that grow with their
 * position, gates of one number for each row, scales. Bytes: 4 for each bf16 number,
 * which the kernel before has just left in L2. Operations: one product for each number,
 * of xIELU some 15.
 */
#include "kernels/cuda/extras.h"
#include "kernels/cuda/rows.cuh"

static __device__ __forceinline__ float xielu(const lls_xielu &a, float x)
{
  if (x > 0)
    return a.positive * x * x + a.linear * x;
  return a.negative * (expm1f(fminf(x, a.least)) - x) + a.linear * x;
}

/* Returns what multiplies a row's numbers. */
static __device__ __forceinline__ float factor_of(const lls_cuda_step *step,
                                                  const lls_cuda_change &a, uint32_t row)
{
  if (a.kind == LLS_CUDA_GATE)
    return 1 / (1 + expf(-a.scores[row]));
  if (a.kind != LLS_CUDA_GROW)
    return a.factor;
  uint32_t steps = ((uint32_t)step->positions[row] + a.growth.offset) / a.growth.every;
  return 1 + a.growth.factor * log1pf((float)steps);
}

template <class T, int N>
__global__ void change_rows(const lls_cuda_step *step, lls_cuda_change a)
{
  typedef several<T, N> group;
  uint32_t i = blockIdx.y * blockDim.x + threadIdx.x;
  wait_for_earlier();
  let_next_begin();
  if (i >= a.columns / N)
    return;
  group *at = (group *)((T *)a.x + (size_t)blockIdx.x * a.stride) + i;
  const group from = *at;
  float value[N], factor = factor_of(step, a, blockIdx.x);
#pragma unroll
  for (int k = 0; k < N; k++) {
    float x = to_float(from.v[k]);
    value[k] = a.kind == LLS_CUDA_XIELU ? xielu(a.xielu, x) : x * factor;
  }
  *at = round_all<T>(value);
}

template <class T, int N>
static int launch_change(cudaStream_t s, const lls_cuda_step *step,
                         const lls_cuda_change *a)
{
  return launch_rows<N>(s, change_rows<T, N>, a->n_rows, a->columns, step, *a);
}

extern "C" int lls_cuda_run_change(cudaStream_t s, enum lls_dtype numbers,
                                   const struct lls_cuda_step *step,
                                   const struct lls_cuda_change *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_NUMBERS(numbers, a->columns | a->stride, launch_change, s, step, a);
}
