/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of LLS_EXTRA_STREAMS: the hidden states of a token in AltUp (arXiv
 * 2301.13310), and gates that are cut by their mean. Bytes of bf16 numbers: predict reads
 * and writes each of the streams once, correct too, 4 n a column with n streams;
 * match_size and cut_gates read their rows twice, the second time from L2. Operations:
 * 2 n n a column at most. All sums are in f32.
 */
#include "kernels/cuda/extras.h"
#include "kernels/cuda/rows.cuh"

/* ---- streams ----------------------------------------------------------------------- */

/* Sets c (n_weights) to the products of a row's m with the rows of `mix`. */
static __device__ __forceinline__ void weigh(const lls_cuda_mix_streams &a,
                                             unsigned n_weights, shared<float> c)
{
  const float *scores = a.scores + (size_t)blockIdx.x * a.n;
  for (unsigned i = threadIdx.x; i < n_weights; i += blockDim.x) {
    float sum = 0;
    for (unsigned j = 0; j < a.n; j++)
      sum += a.mix[i * a.n + j] * tanhf(scores[j]);
    c[i] = sum;
  }
  __syncthreads();
}

/* Streams are read before they are written, some columns in each thread. */
template <class T, int N> __global__ void predict_streams(lls_cuda_mix_streams a)
{
  SHARED_ARRAY(float, c, LLS_MAX_STREAMS *LLS_MAX_STREAMS);
  typedef several<T, N> group;
  unsigned i = blockIdx.y * blockDim.x + threadIdx.x, n = a.columns / N;
  size_t at = (size_t)blockIdx.x * n + i;
  group g[LLS_MAX_STREAMS] = {};
  wait_for_earlier();
  weigh(a, a.n * a.n, c);
  let_next_begin();
  if (i >= n)
    return;
#pragma unroll
  for (unsigned k = 0; k < LLS_MAX_STREAMS; k++)
    if (k < a.n)
      g[k] = ((const group *)a.streams[k])[at];
#pragma unroll
  for (unsigned k = 0; k < LLS_MAX_STREAMS; k++) {
    float value[N];
    if (k >= a.n)
      break;
    for (int v = 0; v < N; v++)
      value[v] = to_float(g[k].v[v]);
#pragma unroll
    for (unsigned j = 0; j < LLS_MAX_STREAMS; j++)
      for (int v = 0; v < N && j < a.n; v++)
        value[v] += c[k * a.n + j] * to_float(g[j].v[v]);
    group sum = round_all<T>(value);
    ((group *)a.streams[k])[at] = sum;
    if (k == 0)
      ((group *)a.y)[at] = sum;
  }
}

template <class T, int N> __global__ void correct_streams(lls_cuda_mix_streams a)
{
  SHARED_ARRAY(float, c, LLS_MAX_STREAMS);
  typedef several<T, N> group;
  unsigned i = blockIdx.y * blockDim.x + threadIdx.x, n = a.columns / N;
  size_t at = (size_t)blockIdx.x * n + i;
  float change[N], value[N];
  wait_for_earlier();
  weigh(a, a.n, c);
  let_next_begin();
  if (i >= n)
    return;
  const group x = ((const group *)a.x)[at], first = ((const group *)a.streams[0])[at];
  for (int v = 0; v < N; v++)
    change[v] = to_float(x.v[v]) - to_float(first.v[v]);
#pragma unroll /* an index that is known needs no copy of the argument */
  for (unsigned k = 1; k < LLS_MAX_STREAMS; k++) {
    if (k >= a.n)
      break;
    group *other = (group *)a.streams[k] + at;
    const group from = *other;
    for (int v = 0; v < N; v++)
      value[v] = to_float(from.v[v]) + (1 + c[k]) * change[v];
    *other = round_all<T>(value);
  }
  for (int v = 0; v < N; v++)
    value[v] = to_float(first.v[v]) + (1 + c[0]) * change[v];
  ((group *)a.streams[0])[at] = round_all<T>(value);
  for (int v = 0; v < N && a.scale != nullptr; v++)
    value[v] *= a.scale[i * N + v];
  ((group *)a.y)[at] = round_all<T>(value);
}

template <class T, int N>
static int launch_mix(cudaStream_t s, const lls_cuda_mix_streams *a)
{
  return a->x == nullptr
             ? launch_rows<N>(s, predict_streams<T, N>, a->n_rows, a->columns, *a)
             : launch_rows<N>(s, correct_streams<T, N>, a->n_rows, a->columns, *a);
}

extern "C" int lls_cuda_run_mix_streams(cudaStream_t s, enum lls_dtype numbers,
                                        const struct lls_cuda_mix_streams *a)
{
  if (a->n_rows == 0)
    return 0;
  return FOR_NUMBERS(numbers, a->columns, launch_mix, s, a);
}

/* ---- sizes ------------------------------------------------------------------------- */

/* transformers' least mean square of a stream that is made as large as another one */
#define LEAST_SQUARE 1e-5f

/* The sums of a thread's share of a row: of its numbers, and of their squares. */
struct sums {
  float plain, squares;
};

template <class T>
static __device__ __forceinline__ sums sum_of(const T *x, unsigned columns)
{
  sums s = {0, 0};
  for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) {
    float v = to_float(x[i]);
    s.plain += v;
    s.squares += v * v;
  }
  return s;
}

/* A block for each row. */
template <class T> __global__ void __launch_bounds__(THREADS) match(lls_cuda_match_size a)
{
  SHARED_ARRAY(float, room, THREADS / WARP);
  SHARED_ARRAY(float, own_room, THREADS / WARP);
  size_t first = (size_t)blockIdx.x * a.columns;
  T *x = (T *)a.x + first;
  wait_for_earlier();
  let_next_begin();
  float like = block_sum_once(sum_of((const T *)a.like + first, a.columns).squares, room);
  float own = block_sum_once(sum_of<T>(x, a.columns).squares, own_room);
  float count = (float)a.columns;
  float factor = sqrtf(like / count / fmaxf(own / count, LEAST_SQUARE));
  for (unsigned i = threadIdx.x; i < a.columns; i += blockDim.x)
    x[i] = from_float<T>(to_float(x[i]) * factor);
}

extern "C" int lls_cuda_run_match_size(cudaStream_t s, enum lls_dtype numbers,
                                       const struct lls_cuda_match_size *a)
{
  dim3 grid(a->n_rows), block(threads_for(a->columns));
  if (a->n_rows == 0)
    return 0;
  return numbers == LLS_F32 ? launch_early(s, match<float>, grid, block, 0, *a)
                            : launch_early(s, match<bf16>, grid, block, 0, *a);
}

/* A block for each row. Ranks add up their sums between two runs: the numbers of bf16 are
 * too few for a mean of thousands of gates, so that sums are never in that. */
template <class T> __global__ void __launch_bounds__(THREADS) cut(lls_cuda_cut_gates a)
{
  SHARED_ARRAY(float, room, THREADS / WARP);
  SHARED_ARRAY(float, square_room, THREADS / WARP);
  T *x = (T *)a.x + (size_t)blockIdx.x * 2 * a.columns;
  sums s = {0, 0};
  wait_for_earlier();
  let_next_begin();
  if (a.use == LLS_CUDA_SQUARES_TAKE) {
    s = {a.sums[2 * blockIdx.x], a.sums[2 * blockIdx.x + 1]};
  } else {
    s = sum_of<T>(x, a.columns);
    s.plain = block_sum_once(s.plain, room);
    s.squares = block_sum_once(s.squares, square_room);
  }
  if (a.use == LLS_CUDA_SQUARES_GIVE) {
    if (threadIdx.x == 0) {
      a.sums[2 * blockIdx.x] = s.plain;
      a.sums[2 * blockIdx.x + 1] = s.squares;
    }
    return;
  }
  float mean = s.plain / (float)a.whole;
  float variance = fmaxf(s.squares / (float)a.whole - mean * mean, 0);
  float least = mean + a.factor * sqrtf(variance);
  for (unsigned i = threadIdx.x; i < a.columns; i += blockDim.x)
    x[i] = from_float<T>(fmaxf(to_float(x[i]) - least, 0));
}

extern "C" int lls_cuda_run_cut_gates(cudaStream_t s, enum lls_dtype numbers,
                                      const struct lls_cuda_cut_gates *a)
{
  dim3 grid(a->n_rows), block(threads_for(a->columns));
  if (a->n_rows == 0)
    return 0;
  return numbers == LLS_F32 ? launch_early(s, cut<float>, grid, block, 0, *a)
                            : launch_early(s, cut<bf16>, grid, block, 0, *a);
}
