/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on rows: norms, activations, additions, lookups. Each reads and writes its
 * rows once (norms read them again from the cache), so they run at the speed of memory if
 * they use 16 bytes at a time, which they do where rows begin at multiples of that.
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/number.cuh"

#define THREADS 256

/* The threads that n pieces of work of a row are worth. */
static unsigned threads_for(uint32_t n)
{
  uint32_t threads = (n + WARP - 1) / WARP * WARP;
  return threads < THREADS ? threads : THREADS;
}

/* Calls a function template for the activations' type, wide where rows allow it. */
#define FOR_NUMBERS(numbers, columns, function, ...)                                     \
  ((numbers) == LLS_F32          ? (columns) % WIDE<float> == 0                          \
                                       ? function<float, WIDE<float>>(__VA_ARGS__)       \
                                       : function<float, 1>(__VA_ARGS__)                 \
            : (columns) % WIDE<bf16> == 0 ? function<bf16, WIDE<bf16>>(__VA_ARGS__)      \
                                 : function<bf16, 1>(__VA_ARGS__))

/* ---- norms ------------------------------------------------------------------------- */

/* RMSNorm (Zhang and Sennrich, 2019, eq. 4) and LayerNorm (Ba et al., 2016); a block for
 * each part of a row. The variance is taken around the mean, as squares of large numbers
 * would cancel. */
template <class T, int N> __global__ void norm_rows(lls_cuda_norm a)
{
  SHARED_ARRAY(float, room, THREADS / WARP);
  typedef several<T, N> group;
  size_t first = (size_t)blockIdx.x * (a.stride / N) + blockIdx.y * (a.columns / N);
  const group *x = (const group *)a.x + first;
  group *y = (group *)a.y + first;
  float mean = 0, squares = 0;
  if (a.kind == LLS_NORM_LAYER) {
    for (unsigned i = threadIdx.x; i < a.columns / N; i += blockDim.x) {
      group g = x[i];
      for (int k = 0; k < N; k++)
        mean += to_float(g.v[k]);
    }
    mean = block_sum(mean, room) / (float)a.columns;
  }
  for (unsigned i = threadIdx.x; i < a.columns / N; i += blockDim.x) {
    group g = x[i];
    for (int k = 0; k < N; k++) {
      float d = to_float(g.v[k]) - mean;
      squares += d * d;
    }
  }
  squares = block_sum(squares, room);
  float count = (float)a.columns;
  if (a.use == LLS_CUDA_SQUARES_GIVE) {
    if (threadIdx.x == 0)
      a.squares[2 * blockIdx.x] = squares;
    return;
  }
  if (a.use == LLS_CUDA_SQUARES_TAKE) {
    squares = a.squares[2 * blockIdx.x];
    count *= (float)a.ranks;
  }
  float factor = rsqrtf(squares / count + a.epsilon);
  for (unsigned i = threadIdx.x; i < a.columns / N; i += blockDim.x) {
    group g = x[i];
    for (int k = 0; k < N; k++) {
      float value = (to_float(g.v[k]) - mean) * factor * a.weight[i * N + k];
      if (a.kind == LLS_NORM_LAYER)
        value += a.bias[i * N + k];
      g.v[k] = from_float<T>(value);
    }
    y[i] = g;
  }
}

template <class T, int N> static int launch_norm(cudaStream_t s, const lls_cuda_norm *a)
{
  return launch(s, norm_rows<T, N>, dim3(a->n_rows, a->parts),
                threads_for(a->columns / N), 0, *a);
}

extern "C" int lls_cuda_run_norm(cudaStream_t s, enum lls_dtype numbers,
                                 const struct lls_cuda_norm *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_NUMBERS(numbers, a->columns | a->stride, launch_norm, s, a);
}

/* ---- activations ------------------------------------------------------------------- */

/* x / (1 + e^-z). What is rounded to bf16 (2^-9) is computed by approximations (2^-20),
 * which have no branches for subnormal and huge numbers. */
template <class T> static __device__ __forceinline__ float gate(float x, float z)
{
  if constexpr (sizeof(T) == sizeof(bf16))
    return __fdividef(x, 1 + __expf(-z));
  return x / (1 + expf(-z));
}

/* 1 + tanh(u) is 2 / (1 + e^-2u). */
template <class T>
static __device__ __forceinline__ float activation(enum lls_activation kind, float x)
{
  switch (kind) {
  case LLS_ACT_RELU:
    return x > 0 ? x : 0;
  case LLS_ACT_GELU:
    return x * 0.5f * erfcf(-x * 0.70710678f);
  case LLS_ACT_GELU_TANH:
    return gate<T>(x, 2 * 0.79788456f * (x + 0.044715f * x * x * x));
  case LLS_ACT_TANH:
    return tanhf(x);
  case LLS_ACT_SILU:
    return gate<T>(x, x);
  case LLS_ACT_CLAMPED_SWIGLU:
    x = fminf(x, 7);
    return gate<T>(x, 1.702f * x);
  }
  return x;
}

template <class T, int N> __global__ void activate_rows(lls_cuda_activate a)
{
  typedef several<T, N> group;
  unsigned i = blockIdx.y * blockDim.x + threadIdx.x, n = a.columns / N;
  if (i >= n)
    return;
  const group *x = (const group *)a.x + (size_t)blockIdx.x * (a.gated ? 2 * n : n);
  group g = x[i], up = g;
  if (a.gated)
    up = x[n + i];
  float value[N];
  for (int k = 0; k < N; k++) {
    float u = to_float(up.v[k]);
    value[k] = activation<T>(a.kind, to_float(g.v[k]));
    if (a.kind == LLS_ACT_CLAMPED_SWIGLU)
      u = fmaxf(fminf(u, 7), -7) + 1;
    value[k] *= a.gated ? u : 1;
  }
  ((group *)a.y)[(size_t)blockIdx.x * n + i] = round_all<T>(value);
}

/* A grid over rows and, along y, pieces of a row. */
static dim3 row_pieces(uint32_t n_rows, uint32_t n, unsigned threads)
{
  return dim3(n_rows, (n + threads - 1) / threads);
}

template <class T, int N>
static int launch_activate(cudaStream_t s, const lls_cuda_activate *a)
{
  uint32_t n = a->columns / N;
  unsigned threads = threads_for(n);
  return launch(s, activate_rows<T, N>, row_pieces(a->n_rows, n, threads), threads, 0,
                *a);
}

extern "C" int lls_cuda_run_activate(cudaStream_t s, enum lls_dtype numbers,
                                     const struct lls_cuda_activate *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_NUMBERS(numbers, a->columns, launch_activate, s, a);
}

/* ---- additions and lookups --------------------------------------------------------- */

/* y = from scale, or y += that. */
template <class T, int N>
static __device__ __forceinline__ void copy_row(const void *from, uint32_t columns,
                                                bool add, void *to, float scale = 1)
{
  typedef several<T, N> group;
  unsigned i = blockIdx.y * blockDim.x + threadIdx.x;
  if (i >= columns / N)
    return;
  group g = ((const group *)from)[i];
  if (scale != 1) {
    for (int k = 0; k < N; k++)
      g.v[k] = from_float<T>(to_float(g.v[k]) * scale);
  }
  if (add) {
    group old = ((const group *)to)[i];
    for (int k = 0; k < N; k++)
      g.v[k] = from_float<T>(to_float(old.v[k]) + to_float(g.v[k]));
  }
  ((group *)to)[i] = g;
}

template <class T, int N> __global__ void add_rows(lls_cuda_add a)
{
  size_t first = (size_t)blockIdx.x * a.columns;
  copy_row<T, N>((const T *)a.x + first, a.columns, true, (T *)a.y + first);
}

template <class T, int N> static int launch_add(cudaStream_t s, const lls_cuda_add *a)
{
  uint32_t n = a->columns / N;
  unsigned threads = threads_for(n);
  return launch(s, add_rows<T, N>, row_pieces(a->n_rows, n, threads), threads, 0, *a);
}

extern "C" int lls_cuda_run_add(cudaStream_t s, enum lls_dtype numbers,
                                const struct lls_cuda_add *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_NUMBERS(numbers, a->columns, launch_add, s, a);
}

template <class T, int N>
__global__ void embed_rows(const lls_cuda_step *step, lls_cuda_embed a)
{
  int32_t entry =
      a.by_position ? step->positions[blockIdx.x] + a.offset : step->tokens[blockIdx.x];
  copy_row<T, N>((const T *)a.table + (size_t)entry * a.columns, a.columns,
                 a.by_position != 0, (T *)a.x + (size_t)blockIdx.x * a.columns, a.scale);
}

template <class T, int N>
static int launch_embed(cudaStream_t s, const lls_cuda_step *step,
                        const lls_cuda_embed *a)
{
  uint32_t n = a->columns / N;
  unsigned threads = threads_for(n);
  return launch(s, embed_rows<T, N>, row_pieces(a->n_rows, n, threads), threads, 0, step,
                *a);
}

extern "C" int lls_cuda_run_embed(cudaStream_t s, enum lls_dtype numbers,
                                  const struct lls_cuda_step *step,
                                  const struct lls_cuda_embed *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_NUMBERS(numbers, a->columns, launch_embed, s, step, a);
}

template <class T, int N> __global__ void gather_rows(lls_cuda_gather a)
{
  copy_row<T, N>((const T *)a.x + (size_t)a.rows[blockIdx.x] * a.columns, a.columns,
                 false, (T *)a.y + (size_t)blockIdx.x * a.columns);
}

template <class T, int N>
static int launch_gather(cudaStream_t s, const lls_cuda_gather *a)
{
  uint32_t n = a->columns / N;
  unsigned threads = threads_for(n);
  return launch(s, gather_rows<T, N>, row_pieces(a->n_rows, n, threads), threads, 0, *a);
}

extern "C" int lls_cuda_run_gather(cudaStream_t s, enum lls_dtype numbers,
                                   const struct lls_cuda_gather *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_NUMBERS(numbers, a->columns, launch_gather, s, a);
}

/* ---- logits ------------------------------------------------------------------------ */

__global__ void cap_numbers(lls_cuda_cap a)
{
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < a.n;
       i += (size_t)gridDim.x * blockDim.x)
    a.x[i] = a.cap * tanhf(a.x[i] / a.cap);
}

extern "C" int lls_cuda_run_cap(cudaStream_t s, const struct lls_cuda_cap *a)
{
  if (a->n == 0)
    return 0;
  size_t blocks = (a->n + THREADS - 1) / THREADS;
  return launch(s, cap_numbers, dim3(blocks < 4096 ? (unsigned)blocks : 4096), THREADS, 0,
                *a);
}
