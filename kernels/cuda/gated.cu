/* SPDX-License-Identifier: Apache-2.0 */
/* Gates: the norm behind a state, and columns times the logistic function of others. Each
 * reads and writes its rows once, and all begin early (kernel.cuh). */
#include "kernels/cuda/number.cuh"
#include "kernels/cuda/recurrent.h"

#define THREADS 256

static __device__ __forceinline__ float logistic(float z)
{
  return 1 / (1 + expf(-z));
}

/* y = rms_norm(y) weight silu(gate), or rms_norm(y silu(gate)) weight: a block for each
 * group of a row, whose thread writes just the numbers that it reads. Bytes: 6 a number
 * of bf16, read twice where a group has more than one for each thread; operations: 30. */
template <class T>
__global__ void __launch_bounds__(THREADS) norm_gated(lls_cuda_norm_gated a)
{
  SHARED_ARRAY(float, room, THREADS / WARP);
  size_t row = blockIdx.x, group = blockIdx.y;
  const T *gate = (const T *)a.gate + row * a.gate_columns + group * a.columns;
  T *y = (T *)a.y + (row * a.groups + group) * a.columns;
  float squares = 0, factor = 1;
  wait_for_earlier();
  let_next_begin();
  if (a.weight != nullptr) {
    for (unsigned i = threadIdx.x; i < a.columns; i += blockDim.x) {
      float x = to_float(y[i]), z = to_float(gate[i]);
      x *= a.gate_first ? z * logistic(z) : 1;
      squares += x * x;
    }
    squares = block_sum_once(squares, room);
    factor = rsqrtf(squares / (float)a.columns + a.epsilon);
  }
  for (unsigned i = threadIdx.x; i < a.columns; i += blockDim.x) {
    float z = to_float(gate[i]);
    float x = to_float(y[i]) * z * logistic(z) * factor;
    if (a.weight != nullptr)
      x *= a.weight[group * a.weight_stride + i];
    y[i] = from_float<T>(x);
  }
}

extern "C" int lls_cuda_run_norm_gated(cudaStream_t s, enum lls_dtype numbers,
                                       const struct lls_cuda_norm_gated *a)
{
  uint32_t threads = (a->columns + WARP - 1) / WARP * WARP;
  dim3 grid(a->n_rows, a->groups), block(threads < THREADS ? threads : THREADS);
  if (a->n_rows == 0 || a->columns == 0 || a->groups == 0)
    return 0;
  return numbers == LLS_F32 ? launch_early(s, norm_gated<float>, grid, block, 0, *a)
                            : launch_early(s, norm_gated<bf16>, grid, block, 0, *a);
}

/* Bytes: 6 a number of bf16; operations: 10. */
template <class T> __global__ void gate_columns(lls_cuda_gate_columns a)
{
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  wait_for_earlier();
  let_next_begin();
  if (i >= a.n)
    return;
  T *x = (T *)a.x + i;
  *x = from_float<T>(to_float(*x) * logistic(to_float(((const T *)a.gates)[i])));
}

extern "C" int lls_cuda_run_gate_columns(cudaStream_t s, enum lls_dtype numbers,
                                         const struct lls_cuda_gate_columns *a)
{
  dim3 grid((unsigned)((a->n + THREADS - 1) / THREADS)), block(THREADS);
  if (a->n == 0)
    return 0;
  return numbers == LLS_F32 ? launch_early(s, gate_columns<float>, grid, block, 0, *a)
                            : launch_early(s, gate_columns<bf16>, grid, block, 0, *a);
}
