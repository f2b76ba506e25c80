/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of prompts with tensor cores: 128 queries (rows x q heads of a KV head)
 * against some tokens, in tiles of 64 that are copied to shared memory while the tile
 * before is computed (attention_tile.cuh); the eight warps take 16 queries each. Online
 * softmax as in FlashAttention-2 (Dao, 2023, algorithm 1); a context that is split
 * among thread blocks leaves partial states, which the last block combines
 * (attention_store.cuh). Decodes have a separate kernel (attention_decode.cuh); both
 * are launched here. For t tokens and n queries of a KV head it reads 4 t head_dim
 * bytes in bf16, and in int8 blocks of b tokens 2 t head_dim (1 + 4 / b), and takes 4 n
 * t head_dim operations.
 *
 * Kernels with INT8 are for pools where int8 blocks and other blocks are mixed; they
 * are compiled in attention_int8.cu, the others in attention.cu.
 */
#ifndef LLS_CUDA_ATTENTION_CUH
#define LLS_CUDA_ATTENTION_CUH

#include "kernels/cuda/attention_decode.cuh"
#include "kernels/cuda/attention_store.cuh"

/* Copies the queries to the stage that tile 1 will use. */
template <int HD, int QUERIES>
static __device__ __forceinline__ void
load_queries(const work &w, const lls_cuda_attention &a, shared<bf16> stages)
{
  typedef tile_layout<HD> layout;
  size_t columns = a.columns;
  const bf16 *q = (const bf16 *)a.qkv + (w.sequence.first_row + w.item.first) * columns +
                  (size_t)w.kv_head * w.group * HD;
  for (unsigned i = threadIdx.x; i < QUERIES * layout::cells; i += blockDim.x) {
    uint32_t query = i / layout::cells, cell = i % layout::cells * CELL;
    bool there = query < w.n_queries;
    const bf16 *from = q;
    if (there)
      from += query / w.group * columns + query % w.group * HD + cell;
    copy_async(stages + (layout::stage + query * layout::stride + cell), from, there);
  }
  copy_async_commit();
}

/* ---- one warp, one tile ------------------------------------------------------------ */

struct rows_of_warp {
  uint32_t position[2]; /* of this lane's two rows */
  uint32_t first;       /* of the warp's first row */
  uint32_t oldest;      /* token that the warp's last row sees */
};

template <int HD, int N>
static __device__ __forceinline__ void scores(const uint32_t (&q)[HD / 16][4],
                                              shared<bf16> k, float (&s)[N][4])
{
  unsigned lane = threadIdx.x % WARP;
  shared<bf16> row = k + ((lane / 16 * 8 + lane % 8) * (HD + 8) + lane / 8 % 2 * 8);
#pragma unroll
  for (int n = 0; n < N; n++)
    s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
#pragma unroll
  for (int d = 0; d < HD / 16; d++) {
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t b[4];
      ldmatrix(b, row + (n * 8 * (HD + 8) + d * 16));
      mma(s[n], q[d], b[0], b[1]);
      mma(s[n + 1], q[d], b[2], b[3]);
    }
  }
}

/* Do all rows of the warp see all of the `n` tokens? True for nearly all tiles. */
static __device__ __forceinline__ bool all_visible(const work &w, const rows_of_warp &r,
                                                   uint32_t first, uint32_t n)
{
  return first >= r.oldest && visible(first + n - 1, r.first, w.item.end, 0);
}

/* Multiplies the scores by log2(e), applies the soft cap, and sets masked scores to
 * NOTHING. */
template <int N>
static __device__ __forceinline__ void mask(const work &w, const lls_cuda_attention &a,
                                            const rows_of_warp &r, uint32_t first,
                                            float (&s)[N][4])
{
  uint32_t token = first + threadIdx.x % 4 * 2;
  float scale = a.scale * LOG2E;
  if (a.soft_cap > 0) {
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        s[n][i] = a.soft_cap * tanhf(s[n][i] * a.scale / a.soft_cap);
    }
    scale = LOG2E;
  }
#pragma unroll
  for (int n = 0; n < N; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++)
      s[n][i] *= scale;
  }
  if (all_visible(w, r, first, N * 8))
    return;
  const uint32_t oldest[2] = {lls_cuda_oldest(&a, r.position[0]),
                              lls_cuda_oldest(&a, r.position[1])};
#pragma unroll
  for (int n = 0; n < N; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (!visible(token + n * 8 + i % 2, r.position[i / 2], w.item.end, oldest[i / 2]))
        s[n][i] = NOTHING;
  }
}

/* Turns scores into weights and updates the state to the new maximum. */
template <int HD, int N>
static __device__ __forceinline__ void weigh(float (&s)[N][4], state<HD> &st)
{
#pragma unroll
  for (int row = 0; row < 2; row++) {
    float max = st.max[row];
#pragma unroll
    for (int n = 0; n < N; n++)
      max = fmaxf(max, fmaxf(s[n][2 * row], s[n][2 * row + 1]));
    max = fmaxf(max, __shfl_xor_sync(ALL_LANES, max, 1));
    max = fmaxf(max, __shfl_xor_sync(ALL_LANES, max, 2));
    float base = max == NOTHING ? 0 : max; /* no token seen yet: all weights are 0 */
    float decay = fast_exp2(st.max[row] - base);
    st.max[row] = max;
    st.sum[row] *= decay;
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
      for (int i = 2 * row; i < 2 * row + 2; i++) {
        s[n][i] = fast_exp2(s[n][i] - base);
        st.sum[row] += s[n][i];
      }
    }
#pragma unroll
    for (int n = 0; n < HD / 8; n++) {
      st.values[n][2 * row] *= decay;
      st.values[n][2 * row + 1] *= decay;
    }
  }
}

/* Adds weights x V: the scores' registers already have the layout of an A fragment. */
template <int HD, int N>
static __device__ __forceinline__ void add_values(const float (&s)[N][4], shared<bf16> v,
                                                  state<HD> &st)
{
  unsigned lane = threadIdx.x % WARP;
  shared<bf16> row = v + ((lane / 8 % 2 * 8 + lane % 8) * (HD + 8) + lane / 16 * 8);
#pragma unroll
  for (int n = 0; n < N; n += 2) {
    const uint32_t weights[4] = {pack_bf16(s[n][0], s[n][1]), pack_bf16(s[n][2], s[n][3]),
                                 pack_bf16(s[n + 1][0], s[n + 1][1]),
                                 pack_bf16(s[n + 1][2], s[n + 1][3])};
#pragma unroll
    for (int d = 0; d < HD / 16; d++) {
      uint32_t b[4];
      ldmatrix_trans(b, row + (n * 8 * (HD + 8) + d * 16));
      mma(st.values[2 * d], weights, b[0], b[1]);
      mma(st.values[2 * d + 1], weights, b[2], b[3]);
    }
  }
}

/* ---- the kernel -------------------------------------------------------------------- */

constexpr int LARGE_THREADS = 8 * WARP;

/* An (item, KV head) pair: number `number` of the step. */
struct piece_of_step {
  const lls_cuda_step *step;
  const lls_cuda_item *const *items;
  uint32_t number;
};

static __device__ __forceinline__ work work_of(const piece_of_step &piece,
                                               const lls_cuda_pool &pool,
                                               const lls_cuda_attention &a)
{
  const lls_cuda_step *step = piece.step;
  const lls_cuda_item item = (*piece.items)[piece.number / a.kv_heads];
  work w;
  w.item = item;
  w.layer = a.layer;
  w.kv_head = piece.number % a.kv_heads;
  w.group = a.heads / a.kv_heads;
  w.n_queries = item.n_rows * w.group;
  w.sequence = step->sequences[item.sequence];
  const lls_cuda_sequence &s = w.sequence;
  bool v = threadIdx.x >= TILE;
  w.list = make_list(pool, step->entries + s.kv_first, s.kv_count, s.kv_whole != 0,
                     s.scratch != 0, a.layer, w.kv_head, v);
  return w;
}

/* Does the item contain the first token that its rows see? */
static __device__ __forceinline__ bool is_first(const work &w,
                                                const lls_cuda_attention &a)
{
  uint32_t oldest = lls_cuda_oldest(&a, w.sequence.context + w.item.first);
  return w.item.begin == oldest / TILE * TILE;
}

/* Adds the sink, a token of value 0 before all others. A lane's sum covers its own
 * columns only, so the first of four lanes counts the sink. */
template <int HD>
static __device__ __forceinline__ void
begin_with_sinks(const work &w, const lls_cuda_attention &a, uint32_t first_query,
                 state<HD> &st)
{
  unsigned lane = threadIdx.x % WARP;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    uint32_t query = first_query + lane / 4 + i * 8;
    if (query >= w.n_queries)
      continue;
    st.max[i] = a.sinks[w.kv_head * w.group + query % w.group] * LOG2E;
    st.sum[i] = lane % 4 == 0 ? 1 : 0;
  }
}

/* The state of the warp's queries before the first token. */
template <int HD>
static __device__ __forceinline__ void begin_state(const work &w,
                                                   const lls_cuda_attention &a,
                                                   uint32_t first_query, state<HD> &st)
{
#pragma unroll
  for (int i = 0; i < 2; i++) {
    st.max[i] = NOTHING;
    st.sum[i] = 0;
  }
  if (a.sinks != nullptr && is_first(w, a))
    begin_with_sinks<HD>(w, a, first_query, st);
#pragma unroll
  for (int n = 0; n < HD / 8; n++)
    st.values[n][0] = st.values[n][1] = st.values[n][2] = st.values[n][3] = 0;
}

template <int HD, bool INT8>
static __device__ __forceinline__ void
attend(const piece_of_step &piece, const lls_cuda_pool &pool, const lls_cuda_attention &a,
       float *states, uint32_t *finished)
{
  work w = work_of(piece, pool, a);
  typedef tile_layout<HD> layout;
  constexpr int N = TILE / 8; /* columns of the scores, in groups of 8 */
  constexpr int QUERIES = LLS_CUDA_LARGE, THREADS = LARGE_THREADS;
  unsigned lane = threadIdx.x % WARP, first_query = threadIdx.x / WARP * 16;
  shared<bf16> stages = dynamic_shared<bf16>();
  tile_places places;
  places.at = shared_cast<uint64_t>(stages + 2 * layout::stage);
  places.half = shared_cast<uint32_t>(places.at + 2 * 2 * TILE);
  uint32_t n_tiles = (w.item.end - w.item.begin + TILE - 1) / TILE;

  lookup first = begin_lookup(w, 0), second = begin_lookup(w, 1);
  /* for the tile after the one whose copy begins next */
  lookup next = begin_lookup(w, 2);
  end_lookup<INT8>(w, pool, first, 0, places);
  end_lookup<INT8>(w, pool, second, 1, places);
  __syncthreads();
  load_tile<HD, THREADS, INT8>(w, pool.data, 0, places, stages);
  load_queries<HD, QUERIES>(w, a, stages);
  copy_async_wait();
  __syncthreads();
  uint32_t q[HD / 16][4];
  shared<bf16> row =
      stages +
      (layout::stage + (first_query + lane % 16) * layout::stride + lane / 16 * 8);
#pragma unroll
  for (int d = 0; d < HD / 16; d++)
    ldmatrix(q[d], row + d * 16);

  rows_of_warp r;
  r.first = w.sequence.context + w.item.first + first_query / w.group;
  r.oldest = lls_cuda_oldest(&a, w.sequence.context + w.item.first + w.item.n_rows - 1);
#pragma unroll
  for (int i = 0; i < 2; i++)
    r.position[i] =
        w.sequence.context + w.item.first + (first_query + lane / 4 + i * 8) / w.group;
  state<HD> st;
  begin_state(w, a, first_query, st);

  for (uint32_t tile = 0; tile < n_tiles; tile++) {
    cell_scales scales;
    if (INT8) /* the loads complete while the copies are waited for */
      scales = first_scales<HD, THREADS>(w, pool, tile, places);
    copy_async_wait();
    if (INT8)
      widen_tile<HD, THREADS>(w, pool, tile, places, scales, stages);
    /* the tile has arrived; the tile before and the queries are no longer read */
    __syncthreads();
    if (tile + 1 < n_tiles)
      load_tile<HD, THREADS, INT8>(w, pool.data, tile + 1, places, stages);
    if (tile + 2 < n_tiles)
      end_lookup<INT8>(w, pool, next, tile + 2, places);
    next = begin_lookup(w, tile + 3);
    shared<bf16> k = stages + tile % 2 * layout::stage;
    float s[N][4];
    scores<HD>(q, k, s);
    mask(w, a, r, w.item.begin + tile * TILE, s);
    weigh(s, st);
    add_values(s, k + layout::v, st);
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    st.sum[i] += __shfl_xor_sync(ALL_LANES, st.sum[i], 1);
    st.sum[i] += __shfl_xor_sync(ALL_LANES, st.sum[i], 2);
  }
  if (INT8) /* read again, since the loop has no registers to keep these values in */
    w = work_of(piece, pool, a);
  store_warp(w, a, states, first_query, st);
  if (w.item.part != LLS_CUDA_NO_PART && finish_part<whole_block>(w, a, finished))
    merge_parts<HD, whole_block>(w, a, states);
}

template <int HD, bool INT8>
__global__ void __launch_bounds__(LARGE_THREADS, 1)
    attend_large(const lls_cuda_step *step, const lls_cuda_plan *plan, lls_cuda_pool pool,
                 float *states, uint32_t *finished, lls_cuda_attention a)
{
  if (blockIdx.x < plan->n_large * a.kv_heads)
    attend<HD, INT8>({step, &plan->large, blockIdx.x}, pool, a, states, finished);
}

/* ---- launching --------------------------------------------------------------------- */

/* The parameters of a launch. */
struct attention_call {
  cudaStream_t stream;
  const lls_cuda_step *step;
  const lls_cuda_plan *plan;
  const lls_cuda_pool *pool;
  const lls_cuda_grid *grid;
  const lls_cuda_states *states;
  const lls_cuda_attention *a;
};

template <int HD, int T, bool INT8> static int run_decodes(const attention_call &c)
{
  return launch_early(c.stream, attend_decodes<HD, T, INT8>, c.grid->small,
                      DECODE_THREADS, decode_bytes<HD>(), c.step, c.plan, *c.pool,
                      c.states->states, c.states->finished, *c.a);
}

template <int HD, bool INT8> static int run(const attention_call &c)
{
  constexpr size_t bytes = shared_bytes<HD, INT8>();
  int rc = 0;
  if (c.grid->small > 0)
    rc = c.grid->queries <= 8 ? run_decodes<HD, 1, INT8>(c) : run_decodes<HD, 2, INT8>(c);
  if (rc != 0 || c.grid->large == 0)
    return rc;
  return lls_cuda_attention_hopper_fits(c.pool, c.grid, c.a)
             ? lls_cuda_run_attention_hopper(c.stream, c.step, c.plan, c.pool, c.grid,
                                             c.states, c.a)
             : launch(c.stream, attend_large<HD, INT8>, c.grid->large, LARGE_THREADS,
                      bytes, c.step, c.plan, *c.pool, c.states->states,
                      c.states->finished, *c.a);
}

template <bool INT8> static int run_any(const attention_call &c)
{
  switch (c.a->head_dim) {
  case 64:
    return run<64, INT8>(c);
  case 80:
    return run<80, INT8>(c);
  case 96:
    return run<96, INT8>(c);
  default:
    return run<128, INT8>(c);
  }
}

template <int HD, bool INT8> static int setup()
{
  int rc = allow_shared(attend_decodes<HD, 1, INT8>, decode_bytes<HD>());
  if (rc == 0)
    rc = allow_shared(attend_decodes<HD, 2, INT8>, decode_bytes<HD>());
  return rc != 0 ? rc : allow_shared(attend_large<HD, INT8>, shared_bytes<HD, INT8>());
}

/* Thread blocks of the decode kernel that a multiprocessor runs at once: the least over
 * all numbers of queries. */
template <int HD, bool INT8> static int at_once()
{
  int few = blocks_at_once(attend_decodes<HD, 1, INT8>, DECODE_THREADS,
                           decode_bytes<HD>(), DECODE_AT_ONCE);
  int many = blocks_at_once(attend_decodes<HD, 2, INT8>, DECODE_THREADS,
                            decode_bytes<HD>(), DECODE_AT_ONCE);
  return few < many ? few : many;
}

template <bool INT8> static int any_at_once(uint32_t head_dim)
{
  return head_dim == 64   ? at_once<64, INT8>()
         : head_dim == 80 ? at_once<80, INT8>()
         : head_dim == 96 ? at_once<96, INT8>()
                          : at_once<128, INT8>();
}

template <bool INT8> static int setup_all()
{
  int rc = setup<64, INT8>();
  rc = rc != 0 ? rc : setup<80, INT8>();
  rc = rc != 0 ? rc : setup<96, INT8>();
  return rc != 0 ? rc : setup<128, INT8>();
}

#endif
