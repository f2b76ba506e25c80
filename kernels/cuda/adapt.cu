/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of several LoRA adapters in one product, in two launches: `shrink` makes
 * t = scale x a^T, `expand` adds t b to y. The list of entries, and which adapter each
 * has, are data of the step, so that a captured graph serves every step with as many rows
 * and adapters of these ranks.
 *
 * A thread block has a few entries that follow each other, and works on those with one
 * adapter (and expert) at a time: it reads a matrix once for up to eight rows. A row's
 * sums are in the same order whichever other entries there are.
 *
 * Bytes and operations of n rows of an adapter, for each rank: rounded up to a tile, a
 * row of a (2 inputs in bf16) and of b (2 outputs) for every eight rows, from memory the
 * first time and from L2 afterwards; 2 n (inputs + outputs) operations. Of 16 rows and 4
 * adapters of rank 16 on 4096 inputs and outputs: 1 MiB read and 4 million operations
 * beside the product's 32 MiB and 537 million. Tensor cores would not read less.
 */
#include "kernels/cuda/adapt.h"
#include "kernels/cuda/rows.cuh"

#define TILE    LLS_CUDA_ADAPT_TILE
#define RANKS   4   /* rows of a that a thread block of shrink multiplies */
#define COLUMNS 128 /* threads of a block of expand, each with one or two columns */

/* The entries of a thread block: each one's row, adapter and expert. */
struct entries {
  shared<uint32_t> row, adapter, expert;
};

#define SHARED_ENTRIES(name)                                                             \
  SHARED_ARRAY(uint32_t, row_of, TILE);                                                  \
  SHARED_ARRAY(uint32_t, adapter_of, TILE);                                              \
  SHARED_ARRAY(uint32_t, expert_of, TILE);                                               \
  const entries name = {row_of, adapter_of, expert_of}

/* Returns the expert whose rows the i-th is one of. */
static __device__ __forceinline__ uint32_t find_expert(const lls_cuda_adapt &a,
                                                       uint32_t i)
{
  uint32_t low = 0, high = a.experts;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (a.route_first[middle] <= i)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* Finds the block's entries; returns their number. */
static __device__ __forceinline__ uint32_t find_entries(const lls_cuda_adapt &a,
                                                        const entries &e)
{
  uint32_t begin = blockIdx.x * a.tile, at = threadIdx.x;
  uint32_t n = a.entries - begin < a.tile ? a.entries - begin : a.tile;
  if (at < n) {
    uint32_t i = a.first + begin + at, row = a.rows != nullptr ? a.rows[i] : i;
    uint32_t of = a.rows != nullptr ? row : a.route_row[i];
    e.row[at] = row;
    e.adapter[at] = of != LLS_CUDA_NO_ROW ? a.adapter_of[of] : LLS_CUDA_NO_ADAPTER;
    e.expert[at] = a.rows != nullptr ? 0 : find_expert(a, i);
  }
  __syncthreads();
  return n;
}

/* Returns the end of the entries that have the matrices of the one at `begin`. */
static __device__ __forceinline__ uint32_t end_of_run(const entries &e, uint32_t begin,
                                                      uint32_t n)
{
  uint32_t end = begin + 1;
  while (end < n && e.adapter[end] == e.adapter[begin] &&
         e.expert[end] == e.expert[begin])
    end++;
  return end;
}

/* Returns the part of the run's adapter that this block computes; nullptr: none. */
static __device__ __forceinline__ const lls_low_rank *part_of(const lls_cuda_adapt &a,
                                                              uint32_t adapter)
{
  if (adapter == LLS_CUDA_NO_ADAPTER || blockIdx.z >= a.adapters[adapter].n_parts)
    return nullptr;
  return &a.adapters[adapter].parts[blockIdx.z];
}

/* ---- t = scale x a^T --------------------------------------------------------------- */

/* Adds a thread's share of the products of up to TILE rows of x and RANKS rows of a. */
template <class T, int N>
static __device__ __forceinline__ void
multiply(const lls_cuda_adapt &a, shared<uint32_t> row, uint32_t n, const T *matrix,
         uint32_t stride, uint32_t ranks, float (&sum)[RANKS * TILE])
{
  for (uint32_t i = threadIdx.x * N; i < a.inputs; i += blockDim.x * N) {
    several<T, N> w[RANKS];
#pragma unroll
    for (uint32_t k = 0; k < RANKS; k++)
      w[k] = load_several<T, N>(matrix + (size_t)(k < ranks ? k : 0) * stride + i);
#pragma unroll
    for (uint32_t r = 0; r < TILE; r++) {
      if (r >= n)
        break;
      several<T, N> x =
          load_several<T, N>((const T *)a.x + (size_t)row[r] * a.inputs + i);
#pragma unroll
      for (uint32_t k = 0; k < RANKS; k++)
#pragma unroll
        for (int j = 0; j < N; j++)
          sum[k * TILE + r] += to_float(w[k].v[j]) * to_float(x.v[j]);
    }
  }
}

/* Adds up each of 2 HALF numbers over lanes, of which a lane keeps half: 31 exchanges of
 * a warp for 32 numbers, not 5 for each. The last one is the sum of the lane's own
 * number. */
template <int HALF> static __device__ __forceinline__ void halve(float (&v)[WARP])
{
  bool upper = (threadIdx.x & HALF) != 0;
#pragma unroll
  for (int i = 0; i < HALF; i++) {
    float sent = upper ? v[i] : v[i + HALF], kept = upper ? v[i + HALF] : v[i];
    v[i] = kept + __shfl_xor_sync(ALL_LANES, sent, HALF);
  }
  if constexpr (HALF > 1)
    halve<HALF / 2>(v);
}

/* Adds up the shares of all threads, and writes them for the run's entries. */
static __device__ __forceinline__ void write_sums(float (&sum)[RANKS * TILE],
                                                  shared<float> room, uint32_t n,
                                                  uint32_t ranks, float scale, float *t,
                                                  uint32_t stride)
{
  static_assert(RANKS * TILE == WARP, "a lane for each sum");
  halve<WARP / 2>(sum);
  room[threadIdx.x] = sum[0];
  __syncthreads();
  uint32_t k = threadIdx.x / TILE, r = threadIdx.x % TILE;
  if (k < ranks && r < n) {
    float total = 0;
    for (uint32_t i = threadIdx.x; i < blockDim.x; i += WARP)
      total += room[i];
    t[(size_t)r * stride + k] = total * scale;
  }
  __syncthreads();
}

/* Grid: tiles of entries, RANKS ranks of a part, parts. */
template <class T, int N>
__global__ void __launch_bounds__(THREADS, 2) shrink(lls_cuda_adapt a)
{
  SHARED_ENTRIES(e);
  SHARED_ARRAY(float, room, THREADS);
  wait_for_earlier();
  let_next_begin();
  uint32_t n = find_entries(a, e), first = blockIdx.y * RANKS, stride = a.parts * a.ranks;
  float *t = a.t + ((size_t)blockIdx.x * a.tile * a.parts + blockIdx.z) * a.ranks + first;
  for (uint32_t begin = 0, end; begin < n; begin = end) {
    end = end_of_run(e, begin, n);
    const lls_low_rank *p = part_of(a, e.adapter[begin]);
    if (p == nullptr || first >= p->rank)
      continue;
    uint32_t ranks = p->rank - first < RANKS ? p->rank - first : RANKS;
    float sum[RANKS * TILE] = {0};
    multiply<T, N>(a, e.row + begin, end - begin,
                   (const T *)p->a +
                       ((size_t)e.expert[begin] * p->rank + first) * p->a_stride,
                   p->a_stride, ranks, sum);
    write_sums(sum, room, end - begin, ranks, a.adapters[e.adapter[begin]].scale,
               t + (size_t)begin * stride, stride);
  }
}

/* ---- y += t b ---------------------------------------------------------------------- */

/* Adds a thread's columns to n rows; b and `output` are of the first of them. */
template <class T, int N>
static __device__ __forceinline__ void
add_columns(const lls_cuda_adapt &a, shared<uint32_t> row, uint32_t n,
            const lls_low_rank &p, const T *b, uint32_t output, shared<float> t)
{
  float sum[TILE][N] = {{0}};
#pragma unroll 4
  for (uint32_t k = 0; k < p.rank; k++) {
    const several<T, N> w = load_several<T, N>(b + (size_t)k * p.b_stride);
#pragma unroll
    for (uint32_t r = 0; r < TILE; r++)
#pragma unroll
      for (int j = 0; j < N; j++)
        sum[r][j] += t[k * TILE + r] * to_float(w.v[j]);
  }
#pragma unroll
  for (uint32_t r = 0; r < TILE; r++) {
    if (r >= n)
      break;
    T *y = (T *)a.y + (size_t)row[r] * a.outputs + output;
    several<T, N> before = load_several<T, N>(y);
#pragma unroll
    for (int j = 0; j < N; j++)
      sum[r][j] += to_float(before.v[j]);
    store_several(y, round_all<T>(sum[r]));
  }
}

/* Grid: tiles of entries, columns of a part, parts. */
template <class T, int N>
__global__ void __launch_bounds__(COLUMNS, 4) expand(lls_cuda_adapt a)
{
  SHARED_ENTRIES(e);
  SHARED_ARRAY(float, of_run, LLS_CUDA_ADAPT_RANKS *TILE); /* t, by rank and then entry */
  wait_for_earlier();
  let_next_begin();
  uint32_t n = find_entries(a, e), stride = a.parts * a.ranks;
  uint32_t column = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  const float *t = a.t + ((size_t)blockIdx.x * a.tile * a.parts + blockIdx.z) * a.ranks;
  for (uint32_t begin = 0, end; begin < n; begin = end) {
    end = end_of_run(e, begin, n);
    const lls_low_rank *p = part_of(a, e.adapter[begin]);
    if (p == nullptr || blockIdx.y * blockDim.x * N >= p->outputs)
      continue;
    for (uint32_t i = threadIdx.x; i < p->rank * TILE; i += blockDim.x) {
      uint32_t r = i % TILE;
      of_run[i] = r < end - begin ? t[(size_t)(begin + r) * stride + i / TILE] : 0;
    }
    __syncthreads();
    if (column < p->outputs)
      add_columns<T, N>(a, e.row + begin, end - begin, *p,
                        (const T *)p->b +
                            (size_t)e.expert[begin] * p->rank * p->b_stride + column,
                        p->first_output + column, of_run);
    __syncthreads();
  }
}

/* ---- launching --------------------------------------------------------------------- */

template <class T, int N>
static int launch_shrink(cudaStream_t s, const lls_cuda_adapt *a)
{
  uint32_t tiles = (a->entries + a->tile - 1) / a->tile;
  dim3 grid(tiles, (a->ranks + RANKS - 1) / RANKS, a->parts);
  return launch_early(s, shrink<T, N>, grid, threads_for((a->inputs + N - 1) / N), 0, *a);
}

template <class T, int N>
static int launch_expand(cudaStream_t s, const lls_cuda_adapt *a)
{
  uint32_t tiles = (a->entries + a->tile - 1) / a->tile, n = (a->columns + N - 1) / N;
  unsigned threads = threads_for(n, COLUMNS);
  dim3 grid(tiles, (n + threads - 1) / threads, a->parts);
  return launch_early(s, expand<T, N>, grid, threads, 0, *a);
}

template <class T> static int launch_both(cudaStream_t s, const lls_cuda_adapt *a)
{
  int rc = a->wide_inputs ? launch_shrink<T, WIDE<T>>(s, a) : launch_shrink<T, 1>(s, a);
  if (rc != 0)
    return rc;
  return a->wide_outputs ? launch_expand<T, 2>(s, a) : launch_expand<T, 1>(s, a);
}

extern "C" int lls_cuda_run_adapt(cudaStream_t s, enum lls_dtype numbers,
                                  const struct lls_cuda_adapt *a)
{
  return numbers == LLS_F32 ? launch_both<float>(s, a) : launch_both<bf16>(s, a);
}
