/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes states of attention as results, or as parts of results if a context is split
 * among blocks. The block that finishes the last part of an item combines the parts in
 * the order of tokens, so the result does not depend on which block it is. A separate
 * kernel would cost each layer a launch, even where nothing is split.
 *
 * Parts are written, then made visible (__threadfence), then counted, as in the "thread
 * fence reduction" of CUDA's programming guide. They are read from L2, which holds the
 * parts of other multiprocessors.
 */
#ifndef LLS_CUDA_ATTENTION_STORE_CUH
#define LLS_CUDA_ATTENTION_STORE_CUH

#include "kernels/cuda/arrivals.cuh"
#include "kernels/cuda/attention_tile.cuh"

#define LOG2E   1.44269504f
#define NOTHING (-INFINITY)

/* 2^x with a relative error of 2^-22; 0 for -infinity and for subnormal results: one
 * instruction, where exp2f has four. */
static __device__ __forceinline__ float fast_exp2(float x)
{
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

/* The state of rows g and g + 8 of 16 queries, over the tokens that the warp has
 * seen. */
template <int HD> struct state {
  float values[HD / 8][4];
  float max[2], sum[2]; /* sum: of this lane's columns only */
};

/* Writes a query's result, in pairs of values. */
template <int HD>
static __device__ __forceinline__ uint32_t *
result_at(const work &w, const lls_cuda_attention &a, uint32_t query)
{
  size_t row = w.sequence.first_row + w.item.first + query / w.group;
  size_t head = w.kv_head * w.group + query % w.group;
  return (uint32_t *)a.out + (row * a.heads + head) * (HD / 2);
}

/* The state that holds a query's part: values (16, HD), largest scores, sums. */
template <int HD>
static __device__ __forceinline__ float *
state_at(const work &w, const lls_cuda_attention &a, float *states, uint32_t query)
{
  size_t index = (size_t)(w.item.part + query / 16) * a.kv_heads + w.kv_head;
  return states + index * LLS_CUDA_STATE_FLOATS(HD);
}

/* Writes two adjacent values of a query, x and y: multiplied by `inverse` (of their
 * sum), or into a state. */
template <int HD>
static __device__ __forceinline__ void
store_pair(const work &w, const lls_cuda_attention &a, float *states, uint32_t query,
           uint32_t d, float x, float y, float inverse)
{
  if (w.item.part == LLS_CUDA_NO_PART) {
    result_at<HD>(w, a, query)[d / 2] = pack_bf16(x * inverse, y * inverse);
    return;
  }
  float *values = state_at<HD>(w, a, states, query) + query % 16 * HD + d;
  values[0] = x;
  values[1] = y;
}

template <int HD>
static __device__ __forceinline__ void
store_scale(const work &w, const lls_cuda_attention &a, float *states, uint32_t query,
            float max, float sum)
{
  if (w.item.part == LLS_CUDA_NO_PART)
    return;
  float *state = state_at<HD>(w, a, states, query) + 16 * HD + query % 16;
  state[0] = max;
  state[16] = sum;
}

/* Writes a warp's state, which covers all tokens of its queries, from the first query
 * on. */
template <int HD>
static __device__ __forceinline__ void
store_warp(const work &w, const lls_cuda_attention &a, float *states,
           uint32_t first_query, const state<HD> &st)
{
  unsigned lane = threadIdx.x % WARP;
#pragma unroll
  for (int row = 0; row < 2; row++) {
    uint32_t query = first_query + lane / 4 + row * 8;
    if (query >= w.n_queries)
      continue;
    if (w.item.part == LLS_CUDA_NO_PART) {
      float inverse = 1 / st.sum[row];
      uint32_t *out = result_at<HD>(w, a, query) + lane % 4;
#pragma unroll
      for (int n = 0; n < HD / 8; n++)
        out[n * 4] = pack_bf16(st.values[n][2 * row] * inverse,
                               st.values[n][2 * row + 1] * inverse);
      continue;
    }
    if (lane % 4 == 0)
      store_scale<HD>(w, a, states, query, st.max[row], st.sum[row]);
    float *out = state_at<HD>(w, a, states, query) + query % 16 * HD + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < HD / 8; n++) {
      out[n * 8] = st.values[n][2 * row];
      out[n * 8 + 1] = st.values[n][2 * row + 1];
    }
  }
}

/* ---- parts ------------------------------------------------------------------------- */

static __device__ __forceinline__ float load_written_one(const float *from)
{
#ifdef __CUDACC__
  float x;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(from) : "memory");
  return x;
#else
  return *from;
#endif
}

/* Have all other parts of the item been written? */
template <class THREADS>
static __device__ __forceinline__ bool
finish_part(const work &w, const lls_cuda_attention &a, uint32_t *finished)
{
  uint32_t *count = finished + (size_t)w.item.first_part * a.kv_heads + w.kv_head;
  return is_last<THREADS>(count, w.item.n_parts);
}

/* Combines the parts; each thread has four values of a query. */
template <int HD, class THREADS>
static __device__ __forceinline__ void
merge_parts(const work &w, const lls_cuda_attention &a, const float *states)
{
  constexpr size_t floats = LLS_CUDA_STATE_FLOATS(HD);
  size_t units = (w.n_queries + LLS_CUDA_SMALL - 1) / LLS_CUDA_SMALL;
  size_t step = units * a.kv_heads * floats;
  unsigned n = w.n_queries * (HD / 4);
  for (unsigned i = THREADS::thread(); i < n; i += THREADS::count()) {
    uint32_t query = i / (HD / 4), d = i % (HD / 4) * 4, row = query % LLS_CUDA_SMALL;
    size_t unit = w.item.first_part + query / LLS_CUDA_SMALL;
    const float *first = states + (unit * a.kv_heads + w.kv_head) * floats;
    const float *scale = first + LLS_CUDA_SMALL * HD + row,
                *values = first + row * HD + d;
    float max = NOTHING, sum = 0, x[4] = {0, 0, 0, 0};
    for (uint32_t k = 0; k < w.item.n_parts; k++)
      max = fmaxf(max, load_written_one(scale + k * step));
#pragma unroll 4
    for (uint32_t k = 0; k < w.item.n_parts; k++) {
      float part = load_written_one(scale + k * step);
      float factor = part == NOTHING ? 0 : fast_exp2(part - max);
      several<float, 4> value = load_written(values + k * step);
      sum += factor * load_written_one(scale + k * step + LLS_CUDA_SMALL);
#pragma unroll
      for (int c = 0; c < 4; c++)
        x[c] += factor * value.v[c];
    }
    float inverse = 1 / sum;
    uint32_t *out = result_at<HD>(w, a, query) + d / 2;
    out[0] = pack_bf16(x[0] * inverse, x[1] * inverse);
    out[1] = pack_bf16(x[2] * inverse, x[3] * inverse);
  }
}

#endif
