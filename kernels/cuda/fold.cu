/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gated delta net and the state space of Mamba-2: each head keeps a matrix, of which
 * every column is folded by itself. kernels/cpu/recurrent.h has the formulas, and
 * recurrent.cu what a chain is, and why prompts go token after token too.
 *
 * Four lanes share a column, a block has 32 columns of a head. A lane keeps a quarter of
 * the column in registers: four rows of each 16, so that the four read 64 consecutive
 * bytes of k and q in shared memory. Into it the block brings a tile of rows, widened to
 * f32, with lengths and gates made once; the state does not move.
 */
#include "kernels/cuda/number.cuh"
#include "kernels/cuda/recurrent.h"

#define LANES   4 /* that share a column */
#define COLUMNS 32
#define THREADS (LANES * COLUMNS)
#define TILE    16 /* rows in shared memory */

typedef several<float, 4> four;

/* The numbers of a row and head that its k, q and v are folded with. */
struct fold_gates {
  float decay;
  float strength; /* delta net: beta; state space: the time step */
  float product;  /* delta net: q k */
  float none;
};

/* The block's work. R: rows of a column that a lane has. */
template <int R> struct fold_tile {
  shared<four> k, q;        /* (TILE, R) */
  shared<float> v;          /* (TILE, COLUMNS) */
  shared<fold_gates> gates; /* (TILE) */
  unsigned head, key_head, first_column;
};

static __device__ __forceinline__ float softplus(float x)
{
  return fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
}

/* ---- the state --------------------------------------------------------------------- */

/* Calls f(register, its offset in the state) for the lane's part of a column. */
template <int R, class F>
static __device__ __forceinline__ void each_row(const lls_cuda_fold &a, unsigned head,
                                                unsigned column, unsigned slice, F f)
{
#pragma unroll
  for (int i = 0; i < R; i++) {
    unsigned row = i / 4 * 4 * LANES + slice * 4 + i % 4;
    if (row < a.rows && column < a.columns)
      f(i, ((size_t)head * a.rows + row) * a.columns + column);
  }
}

static __device__ __forceinline__ float *state_at(const lls_cuda_fold &a, uint32_t block)
{
  return (float *)(a.states.at + block * a.states.block_bytes);
}

/* ---- a tile of rows ---------------------------------------------------------------- */

/* One of a warp's rows: k and q of the head's key head, then zeros. */
template <class T, bool DELTA, int R>
static __device__ __forceinline__ float
stage_keys(const lls_cuda_fold &a, const fold_tile<R> &tile, size_t row, unsigned t)
{
  constexpr int EACH = LANES * R / WARP;
  size_t at = row * a.stride + (size_t)tile.key_head * a.rows;
  unsigned lane = threadIdx.x % WARP;
  float k[EACH], q[EACH], k_squares = 0, q_squares = 0, product = 0;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    unsigned n = lane + i * WARP;
    k[i] = n < a.rows ? to_float(((const T *)a.k)[at + n]) : 0;
    q[i] = n < a.rows ? to_float(((const T *)a.q)[at + n]) : 0;
    k_squares += k[i] * k[i];
    q_squares += q[i] * q[i];
    product += k[i] * q[i];
  }
  float k_factor = 1, q_factor = 1;
  if constexpr (DELTA) {
    k_factor = rsqrtf(warp_sum(k_squares) + a.epsilon);
    q_factor = rsqrtf(warp_sum(q_squares) + a.epsilon) * a.scale;
    product = warp_sum(product) * k_factor * q_factor;
  }
  shared<float> to_k = shared_cast<float>(tile.k) + (size_t)t * LANES * R;
  shared<float> to_q = shared_cast<float>(tile.q) + (size_t)t * LANES * R;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    to_k[lane + i * WARP] = k[i] * k_factor;
    to_q[lane + i * WARP] = q[i] * q_factor;
  }
  return product;
}

template <class T, bool DELTA>
static __device__ __forceinline__ fold_gates gates_of(const lls_cuda_fold &a, size_t row,
                                                      unsigned head)
{
  fold_gates g = {};
  const T *gates = (const T *)a.gates + row * a.heads * (DELTA ? 2 : 1) + head;
  float dt = softplus(to_float(gates[DELTA ? a.heads : 0]) + a.dt_bias[head]);
  if (!DELTA)
    dt = fminf(fmaxf(dt, a.dt_min), a.dt_max);
  g.decay = expf(a.rate[head] * dt);
  g.strength = DELTA ? 1 / (1 + expf(-to_float(gates[0]))) : dt;
  return g;
}

/* Brings n <= TILE rows to shared memory, a row by a warp. */
template <class T, bool DELTA, int R>
static __device__ __forceinline__ void
stage(const lls_cuda_fold &a, const fold_tile<R> &tile, size_t first, unsigned n)
{
  unsigned lane = threadIdx.x % WARP, column = tile.first_column + lane;
  for (unsigned t = threadIdx.x / WARP; t < n; t += THREADS / WARP) {
    float product = stage_keys<T, DELTA>(a, tile, first + t, t);
    size_t at = (first + t) * a.stride + (size_t)tile.head * a.columns + column;
    tile.v[t * COLUMNS + lane] = column < a.columns ? to_float(((const T *)a.v)[at]) : 0;
    if (lane == 0) {
      fold_gates g = gates_of<T, DELTA>(a, first + t, tile.head);
      g.product = product;
      tile.gates[t] = g;
    }
  }
}

/* ---- a token ----------------------------------------------------------------------- */

/* The sum over the lanes of a column. */
static __device__ __forceinline__ float column_sum(float x)
{
  x += __shfl_xor_sync(ALL_LANES, x, WARP / 2);
  return x + __shfl_xor_sync(ALL_LANES, x, WARP / 4);
}

/* S = g S + k (beta (v - k g S)); returns q S, from q of the state before: the two sums
 * over the lanes do not wait for each other. */
template <int R>
static __device__ __forceinline__ float
delta_token(float (&s)[R], const fold_tile<R> &tile, unsigned t, unsigned slice, float v)
{
  const fold_gates g = tile.gates[t];
  float known[4] = {}, asked[4] = {};
#pragma unroll
  for (int i = 0; i < R / 4; i++) {
    const four k = tile.k[t * R + i * LANES + slice],
               q = tile.q[t * R + i * LANES + slice];
#pragma unroll
    for (int e = 0; e < 4; e++) {
      known[e] += k.v[e] * s[4 * i + e];
      asked[e] += q.v[e] * s[4 * i + e];
    }
  }
  float all_known = column_sum(known[0] + known[1] + (known[2] + known[3]));
  float all_asked = column_sum(asked[0] + asked[1] + (asked[2] + asked[3]));
  float change = g.strength * (v - g.decay * all_known);
#pragma unroll
  for (int i = 0; i < R / 4; i++) {
    const four k = tile.k[t * R + i * LANES + slice];
#pragma unroll
    for (int e = 0; e < 4; e++)
      s[4 * i + e] = g.decay * s[4 * i + e] + k.v[e] * change;
  }
  return g.decay * all_asked + g.product * change;
}

/* S = g S + B (dt x); returns C S. */
template <int R>
static __device__ __forceinline__ float
space_token(float (&s)[R], const fold_tile<R> &tile, unsigned t, unsigned slice, float x)
{
  const fold_gates g = tile.gates[t];
  float change = g.strength * x, asked[4] = {};
#pragma unroll
  for (int i = 0; i < R / 4; i++) {
    const four k = tile.k[t * R + i * LANES + slice],
               q = tile.q[t * R + i * LANES + slice];
#pragma unroll
    for (int e = 0; e < 4; e++) {
      s[4 * i + e] = g.decay * s[4 * i + e] + k.v[e] * change;
      asked[e] += q.v[e] * s[4 * i + e];
    }
  }
  return column_sum(asked[0] + asked[1] + (asked[2] + asked[3]));
}

/*
 * 32 columns of a head, over the spans of a chain. Bytes: the state once read, and
 * written once a span; of a row k, q and v of the head, k and q once more for each
 * further 32 columns (from the L2 cache). Operations, a token and number of the state: 7
 * of the delta net, 5 of the state space. A token of Qwen3-Next's layer (32 heads of 128
 * x 128) moves 4 MiB alone, 1.3 us at 3.35 TB/s, and takes 3.7 million operations. In a
 * prompt the latency of a token's dependent instructions counts, some 300 cycles: 0.17 us
 * a row and layer by prediction. More prompts in the step take no longer: one has 4 warps
 * on a multiprocessor, which has registers for 16.
 */
template <class T, bool DELTA, int R>
__global__ void __launch_bounds__(THREADS)
    fold_columns(const lls_cuda_step *step, lls_cuda_fold a)
{
  SHARED_ARRAY(four, k, TILE * R);
  SHARED_ARRAY(four, q, TILE * R);
  SHARED_ARRAY(float, v, TILE *COLUMNS);
  SHARED_ARRAY(fold_gates, gates, TILE);
  if (blockIdx.y >= step->n_chains) {
    wait_for_earlier();
    return;
  }
  const unsigned parts = (a.columns + COLUMNS - 1) / COLUMNS;
  fold_tile<R> tile = {
      k, q, v, gates, blockIdx.x / parts, 0, blockIdx.x % parts * COLUMNS};
  tile.key_head = a.tiled ? tile.head % a.key_heads : tile.head / (a.heads / a.key_heads);
  const unsigned lane = threadIdx.x % WARP, slice = lane / (WARP / LANES);
  const unsigned local = threadIdx.x / WARP * (WARP / LANES) + lane % (WARP / LANES);
  const unsigned column = tile.first_column + local;
  const lls_state_span *span = step->spans + step->chains[blockIdx.y];
  const lls_state_span *end = step->spans + step->chains[blockIdx.y + 1];
  const float skip = DELTA || a.skip == nullptr ? 0 : a.skip[tile.head];
  float s[R] = {};
  if (span->source != LLS_NO_STATE) {
    const float *from = state_at(a, span->source);
    each_row<R>(a, tile.head, column, slice, [&](int i, size_t at) { s[i] = from[at]; });
  }
  wait_for_earlier();
  let_next_begin();
  for (; span < end; span++) {
    for (unsigned done = 0, n; done < span->n_rows; done += n) {
      size_t first = (size_t)span->first_row + done;
      n = span->n_rows - done < TILE ? span->n_rows - done : TILE;
      __syncthreads();
      stage<T, DELTA>(a, tile, first, n);
      __syncthreads();
      for (unsigned t = 0; t < n; t++) {
        float x = tile.v[t * COLUMNS + local];
        float y = DELTA ? delta_token(s, tile, t, slice, x)
                        : space_token(s, tile, t, slice, x) + skip * x;
        if (slice == 0 && column < a.columns)
          ((T *)a.out)[((first + t) * a.heads + tile.head) * a.columns + column] =
              from_float<T>(y);
      }
    }
    if (span->target == LLS_NO_STATE) /* guesses, the last rows of a chain */
      break;
    float *to = state_at(a, span->target);
    each_row<R>(a, tile.head, column, slice, [&](int i, size_t at) { to[at] = s[i]; });
  }
}

/* ---- launching --------------------------------------------------------------------- */

template <class T, bool DELTA>
static int launch_fold(cudaStream_t s, const lls_cuda_step *step, dim3 grid,
                       const lls_cuda_fold &a)
{
  if (a.rows <= 16 * LANES)
    return launch_early(s, fold_columns<T, DELTA, 16>, grid, THREADS, 0, step, a);
  if (a.rows <= 32 * LANES)
    return launch_early(s, fold_columns<T, DELTA, 32>, grid, THREADS, 0, step, a);
  return launch_early(s, fold_columns<T, DELTA, 64>, grid, THREADS, 0, step, a);
}

template <class T>
static int launch_either(cudaStream_t s, const lls_cuda_step *step, dim3 grid,
                         const lls_cuda_fold &a)
{
  return a.delta ? launch_fold<T, true>(s, step, grid, a)
                 : launch_fold<T, false>(s, step, grid, a);
}

extern "C" int lls_cuda_run_fold(cudaStream_t s, enum lls_dtype numbers,
                                 const struct lls_cuda_step *step, uint32_t n_chains,
                                 const struct lls_cuda_fold *a)
{
  dim3 grid(a->heads * ((a->columns + COLUMNS - 1) / COLUMNS), n_chains);
  if (grid.x == 0 || n_chains == 0)
    return 0;
  return numbers == LLS_F32 ? launch_either<float>(s, step, grid, *a)
                            : launch_either<bf16>(s, step, grid, *a);
}
