/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention with tensor cores, decode and prefill by one kernel: some queries (rows x q
 * heads of a KV head) against some tokens, in tiles of 64 tokens that are copied to
 * shared memory while the tile before is computed. Online softmax as in FlashAttention-2
 * (Dao, 2023, algorithm 1); a context that is shared out among blocks leaves states that
 * merge_states puts together (flash-decoding).
 *
 * Two shapes. SMALL: 16 queries; the four warps take 16 tokens of the tile each and put
 * their states together in the end. A decode is bound by reading K and V once, and 16
 * rows are what mma has anyway. LARGE: 128 queries; the eight warps take 16 each and
 * share the tile's K and V.
 *
 * Rows in shared memory are head_dim + 8 numbers apart, an odd multiple of 16 bytes, so
 * that the eight rows of an ldmatrix lie in different banks.
 *
 * No line of this has run on a GPU yet; the emulator of t/simt has carried it out.
 */
#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/tensor.cuh"

#define TILE    LLS_CUDA_TILE
#define LOG2E   1.44269504f
#define NOTHING (-INFINITY)

/* What a block works on. */
struct work {
  lls_cuda_item item;
  lls_cuda_sequence sequence;
  kv_list k, v;
  uint32_t group, kv_head, n_queries;
};

template <int HD> struct tile_layout {
  static constexpr int stride = HD + 8;           /* numbers from token to token */
  static constexpr int pieces = HD / 8;           /* of 16 bytes of a token */
  static constexpr int stage = 2 * TILE * stride; /* numbers: K, then V */
  static constexpr int v = TILE * stride;
};

/* Two stages, then 64-bit places of the tokens of two tiles, K's and V's. */
template <int HD> constexpr size_t shared_bytes()
{
  return 2 * tile_layout<HD>::stage * sizeof(bf16) + 2 * 2 * TILE * sizeof(uint64_t);
}

/* ---- copies to shared memory --------------------------------------------------------
 */

/* One lookup a thread: places of tile number `tile`'s tokens. */
static __device__ __forceinline__ void look_up(const work &w, uint32_t tile,
                                               shared<uint64_t> places)
{
  for (unsigned i = threadIdx.x; i < 2 * TILE; i += blockDim.x) {
    uint32_t token = w.item.begin + tile * TILE + i % TILE;
    if (token < w.item.end)
      places[tile % 2 * 2 * TILE + i] = find_token(i < TILE ? w.k : w.v, token);
  }
}

/* Begins the copy of a tile; tokens past the item's end become zeros. */
template <int HD>
static __device__ __forceinline__ void load_tile(const work &w, const bf16 *pool,
                                                 uint32_t tile, shared<uint64_t> places,
                                                 shared<bf16> stages)
{
  typedef tile_layout<HD> layout;
  shared<bf16> to = stages + tile % 2 * layout::stage;
  for (unsigned i = threadIdx.x; i < 2 * TILE * layout::pieces; i += blockDim.x) {
    uint32_t index = i / layout::pieces, piece = i % layout::pieces * 8;
    bool there = w.item.begin + tile * TILE + index % TILE < w.item.end;
    const bf16 *from = pool;
    if (there)
      from += places[tile % 2 * 2 * TILE + index] + piece;
    copy_async(to + (index * layout::stride + piece), from, there);
  }
  copy_async_commit();
}

/* The queries, into the stage that tile 1 will have. */
template <int HD, int QUERIES>
static __device__ __forceinline__ void
load_queries(const work &w, const lls_cuda_attention &a, shared<bf16> stages)
{
  typedef tile_layout<HD> layout;
  size_t columns = (size_t)(a.heads + 2 * a.kv_heads) * HD;
  const bf16 *q = (const bf16 *)a.qkv + (w.sequence.first_row + w.item.first) * columns +
                  (size_t)w.kv_head * w.group * HD;
  for (unsigned i = threadIdx.x; i < QUERIES * layout::pieces; i += blockDim.x) {
    uint32_t query = i / layout::pieces, piece = i % layout::pieces * 8;
    bool there = query < w.n_queries;
    const bf16 *from = q;
    if (there)
      from += query / w.group * columns + query % w.group * HD + piece;
    copy_async(stages + (layout::stage + query * layout::stride + piece), from, there);
  }
  copy_async_commit();
}

/* ---- one warp, one tile -------------------------------------------------------------
 */

/* Rows g and g + 8 of 16 queries, over the tokens that the warp has seen. */
template <int HD> struct state {
  float values[HD / 8][4];
  float max[2], sum[2]; /* sum: this lane's columns only */
};

struct rows { /* this lane's two */
  uint32_t position[2];
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

static __device__ __forceinline__ bool visible(uint32_t token, uint32_t position,
                                               uint32_t end, uint32_t window)
{
  return token <= position && token < end && (window == 0 || token + window > position);
}

/* Scales to log2 e and hides what is not to be seen. */
template <int N>
static __device__ __forceinline__ void mask(const work &w, const lls_cuda_attention &a,
                                            const rows &r, uint32_t first,
                                            float (&s)[N][4])
{
  uint32_t token = first + threadIdx.x % 4 * 2;
  float scale = a.scale * LOG2E;
#pragma unroll
  for (int n = 0; n < N; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      bool seen = visible(token + n * 8 + i % 2, r.position[i / 2], w.item.end, a.window);
      s[n][i] = seen ? s[n][i] * scale : NOTHING;
    }
  }
}

/* Turns scores into weights and moves the state to the new maximum. */
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
    float base = max == NOTHING ? 0 : max; /* nothing seen yet: all weights are 0 */
    float decay = exp2f(st.max[row] - base);
    st.max[row] = max;
    st.sum[row] *= decay;
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
      for (int i = 2 * row; i < 2 * row + 2; i++) {
        s[n][i] = exp2f(s[n][i] - base);
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

/* Adds weights x V: the scores' registers are those of an A fragment already. */
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

/* ---- results ------------------------------------------------------------------------
 */

/* Two neighbouring numbers of a query's result or state. */
template <int HD>
static __device__ __forceinline__ void
store_pair(const work &w, const lls_cuda_attention &a, float *states, uint32_t query,
           uint32_t d, float x, float y, float sum)
{
  if (w.item.part == LLS_CUDA_NO_PART) {
    size_t row = w.sequence.first_row + w.item.first + query / w.group;
    size_t head = w.kv_head * w.group + query % w.group;
    uint32_t *out = (uint32_t *)a.out + ((row * a.heads + head) * HD + d) / 2;
    *out = pack_bf16(x / sum, y / sum);
    return;
  }
  size_t index = (size_t)(w.item.part + query / 16) * a.kv_heads + w.kv_head;
  float *values = states + index * LLS_CUDA_STATE_FLOATS(HD) + query % 16 * HD + d;
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
  size_t index = (size_t)(w.item.part + query / 16) * a.kv_heads + w.kv_head;
  float *state = states + index * LLS_CUDA_STATE_FLOATS(HD) + 16 * HD + query % 16;
  state[0] = max;
  state[16] = sum;
}

/* A warp's state is its queries' whole. */
template <int HD>
static __device__ __forceinline__ void
store_warp(const work &w, const lls_cuda_attention &a, float *states, const state<HD> &st)
{
  unsigned lane = threadIdx.x % WARP;
#pragma unroll
  for (int row = 0; row < 2; row++) {
    uint32_t query = threadIdx.x / WARP * 16 + lane / 4 + row * 8;
    if (query >= w.n_queries)
      continue;
    if (lane % 4 == 0)
      store_scale<HD>(w, a, states, query, st.max[row], st.sum[row]);
#pragma unroll
    for (int n = 0; n < HD / 8; n++)
      store_pair<HD>(w, a, states, query, n * 8 + lane % 4 * 2, st.values[n][2 * row],
                     st.values[n][2 * row + 1], st.sum[row]);
  }
}

/* Four warps have the same queries over different tokens; room (4, 16, HD + 2). */
template <int HD>
static __device__ __forceinline__ void
store_merged(const work &w, const lls_cuda_attention &a, float *states,
             const state<HD> &st, shared<float> room)
{
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  constexpr unsigned width = HD + 2; /* values, max, sum */
#pragma unroll
  for (int row = 0; row < 2; row++) {
    shared<float> to = room + (warp * 16 + lane / 4 + row * 8) * width;
    if (lane % 4 == 0) {
      to[HD] = st.max[row];
      to[HD + 1] = st.sum[row];
    }
#pragma unroll
    for (int n = 0; n < HD / 8; n++) {
      to[n * 8 + lane % 4 * 2] = st.values[n][2 * row];
      to[n * 8 + lane % 4 * 2 + 1] = st.values[n][2 * row + 1];
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < w.n_queries * (HD / 2); i += blockDim.x) {
    uint32_t query = i / (HD / 2), d = i % (HD / 2) * 2;
    float max = NOTHING, sum = 0, x = 0, y = 0;
    for (unsigned k = 0; k < 4; k++)
      max = fmaxf(max, room[(k * 16 + query) * width + HD]);
    for (unsigned k = 0; k < 4; k++) {
      shared<float> from = room + (k * 16 + query) * width;
      float part = from[HD], factor = part == NOTHING ? 0 : exp2f(part - max);
      sum += factor * from[HD + 1];
      x += factor * from[d];
      y += factor * from[d + 1];
    }
    store_pair<HD>(w, a, states, query, d, x, y, sum);
    if (d == 0)
      store_scale<HD>(w, a, states, query, max, sum);
  }
}

/* ---- the kernel ---------------------------------------------------------------------
 */

static __device__ __forceinline__ work work_of(const lls_cuda_item &item,
                                               const lls_cuda_step *step,
                                               const lls_cuda_pool &pool,
                                               const lls_cuda_attention &a)
{
  work w;
  w.item = item;
  w.kv_head = blockIdx.y;
  w.group = a.heads / a.kv_heads;
  w.n_queries = item.n_rows * w.group;
  w.sequence = step->sequences[item.sequence];
  w.k = k_list(step, w.sequence, pool, a.layer, w.kv_head);
  w.v = v_list(step, w.sequence, pool, a.layer, w.kv_head);
  return w;
}

/* SPLIT: warps take tokens of a tile (SMALL), else queries (LARGE). */
template <int HD, bool SPLIT>
static __device__ __forceinline__ void attend(const work &w, const lls_cuda_pool &pool,
                                              const lls_cuda_attention &a, float *states)
{
  typedef tile_layout<HD> layout;
  constexpr int N = SPLIT ? 2 : TILE / 8; /* the warp's tokens, by 8 */
  constexpr int QUERIES = SPLIT ? LLS_CUDA_SMALL : LLS_CUDA_LARGE;
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  unsigned first_query = SPLIT ? 0 : warp * 16, first_token = SPLIT ? warp * 16 : 0;
  shared<bf16> stages = dynamic_shared<bf16>();
  shared<uint64_t> places = shared_cast<uint64_t>(stages + 2 * layout::stage);
  uint32_t n_tiles = (w.item.end - w.item.begin + TILE - 1) / TILE;

  look_up(w, 0, places);
  __syncthreads();
  load_tile<HD>(w, (const bf16 *)pool.data, 0, places, stages);
  load_queries<HD, QUERIES>(w, a, stages);
  if (n_tiles > 1)
    look_up(w, 1, places);
  copy_async_wait();
  __syncthreads();
  uint32_t q[HD / 16][4];
  shared<bf16> row =
      stages +
      (layout::stage + (first_query + lane % 16) * layout::stride + lane / 16 * 8);
#pragma unroll
  for (int d = 0; d < HD / 16; d++)
    ldmatrix(q[d], row + d * 16);

  rows r;
  state<HD> st;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    r.position[i] =
        w.sequence.context + w.item.first + (first_query + lane / 4 + i * 8) / w.group;
    st.max[i] = NOTHING;
    st.sum[i] = 0;
  }
#pragma unroll
  for (int n = 0; n < HD / 8; n++)
    st.values[n][0] = st.values[n][1] = st.values[n][2] = st.values[n][3] = 0;

  for (uint32_t tile = 0; tile < n_tiles; tile++) {
    copy_async_wait();
    __syncthreads(); /* the tile is there, the one before and the queries are done with */
    if (tile + 1 < n_tiles)
      load_tile<HD>(w, (const bf16 *)pool.data, tile + 1, places, stages);
    if (tile + 2 < n_tiles)
      look_up(w, tile + 2, places);
    shared<bf16> k = stages + (tile % 2 * layout::stage + first_token * layout::stride);
    float s[N][4];
    scores<HD>(q, k, s);
    mask(w, a, r, w.item.begin + tile * TILE + first_token, s);
    weigh(s, st);
    add_values(s, k + layout::v, st);
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    st.sum[i] += __shfl_xor_sync(ALL_LANES, st.sum[i], 1);
    st.sum[i] += __shfl_xor_sync(ALL_LANES, st.sum[i], 2);
  }
  if (!SPLIT) {
    store_warp(w, a, states, st);
    return;
  }
  __syncthreads(); /* the stages are done with */
  store_merged(w, a, states, st, shared_cast<float>(stages));
}

template <int HD>
__global__ void __launch_bounds__(4 * WARP, 3)
    attend_small(const lls_cuda_step *step, const lls_cuda_plan *plan, lls_cuda_pool pool,
                 float *states, lls_cuda_attention a)
{
  if (blockIdx.x < plan->n_small)
    attend<HD, true>(work_of(plan->small[blockIdx.x], step, pool, a), pool, a, states);
}

template <int HD>
__global__ void __launch_bounds__(8 * WARP, 1)
    attend_large(const lls_cuda_step *step, const lls_cuda_plan *plan, lls_cuda_pool pool,
                 float *states, lls_cuda_attention a)
{
  if (blockIdx.x < plan->n_large)
    attend<HD, false>(work_of(plan->large[blockIdx.x], step, pool, a), pool, a, states);
}

/* A block a merge and KV head; in the order of tokens, so the same every time. */
__global__ void merge_states(const lls_cuda_plan *plan, const float *states,
                             lls_cuda_attention a)
{
  if (blockIdx.x >= plan->n_merges)
    return;
  const lls_cuda_merge g = plan->merges[blockIdx.x];
  uint32_t hd = a.head_dim, group = a.heads / a.kv_heads, kv_head = blockIdx.y;
  size_t floats = LLS_CUDA_STATE_FLOATS(hd),
         step = (size_t)g.stride * a.kv_heads * floats;
  const float *first = states + ((size_t)g.part * a.kv_heads + kv_head) * floats;
  for (unsigned i = threadIdx.x; i < g.n_queries * hd; i += blockDim.x) {
    uint32_t query = i / hd, d = i % hd;
    const float *s = first, *scale = first + 16 * hd + query;
    float max = NOTHING, sum = 0, value = 0;
    for (uint32_t k = 0; k < g.n_parts; k++, s += step, scale += step) {
      float later = fmaxf(max, scale[0]), base = later == NOTHING ? 0 : later;
      float decay = exp2f(max - base), factor = exp2f(scale[0] - base);
      value = value * decay + factor * s[i];
      sum = sum * decay + factor * scale[16];
      max = later;
    }
    uint32_t index = g.first_query + query;
    size_t row = g.first_row + index / group, head = kv_head * group + index % group;
    ((bf16 *)a.out)[(row * a.heads + head) * hd + d] = from_float<bf16>(value / sum);
  }
}

/* ---- launching ----------------------------------------------------------------------
 */

template <int HD>
static int run(cudaStream_t s, const lls_cuda_step *step, const lls_cuda_plan *plan,
               const lls_cuda_pool &pool, const lls_cuda_grid &grid, float *states,
               const lls_cuda_attention &a)
{
  int rc = 0;
  if (grid.small > 0)
    rc = launch(s, attend_small<HD>, dim3(grid.small, a.kv_heads), 4 * WARP,
                shared_bytes<HD>(), step, plan, pool, states, a);
  if (rc == 0 && grid.large > 0)
    rc = launch(s, attend_large<HD>, dim3(grid.large, a.kv_heads), 8 * WARP,
                shared_bytes<HD>(), step, plan, pool, states, a);
  if (rc == 0 && grid.merges > 0)
    rc = launch(s, merge_states, dim3(grid.merges, a.kv_heads), 4 * WARP, 0, plan,
                (const float *)states, a);
  return rc;
}

template <int HD> static int setup()
{
  int rc = allow_shared(attend_small<HD>, shared_bytes<HD>());
  return rc != 0 ? rc : allow_shared(attend_large<HD>, shared_bytes<HD>());
}

extern "C" bool lls_cuda_attention_fits(enum lls_dtype numbers,
                                        const struct lls_cuda_pool *pool,
                                        const struct lls_cuda_attention *a)
{
  bool size =
      a->head_dim == 64 || a->head_dim == 80 || a->head_dim == 96 || a->head_dim == 128;
  return numbers == LLS_BF16 && pool->element == LLS_BF16 && size &&
         a->heads / a->kv_heads <= LLS_CUDA_LARGE;
}

extern "C" int lls_cuda_attention_setup(void)
{
  int rc = setup<64>();
  rc = rc != 0 ? rc : setup<80>();
  rc = rc != 0 ? rc : setup<96>();
  return rc != 0 ? rc : setup<128>();
}

extern "C" int lls_cuda_run_attention(cudaStream_t s, const struct lls_cuda_step *step,
                                      const struct lls_cuda_plan *plan,
                                      const struct lls_cuda_pool *pool,
                                      const struct lls_cuda_grid *grid, float *states,
                                      const struct lls_cuda_attention *a)
{
  switch (a->head_dim) {
  case 64:
    return run<64>(s, step, plan, *pool, *grid, states, *a);
  case 80:
    return run<80>(s, step, plan, *pool, *grid, states, *a);
  case 96:
    return run<96>(s, step, plan, *pool, *grid, states, *a);
  default:
    return run<128>(s, step, plan, *pool, *grid, states, *a);
  }
}
