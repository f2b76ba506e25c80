/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combines the partial answers of decode attention. The warps of a block saw different
 * tokens, and so did other blocks where a context is cut into pieces. The block that
 * finishes last (arrivals.cuh) combines the pieces in the order of tokens, so the
 * result does not depend on which block it is.
 */
#ifndef LLS_CUDA_ATTENTION_ANSWER_CUH
#define LLS_CUDA_ATTENTION_ANSWER_CUH

#include "kernels/cuda/attention_slab.cuh"
#include "kernels/cuda/attention_store.cuh"

/*
 * The partial answer to 8 T queries over the warp's tokens, lane = 4 g + t: max and sum
 * (this lane's columns only) of query g + 8 r, and values of queries 2t + 8 r and 2t +
 * 1 + 8 r, both at dim_of(c, g, 0), then both at dim_of(c, g, 1).
 */
template <int HD, int T> struct answer {
  float values[T][HD / 16][4];
  float max[T], sum[T];
};

/* Returns the dim of rows g and g + 8 of V transposed: INT8 bytes come from shared
 * memory in pairs. */
template <bool INT8>
static __device__ __forceinline__ unsigned dim_of(unsigned c, unsigned g, unsigned half)
{
  return c * 16 + (INT8 ? 2 * g + half : g + 8 * half);
}

/* A piece of a context, for one KV head. */
struct task {
  lls_cuda_piece piece;
  uint32_t kv_head, group, n_queries;
};

/* Writes two adjacent values of a query's result. */
template <int HD>
static __device__ __forceinline__ void
store_result(const task &w, const lls_cuda_attention &a, uint32_t query, uint32_t d,
             float x, float y)
{
  size_t row = w.piece.row + query / w.group;
  size_t head = w.kv_head * w.group + query % w.group;
  uint32_t *out = (uint32_t *)a.out + ((row * a.heads + head) * HD + d) / 2;
  *out = pack_bf16(x, y);
}

/* Returns the address of state `part`. */
template <int HD>
static __device__ __forceinline__ float *
state_of(const task &w, const lls_cuda_attention &a, float *states, uint32_t part)
{
  return states + ((size_t)part * a.kv_heads + w.kv_head) * LLS_CUDA_STATE_FLOATS(HD);
}

/* Floats in which a warp shows two queries: values, max, sum. */
template <int HD> constexpr int room_floats()
{
  return 4 * 2 * (HD + 2);
}

/* Writes queries first and first + 1 to shared memory; only lanes t hold them. */
template <int HD, bool INT8>
static __device__ __forceinline__ void show(const float (&values)[HD / 16][4], float max,
                                            float sum, unsigned t, shared<float> room)
{
  constexpr unsigned width = HD + 2;
  unsigned lane = threadIdx.x % WARP, g = lane / 4;
  shared<float> to = room + threadIdx.x / WARP * 2 * width;
  if (lane % 4 == t) {
#pragma unroll
    for (int c = 0; c < HD / 16; c++) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        to[i % 2 * width + dim_of<INT8>(c, g, i / 2)] = values[c][i];
    }
  }
  if (lane % 4 == 0 && g / 2 == t) {
    to[g % 2 * width + HD] = max;
    to[g % 2 * width + HD + 1] = sum;
  }
}

/* Combines the four warps' answers to two queries. */
template <int HD>
static __device__ __forceinline__ void
put_together(const task &w, const lls_cuda_attention &a, float *states, uint32_t first,
             shared<float> room)
{
  constexpr unsigned width = HD + 2;
  for (unsigned i = threadIdx.x; i < HD; i += 4 * WARP) {
    uint32_t query = first + i / (HD / 2), d = i % (HD / 2) * 2;
    if (query >= w.n_queries)
      continue;
    float max = NOTHING, sum = 0, x = 0, y = 0;
#pragma unroll
    for (unsigned k = 0; k < 4; k++)
      max = fmaxf(max, room[(k * 2 + query % 2) * width + HD]);
#pragma unroll
    for (unsigned k = 0; k < 4; k++) {
      shared<float> from = room + (k * 2 + query % 2) * width;
      float part = from[HD], factor = part == NOTHING ? 0 : fast_exp2(part - max);
      sum += factor * from[HD + 1];
      x += factor * from[d];
      y += factor * from[d + 1];
    }
    if (w.piece.part == LLS_CUDA_NO_PART) {
      store_result<HD>(w, a, query, d, x * (1 / sum), y * (1 / sum));
      continue;
    }
    float *state = state_of<HD>(w, a, states, w.piece.part);
    *(several<float, 2> *)(state + query * HD + d) = {x, y};
    if (d == 0) {
      state[LLS_CUDA_SMALL * HD + query] = max;
      state[LLS_CUDA_SMALL * (HD + 1) + query] = sum;
    }
  }
}

template <int HD, int T, bool INT8>
static __device__ __forceinline__ void
store_answer(const task &w, const lls_cuda_attention &a, float *states, answer<HD, T> &an,
             shared<float> room)
{
#pragma unroll
  for (int r = 0; r < T; r++) {
    an.sum[r] += __shfl_xor_sync(ALL_LANES, an.sum[r], 1);
    an.sum[r] += __shfl_xor_sync(ALL_LANES, an.sum[r], 2);
#pragma unroll 1
    for (unsigned t = 0; t < 4 && 8 * r + 2 * t < w.n_queries; t++) {
      show<HD, INT8>(an.values[r], an.max[r], an.sum[r], t, room);
      __syncthreads();
      put_together<HD>(w, a, states, 8 * r + 2 * t, room);
      __syncthreads();
    }
  }
}

/* ---- parts ------------------------------------------------------------------------- */

/* Have all other parts of the piece's context been written? */
static __device__ __forceinline__ bool
finish_piece(const task &w, const lls_cuda_attention &a, uint32_t *finished)
{
  uint32_t *count = finished + (size_t)w.piece.first_part * a.kv_heads + w.kv_head;
  return is_last<whole_block>(count, w.piece.n_parts);
}

#define PARTS 8 /* parts read at once */

/* Combines the parts: each thread has four values of a query. */
template <int HD>
static __device__ __forceinline__ void
merge_pieces(const task &w, const lls_cuda_attention &a, float *states)
{
  size_t step = (size_t)a.kv_heads * LLS_CUDA_STATE_FLOATS(HD);
  const float *first = state_of<HD>(w, a, states, w.piece.first_part);
  for (unsigned i = threadIdx.x; i < w.n_queries * (HD / 4); i += 4 * WARP) {
    uint32_t query = i / (HD / 4), d = i % (HD / 4) * 4;
    const float *scale = first + LLS_CUDA_SMALL * HD + query,
                *values = first + query * HD + d;
    float max = NOTHING, sum = 0, x[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (uint32_t k = 0; k < w.piece.n_parts; k += PARTS) {
      float part[PARTS], sums[PARTS], top = max;
      several<float, 4> value[PARTS];
#pragma unroll
      for (uint32_t j = 0; j < PARTS; j++) {
        /* a missing part reads the last one again, with no effect */
        bool there = k + j < w.piece.n_parts;
        size_t at = (there ? k + j : w.piece.n_parts - 1) * step;
        part[j] = load_written_one(scale + at);
        sums[j] = load_written_one(scale + at + LLS_CUDA_SMALL);
        value[j] = load_written(values + at);
        part[j] = there ? part[j] : NOTHING;
      }
#pragma unroll
      for (uint32_t j = 0; j < PARTS; j++)
        top = fmaxf(top, part[j]);
      float decay = max == NOTHING ? 0 : fast_exp2(max - top);
      max = top;
      sum *= decay;
#pragma unroll
      for (int c = 0; c < 4; c++)
        x[c] *= decay;
#pragma unroll
      for (uint32_t j = 0; j < PARTS; j++) {
        float factor = part[j] == NOTHING ? 0 : fast_exp2(part[j] - max);
        sum += factor * sums[j];
#pragma unroll
        for (int c = 0; c < 4; c++)
          x[c] += factor * value[j].v[c];
      }
    }
    float inverse = 1 / sum;
    store_result<HD>(w, a, query, d, x[0] * inverse, x[1] * inverse);
    store_result<HD>(w, a, query, d + 2, x[2] * inverse, x[3] * inverse);
  }
}

#endif
