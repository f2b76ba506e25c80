/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on rows: norms, activations, additions, lookups. Each reads and writes its
 * rows once, so they run at the speed of memory if they use 16 bytes at a time, which
 * they do where rows begin at multiples of that. In a decode of few sequences their
 * time is all latency, so all begin early (kernel.cuh).
 */
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/rows.cuh"

/* ---- norms ------------------------------------------------------------------------- */

#define NORM_THREADS 512
/* groups that a thread keeps in registers: enough for rows of 8192 bf16 */
#define KEPT 2

template <class T, int N> struct norm_row { /* a block's row, or part of a row */
  const several<T, N> *x;
  unsigned n;               /* number of groups */
  several<T, N> kept[KEPT]; /* the first groups of this thread */
};

/* Calls f(group, its number) for the thread's share of a row. */
template <class T, int N, class F>
static __device__ __forceinline__ void each_group(const norm_row<T, N> &r, F f)
{
#pragma unroll
  for (unsigned k = 0; k < KEPT; k++)
    if (threadIdx.x + k * blockDim.x < r.n)
      f(r.kept[k], threadIdx.x + k * blockDim.x);
  for (unsigned i = threadIdx.x + KEPT * blockDim.x; i < r.n; i += blockDim.x) {
    several<T, N> g = r.x[i];
    f(g, i);
  }
}

template <int N> struct affine { /* y = x weight + bias */
  float weight[N], bias[N];
};

template <int N>
static __device__ __forceinline__ affine<N> load_affine(const lls_cuda_norm &a,
                                                        unsigned group)
{
  affine<N> f;
  load_floats(f.weight, a.weight + group * N);
  if (a.kind == LLS_NORM_LAYER) {
    load_floats(f.bias, a.bias + group * N);
    return f;
  }
#pragma unroll
  for (int k = 0; k < N; k++)
    f.bias[k] = 0;
  return f;
}

template <class T, int N>
static __device__ __forceinline__ several<T, N> normed(const several<T, N> &g, float mean,
                                                       float factor, const affine<N> &f)
{
  float value[N];
#pragma unroll
  for (int k = 0; k < N; k++)
    value[k] = (to_float(g.v[k]) - mean) * factor * f.weight[k] + f.bias[k];
  return round_all<T>(value);
}

/* Returns the sum over a block of the row's values, or of their squares around a
 * mean. */
template <class T, int N>
static __device__ __forceinline__ float row_sum(const norm_row<T, N> &r, bool squares,
                                                float mean, shared<float> room)
{
  float sum = 0;
  each_group(r, [&](const several<T, N> &g, unsigned) {
    for (int k = 0; k < N; k++) {
      float d = to_float(g.v[k]) - mean;
      sum += squares ? d * d : d;
    }
  });
  return block_sum_once(sum, room);
}

/*
 * RMSNorm (Zhang and Sennrich, 2019, eq. 4) and LayerNorm (Ba et al., 2016); a block for
 * each part of a row. The variance is taken around the mean, as squares of large numbers
 * would cancel.
 *
 * One row of a decode is all latency: its weights are loaded before the wait for
 * earlier kernels, all loads after the wait are issued at once, and RMSNorm has one
 * barrier. Bytes: 4 a bf16 value.
 */
template <class T, int N>
__global__ void __launch_bounds__(NORM_THREADS) norm_rows(lls_cuda_norm a)
{
  SHARED_ARRAY(float, mean_room, NORM_THREADS / WARP);
  SHARED_ARRAY(float, room, NORM_THREADS / WARP);
  size_t first = (size_t)blockIdx.x * (a.stride / N) + blockIdx.y * (a.columns / N);
  norm_row<T, N> r = {(const several<T, N> *)a.x + first, a.columns / N, {}};
  several<T, N> *y = (several<T, N> *)a.y + first;
  affine<N> f[KEPT];
#pragma unroll
  for (unsigned k = 0; k < KEPT; k++)
    if (threadIdx.x + k * blockDim.x < r.n)
      f[k] = load_affine<N>(a, threadIdx.x + k * blockDim.x);
  wait_for_earlier();
  let_next_begin();
#pragma unroll
  for (unsigned k = 0; k < KEPT; k++)
    if (threadIdx.x + k * blockDim.x < r.n)
      r.kept[k] = r.x[threadIdx.x + k * blockDim.x];
  float mean = 0, count = (float)a.columns;
  if (a.kind == LLS_NORM_LAYER)
    mean = row_sum(r, false, 0, mean_room) / count;
  float squares = row_sum(r, true, mean, room);
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
#pragma unroll
  for (unsigned k = 0; k < KEPT; k++)
    if (threadIdx.x + k * blockDim.x < r.n)
      y[threadIdx.x + k * blockDim.x] = normed(r.kept[k], mean, factor, f[k]);
  for (unsigned i = threadIdx.x + KEPT * blockDim.x; i < r.n; i += blockDim.x) {
    several<T, N> g = r.x[i];
    y[i] = normed(g, mean, factor, load_affine<N>(a, i));
  }
}

template <class T, int N> static int launch_norm(cudaStream_t s, const lls_cuda_norm *a)
{
  return launch_early(s, norm_rows<T, N>, dim3(a->n_rows, a->parts),
                      threads_for(a->columns / N, NORM_THREADS), 0, *a);
}

extern "C" int lls_cuda_run_norm(cudaStream_t s, enum lls_dtype numbers,
                                 const struct lls_cuda_norm *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_NUMBERS(numbers, a->columns | a->stride, launch_norm, s, a);
}

/* ---- activations ------------------------------------------------------------------- */

/* x / (1 + e^-z). Results that are rounded to bf16 (2^-9) use approximations (2^-20)
 * without branches for subnormal and huge values. */
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
  case LLS_ACT_SQUARED_RELU:
    return x > 0 ? x * x : 0;
  case LLS_ACT_CLAMPED_SWIGLU:
    x = fminf(x, 7);
    return gate<T>(x, 1.702f * x);
  }
  return x;
}

template <class T, int N>
static __device__ __forceinline__ several<T, N>
activated(const lls_cuda_activate &a, const several<T, N> &g, const several<T, N> &up)
{
  float value[N];
  for (int k = 0; k < N; k++) {
    float u = to_float(up.v[k]);
    value[k] = activation<T>(a.kind, to_float(g.v[k]));
    if (a.kind == LLS_ACT_CLAMPED_SWIGLU)
      u = fmaxf(fminf(u, 7), -7) + 1;
    value[k] *= a.gated ? u : 1;
  }
  return round_all<T>(value);
}

/* PER groups for each thread, all loaded before the first is used. */
template <class T, int N, int PER> __global__ void activate_rows(lls_cuda_activate a)
{
  typedef several<T, N> group;
  unsigned first = blockIdx.y * PER * blockDim.x + threadIdx.x, n = a.columns / N;
  bool halves = a.gated && a.up == nullptr;
  const group *x = (const group *)a.x + (size_t)blockIdx.x * (halves ? 2 * n : n);
  const group *other = halves ? x + n : (const group *)a.up + (size_t)blockIdx.x * n;
  group *y = (group *)a.y + (size_t)blockIdx.x * n, g[PER], up[PER];
  wait_for_earlier();
  let_next_begin();
#pragma unroll
  for (unsigned k = 0, i = first; k < PER; k++, i += blockDim.x) {
    if (i < n)
      g[k] = x[i];
    up[k] = g[k];
    if (i < n && a.gated)
      up[k] = other[i];
  }
#pragma unroll
  for (unsigned k = 0, i = first; k < PER; k++, i += blockDim.x)
    if (i < n)
      y[i] = activated(a, g[k], up[k]);
}

/* Blocks of THREADS that run at once on a GPU of some 130 multiprocessors. Any more
 * blocks would begin only when others have ended. */
#define AT_ONCE 1024

template <class T, int N, int PER>
static int launch_activate_by(cudaStream_t s, const lls_cuda_activate *a)
{
  uint32_t n = (a->columns / N + PER - 1) / PER, pieces = (n + THREADS - 1) / THREADS;
  unsigned threads = threads_for((n + pieces - 1) / pieces);
  return launch_early(s, activate_rows<T, N, PER>, row_pieces(a->n_rows, n, threads),
                      threads, 0, *a);
}

template <class T, int N>
static int launch_activate(cudaStream_t s, const lls_cuda_activate *a)
{
  size_t blocks = (a->columns / N + THREADS - 1) / THREADS * (size_t)a->n_rows;
  return blocks <= AT_ONCE ? launch_activate_by<T, N, 1>(s, a)
                           : launch_activate_by<T, N, 2>(s, a);
}

extern "C" int lls_cuda_run_activate(cudaStream_t s, enum lls_dtype numbers,
                                     const struct lls_cuda_activate *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_NUMBERS(numbers, a->columns, launch_activate, s, a);
}

/* ---- additions and lookups --------------------------------------------------------- */

/* to = from scale, or to += from scale. */
template <class T, int N>
static __device__ __forceinline__ void copy_row(const void *from, uint32_t columns,
                                                bool add, void *to, float scale = 1)
{
  typedef several<T, N> group;
  unsigned i = blockIdx.y * blockDim.x + threadIdx.x;
  if (i >= columns / N)
    return;
  group g = ((const group *)from)[i], old = {};
  if (add)
    old = ((const group *)to)[i];
  if (add || scale != 1) {
    for (int k = 0; k < N; k++)
      g.v[k] = from_float<T>(to_float(old.v[k]) + to_float(g.v[k]) * scale);
  }
  ((group *)to)[i] = g;
}

template <class T, int N> __global__ void add_rows(lls_cuda_add a)
{
  size_t first = (size_t)blockIdx.x * a.columns;
  wait_for_earlier();
  let_next_begin();
  copy_row<T, N>((const T *)a.x + first, a.columns, true, (T *)a.y + first);
}

template <class T, int N> static int launch_add(cudaStream_t s, const lls_cuda_add *a)
{
  return launch_rows<N>(s, add_rows<T, N>, a->n_rows, a->columns, *a);
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
  if (a.entries != 0 && (uint32_t)entry >= a.entries)
    entry = 0;
  wait_for_earlier();
  let_next_begin();
  copy_row<T, N>((const T *)a.table + (size_t)entry * a.columns, a.columns, a.add != 0,
                 (T *)a.x + (size_t)blockIdx.x * a.columns, a.scale);
}

template <class T, int N>
static int launch_embed(cudaStream_t s, const lls_cuda_step *step,
                        const lls_cuda_embed *a)
{
  return launch_rows<N>(s, embed_rows<T, N>, a->n_rows, a->columns, step, *a);
}

extern "C" int lls_cuda_run_embed(cudaStream_t s, enum lls_dtype numbers,
                                  const struct lls_cuda_step *step,
                                  const struct lls_cuda_embed *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_NUMBERS(numbers, a->columns, launch_embed, s, step, a);
}

/* Returns the weight of row `to` of y, which is a copy of a row of x. */
static __device__ __forceinline__ float weight_of(const lls_cuda_gather &a, uint32_t row,
                                                  uint32_t to)
{
  size_t i = (size_t)row * a.active;
  for (uint32_t k = 1; k < a.active && a.place[i] != to; k++)
    i++;
  return a.weight[i];
}

template <class T, int N> __global__ void gather_rows(lls_cuda_gather a)
{
  wait_for_earlier(); /* a kernel wrote the rows of a mixture */
  let_next_begin();
  uint32_t row = a.rows[blockIdx.x];
  float weight = a.weight != nullptr ? weight_of(a, row, blockIdx.x) : 1;
  copy_row<T, N>((const T *)a.x + (size_t)row * a.columns, a.columns, false,
                 (T *)a.y + (size_t)blockIdx.x * a.columns, weight);
}

template <class T, int N>
static int launch_gather(cudaStream_t s, const lls_cuda_gather *a)
{
  return launch_rows<N>(s, gather_rows<T, N>, a->n_rows, a->columns, *a);
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
  wait_for_earlier();
  let_next_begin();
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < a.n;
       i += (size_t)gridDim.x * blockDim.x)
    a.x[i] = a.cap * tanhf(a.x[i] / a.cap);
}

extern "C" int lls_cuda_run_cap(cudaStream_t s, const struct lls_cuda_cap *a)
{
  if (a->n == 0)
    return 0;
  size_t blocks = (a->n + THREADS - 1) / THREADS;
  return launch_early(s, cap_numbers, dim3(blocks < 4096 ? (unsigned)blocks : 4096),
                      THREADS, 0, *a);
}
