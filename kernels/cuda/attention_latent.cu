/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention to latents (DeepSeek-V2, arXiv 2405.04434, section 2.1, absorbed) with tensor
 * cores, for decodes and prompts alike: up to 64 queries, heads of one row or of a few,
 * against some tokens, in tiles of 32 whose copies arrive while the tile before is
 * computed. K has HD numbers, of which the first RANK are V, so that a tile is read once
 * for both. Online softmax as in FlashAttention-2 (Dao, 2023, algorithm 1).
 *
 * Eight warps: four have 16 queries each, and twice as many share their scores and the
 * numbers of their result. The two warps of 16 queries compute the scores of 16 tokens
 * each, show each other their largest scores and their weights in shared memory, and add
 * the weights times one half of V each: 16 x 256 sums of a result of 512 are 128
 * registers of a lane.
 *
 * For t tokens and n queries it reads 2 t HD bytes, of 128 heads twice as many from L2,
 * and takes 2 n t (HD + RANK) operations: 64 queries of DeepSeek-V3's 576 and 512 numbers
 * take 121 operations for each byte. Shared memory is 155 KiB, which an A100 has, too.
 * Ahead of the warps' 68 mma for a tile are 34 KiB of ldmatrix; that bounds a
 * multiprocessor to about half of the speed of mma.sync. wgmma would double that on
 * Hopper.
 */
#include "kernels/cuda/attention_store.cuh"
#include "kernels/cuda/extras.h"

#define QUERIES LLS_CUDA_LATENT_QUERIES /* of a block */
#define TOKENS  32                      /* of a tile */
#define THREADS 256
#define GROUPS  (QUERIES / 16) /* of 16 queries */

template <int HD, int RANK> struct latent {
  static constexpr int stride = HD + 8;        /* from token to token, query to query */
  static constexpr int tile = TOKENS * stride; /* elements */
  static constexpr int cells = HD / CELL;
  static constexpr int mine = RANK / 2;      /* numbers of a result that a warp has */
  static constexpr int weights = TOKENS + 8; /* from query to query */
  static constexpr size_t floats = LLS_CUDA_STATE_FLOATS(RANK);
  /* queries, two tiles, weights; then places of two tiles, and scores of two halves */
  static constexpr int elements = QUERIES * stride + 2 * tile + QUERIES * weights;
  static constexpr size_t bytes = elements * sizeof(bf16) +
                                  2 * TOKENS * sizeof(uint64_t) +
                                  2 * QUERIES * sizeof(float);
};

/* A block's part of an item: its queries, and where their states lie. */
struct share_of_item {
  lls_cuda_item item;
  lls_cuda_sequence sequence;
  kv_list list;
  uint32_t first, n; /* queries */
  uint32_t heads;
};

struct memory {
  shared<bf16> queries, tiles, weights;
  shared<uint64_t> places; /* (2, TOKENS) elements from the pool's beginning */
  shared<float> room;      /* (2, QUERIES) */
};

template <int HD, int RANK> static __device__ __forceinline__ memory memory_of()
{
  typedef latent<HD, RANK> l;
  shared<bf16> all = dynamic_shared<bf16>();
  memory m;
  m.queries = all;
  m.tiles = all + QUERIES * l::stride;
  m.weights = m.tiles + 2 * l::tile;
  m.places = shared_cast<uint64_t>(all + l::elements);
  m.room = shared_cast<float>(m.places + 2 * TOKENS);
  return m;
}

/* ---- copies ------------------------------------------------------------------------ */

/* Looks up one token a thread; those past the item's end are not copied. */
static __device__ __forceinline__ uint64_t look_up(const share_of_item &w, uint32_t tile)
{
  uint32_t token = w.item.begin + tile * TOKENS + threadIdx.x;
  token = token > w.list.begin ? token : w.list.begin;
  return threadIdx.x < TOKENS && token < w.item.end ? find_token(w.list, token) : 0;
}

static __device__ __forceinline__ void keep(const memory &m, uint32_t tile, uint64_t at)
{
  if (threadIdx.x < TOKENS)
    m.places[tile % 2 * TOKENS + threadIdx.x] = at;
}

template <int HD, int RANK>
static __device__ __forceinline__ void load_tile(const share_of_item &w, const memory &m,
                                                 const void *pool, uint32_t tile)
{
  typedef latent<HD, RANK> l;
  shared<bf16> to = m.tiles + tile % 2 * l::tile;
  for (unsigned i = threadIdx.x; i < TOKENS * l::cells; i += THREADS) {
    unsigned row = i / l::cells, cell = i % l::cells * CELL;
    bool there = w.item.begin + tile * TOKENS + row < w.item.end;
    uint64_t at = there ? (uint64_t)m.places[tile % 2 * TOKENS + row] + cell : 0;
    copy_async(to + (row * l::stride + cell), (const bf16 *)pool + at, there);
  }
  copy_async_commit();
}

template <int HD, int RANK>
static __device__ __forceinline__ void
load_queries(const share_of_item &w, const lls_cuda_attention &a, const memory &m)
{
  typedef latent<HD, RANK> l;
  size_t row = w.sequence.first_row + w.item.first;
  for (unsigned i = threadIdx.x; i < QUERIES * l::cells; i += THREADS) {
    uint32_t query = i / l::cells, cell = i % l::cells * CELL;
    bool there = query < w.n;
    uint32_t of = w.first + (there ? query : 0);
    const bf16 *from = (const bf16 *)a.qkv + (row + of / w.heads) * a.columns +
                       (size_t)(of % w.heads) * HD + cell;
    copy_async(m.queries + (query * l::stride + cell), from, there);
  }
  copy_async_commit();
}

/* ---- one warp, one tile ------------------------------------------------------------ */

/* The state of 16 queries: all of it but the values, of which a warp has one half. */
template <int RANK> struct result {
  float values[RANK / 16][4]; /* rows g and g + 8, 8 numbers each */
  float max[2], sum[2];       /* sum: of this lane's columns of its own tokens */
  uint32_t position[2], oldest[2];
};

/* Multiplies 16 queries by 16 tokens. */
template <int HD>
static __device__ __forceinline__ void score(shared<bf16> queries, shared<bf16> tokens,
                                             float (&s)[2][4])
{
  constexpr int stride = HD + 8;
  unsigned lane = threadIdx.x % WARP;
  shared<bf16> q = queries + (lane % 16 * stride + lane / 16 * 8);
  shared<bf16> k = tokens + ((lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8);
#pragma unroll 4
  for (int d = 0; d < HD / 16; d++) {
    uint32_t x[4], b[4];
    ldmatrix(x, q + d * 16);
    ldmatrix(b, k + d * 16);
    mma(s[0], x, b[0], b[1]);
    mma(s[1], x, b[2], b[3]);
  }
}

/* Scales scores of tokens from `first` on, and sets those that are not seen to NOTHING.
 */
template <int RANK>
static __device__ __forceinline__ void
mask(const share_of_item &w, const lls_cuda_attention &a, const result<RANK> &r,
     uint32_t first, float (&s)[2][4])
{
  uint32_t token = first + threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < 2; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      uint32_t here = token + n * 8 + i % 2;
      bool seen =
          here <= r.position[i / 2] && here >= r.oldest[i / 2] && here < w.item.end;
      s[n][i] = seen ? s[n][i] * (a.scale * LOG2E) : NOTHING;
    }
  }
}

/* Returns the largest score of row g + 8 i among the warp's own tokens. */
static __device__ __forceinline__ float largest(const float (&s)[2][4], int i)
{
  float max =
      fmaxf(fmaxf(s[0][2 * i], s[0][2 * i + 1]), fmaxf(s[1][2 * i], s[1][2 * i + 1]));
  max = fmaxf(max, __shfl_xor_sync(ALL_LANES, max, 1));
  return fmaxf(max, __shfl_xor_sync(ALL_LANES, max, 2));
}

/* Turns scores into weights, which it shows to both warps, and decays the result to the
 * new maximum, which `room` has of either half of the tokens. */
template <int HD, int RANK>
static __device__ __forceinline__ void weigh(const memory &m, const float (&s)[2][4],
                                             unsigned group, unsigned half,
                                             result<RANK> &r)
{
  unsigned lane = threadIdx.x % WARP;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    unsigned query = group * 16 + i * 8 + lane / 4;
    float max = fmaxf(r.max[i], fmaxf(m.room[query], m.room[QUERIES + query]));
    float base = max == NOTHING ? 0 : max; /* no token seen yet: all weights are 0 */
    float decay = fast_exp2(r.max[i] - base);
    r.max[i] = max;
    r.sum[i] *= decay;
    shared<uint32_t> to = shared_cast<uint32_t>(
        m.weights + (query * latent<HD, RANK>::weights + half * 16 + lane % 4 * 2));
#pragma unroll
    for (int n = 0; n < 2; n++) {
      float x = fast_exp2(s[n][2 * i] - base), y = fast_exp2(s[n][2 * i + 1] - base);
      r.sum[i] += x + y;
      to[n * 4] = pack_bf16(x, y);
    }
#pragma unroll
    for (int n = 0; n < RANK / 16; n++) {
      r.values[n][2 * i] *= decay;
      r.values[n][2 * i + 1] *= decay;
    }
  }
}

/* Adds weights times the warp's half of V. */
template <int HD, int RANK>
static __device__ __forceinline__ void add_values(shared<bf16> weights, shared<bf16> v,
                                                  result<RANK> &r)
{
  typedef latent<HD, RANK> l;
  unsigned lane = threadIdx.x % WARP;
  shared<bf16> from = weights + (lane % 16 * l::weights + lane / 16 * 8);
  shared<bf16> row = v + ((lane / 8 % 2 * 8 + lane % 8) * l::stride + lane / 16 * 8);
#pragma unroll
  for (int k = 0; k < TOKENS / 16; k++) {
    uint32_t x[4];
    ldmatrix(x, from + k * 16);
#pragma unroll
    for (int d = 0; d < l::mine / 16; d++) {
      uint32_t b[4];
      ldmatrix_trans(b, row + (k * 16 * l::stride + d * 16));
      mma(r.values[2 * d], x, b[0], b[1]);
      mma(r.values[2 * d + 1], x, b[2], b[3]);
    }
  }
}

/* ---- results ----------------------------------------------------------------------- */

template <int HD>
static __device__ __forceinline__ uint32_t *
output_at(const share_of_item &w, const lls_cuda_attention &a, uint32_t query)
{
  uint32_t of = w.first + query;
  size_t row = w.sequence.first_row + w.item.first + of / w.heads;
  return (uint32_t *)a.out + (row * a.heads + of % w.heads) * (HD / 2);
}

/* Writes a warp's half of a result, or of a state. */
template <int HD, int RANK>
static __device__ __forceinline__ void
store(const share_of_item &w, const lls_cuda_attention &a, float *states, unsigned group,
      unsigned half, const result<RANK> &r, const float (&sum)[2])
{
  typedef latent<HD, RANK> l;
  unsigned lane = threadIdx.x % WARP;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    uint32_t query = group * 16 + i * 8 + lane / 4, d = half * l::mine + lane % 4 * 2;
    if (query >= w.n)
      continue;
    if (w.item.part == LLS_CUDA_NO_PART) {
      float inverse = 1 / sum[i];
      uint32_t *out = output_at<HD>(w, a, query) + d / 2;
#pragma unroll
      for (int n = 0; n < l::mine / 8; n++)
        out[n * 4] =
            pack_bf16(r.values[n][2 * i] * inverse, r.values[n][2 * i + 1] * inverse);
      continue;
    }
    float *state = states + (w.item.part + (w.first + query) / 16) * l::floats;
    if (half == 0 && lane % 4 == 0) {
      state[16 * RANK + query % 16] = r.max[i];
      state[16 * RANK + 16 + query % 16] = sum[i];
    }
    state += query % 16 * RANK + d;
#pragma unroll
    for (int n = 0; n < l::mine / 8; n++)
      *(several<float, 2> *)(state + n * 8) = {r.values[n][2 * i],
                                               r.values[n][2 * i + 1]};
  }
}

/* Combines the parts of the block's queries; each thread has four numbers of one. */
template <int HD, int RANK>
static __device__ __forceinline__ void
merge(const share_of_item &w, const lls_cuda_attention &a, const float *states)
{
  typedef latent<HD, RANK> l;
  size_t step = (w.item.n_rows * w.heads + 15) / 16 * l::floats;
  for (unsigned i = threadIdx.x; i < w.n * (RANK / 4); i += THREADS) {
    uint32_t query = i / (RANK / 4), d = i % (RANK / 4) * 4;
    const float *first =
        states + (w.item.first_part + (w.first + query) / 16) * l::floats;
    const float *scale = first + 16 * RANK + query % 16;
    float max = NOTHING, sum = 0, x[4] = {0, 0, 0, 0};
    for (uint32_t k = 0; k < w.item.n_parts; k++)
      max = fmaxf(max, load_written_one(scale + k * step));
#pragma unroll 4
    for (uint32_t k = 0; k < w.item.n_parts; k++) {
      float part = load_written_one(scale + k * step);
      float factor = part == NOTHING ? 0 : fast_exp2(part - max);
      several<float, 4> value = load_written(first + k * step + query % 16 * RANK + d);
      sum += factor * load_written_one(scale + k * step + 16);
#pragma unroll
      for (int c = 0; c < 4; c++)
        x[c] += factor * value.v[c];
    }
    uint32_t *out = output_at<HD>(w, a, query) + d / 2;
    out[0] = pack_bf16(x[0] / sum, x[1] / sum);
    out[1] = pack_bf16(x[2] / sum, x[3] / sum);
  }
}

/* ---- the kernel -------------------------------------------------------------------- */

/* Items of more heads than QUERIES are the work of two blocks. */
static __host__ __device__ __forceinline__ uint32_t blocks_of(const lls_cuda_attention &a)
{
  return a.heads > QUERIES ? 2 : 1;
}

template <int RANK>
static __device__ __forceinline__ void begin(const share_of_item &w,
                                             const lls_cuda_attention &a, unsigned group,
                                             result<RANK> &r)
{
  unsigned lane = threadIdx.x % WARP;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    uint32_t query = w.first + group * 16 + i * 8 + lane / 4;
    r.position[i] = w.sequence.context + w.item.first + query / w.heads;
    r.oldest[i] = lls_cuda_oldest(&a, r.position[i]);
    r.max[i] = NOTHING;
    r.sum[i] = 0;
  }
#pragma unroll
  for (int n = 0; n < RANK / 16; n++)
    r.values[n][0] = r.values[n][1] = r.values[n][2] = r.values[n][3] = 0;
}

/* Processes all tiles of an item. */
template <int HD, int RANK>
static __device__ __forceinline__ void
attend_tiles(const share_of_item &w, const lls_cuda_pool &pool,
             const lls_cuda_attention &a, const memory &m, result<RANK> &r)
{
  typedef latent<HD, RANK> l;
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  unsigned group = warp % GROUPS, half = warp / GROUPS;
  uint32_t n_tiles = (w.item.end - w.item.begin + TOKENS - 1) / TOKENS;
  for (uint32_t tile = 0; tile < n_tiles; tile++) {
    shared<bf16> here = m.tiles + tile % 2 * l::tile;
    float s[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    copy_async_wait();
    __syncthreads(); /* the tile has arrived; the one before is no longer read */
    if (tile + 1 < n_tiles)
      load_tile<HD, RANK>(w, m, pool.data, tile + 1);
    uint64_t next = look_up(w, tile + 2);
    score<HD>(m.queries + group * 16 * l::stride, here + half * 16 * l::stride, s);
    mask<RANK>(w, a, r, w.item.begin + tile * TOKENS + half * 16, s);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      float max = largest(s, i);
      if (lane % 4 == 0)
        m.room[half * QUERIES + group * 16 + i * 8 + lane / 4] = max;
    }
    __syncthreads();
    keep(m, tile + 2, next);
    weigh<HD, RANK>(m, s, group, half, r);
    __syncthreads();
    add_values<HD, RANK>(m.weights + group * 16 * l::weights, here + half * l::mine, r);
  }
}

template <int HD, int RANK>
__global__ void __launch_bounds__(THREADS, 1)
    attend_latent(const lls_cuda_step *step, const lls_cuda_plan *plan,
                  lls_cuda_pool pool, float *states, uint32_t *finished,
                  lls_cuda_attention a)
{
  uint32_t blocks = blocks_of(a), number = blockIdx.x / blocks;
  if (number >= plan->n_large)
    return;
  share_of_item w;
  w.item = plan->large[number];
  w.sequence = step->sequences[w.item.sequence];
  w.list = k_list(step, w.sequence, pool, a.layer, 0);
  w.heads = a.heads;
  w.first = blockIdx.x % blocks * QUERIES;
  w.n = w.item.n_rows * w.heads - w.first;
  w.n = w.n < QUERIES ? w.n : QUERIES;
  const memory m = memory_of<HD, RANK>();
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  unsigned group = warp % GROUPS, half = warp / GROUPS;
  keep(m, 0, look_up(w, 0));
  keep(m, 1, look_up(w, 1));
  __syncthreads();
  load_queries<HD, RANK>(w, a, m);
  load_tile<HD, RANK>(w, m, pool.data, 0);
  result<RANK> r;
  begin<RANK>(w, a, group, r);
  attend_tiles<HD, RANK>(w, pool, a, m, r);
  float sum[2];
  __syncthreads(); /* the room's scores have been read */
#pragma unroll
  for (int i = 0; i < 2; i++) {
    sum[i] = r.sum[i] + __shfl_xor_sync(ALL_LANES, r.sum[i], 1);
    sum[i] += __shfl_xor_sync(ALL_LANES, sum[i], 2);
    if (lane % 4 == 0)
      m.room[half * QUERIES + group * 16 + i * 8 + lane / 4] = sum[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; i++) {
    unsigned query = group * 16 + i * 8 + lane / 4;
    sum[i] = m.room[query] + m.room[QUERIES + query];
  }
  store<HD, RANK>(w, a, states, group, half, r, sum);
  if (w.item.part == LLS_CUDA_NO_PART)
    return;
  uint32_t *count = finished + w.item.first_part + w.first / 16;
  if (is_last<whole_block>(count, w.item.n_parts))
    merge<HD, RANK>(w, a, states);
}

/* ---- launching --------------------------------------------------------------------- */

#define FOR_LATENTS(name) name(576, 512) name(320, 256) name(288, 256)

extern "C" bool lls_cuda_attention_latent_fits(enum lls_dtype numbers,
                                               const struct lls_cuda_pool *pool,
                                               const struct lls_cuda_attention *a)
{
  bool size = false;
#define IS_SIZE(HD, RANK) size = size || (a->head_dim == (HD) && a->rank == (RANK));
  FOR_LATENTS(IS_SIZE)
  return size && numbers == LLS_BF16 && pool->element == LLS_BF16 && pool->int8 == 0 &&
         a->kv_heads == 1 && a->heads <= 2 * QUERIES && a->soft_cap == 0 &&
         a->sinks == NULL && a->slopes == NULL;
}

extern "C" int lls_cuda_attention_latent_setup(void)
{
  int rc = 0;
#define SET_UP(HD, RANK)                                                                 \
  if (rc == 0)                                                                           \
    rc = allow_shared(attend_latent<HD, RANK>, latent<HD, RANK>::bytes);
  FOR_LATENTS(SET_UP)
  return rc;
}

extern "C" int lls_cuda_run_attention_latent(
    cudaStream_t s, const struct lls_cuda_step *step, const struct lls_cuda_plan *plan,
    const struct lls_cuda_pool *pool, const struct lls_cuda_grid *grid,
    const struct lls_cuda_states *states, const struct lls_cuda_attention *a)
{
  uint32_t blocks = grid->large * blocks_of(*a);
  if (blocks == 0)
    return 0;
#define RUN(HD, RANK)                                                                    \
  if (a->head_dim == (HD))                                                               \
    return launch(s, attend_latent<HD, RANK>, dim3(blocks), THREADS,                     \
                  latent<HD, RANK>::bytes, step, plan, *pool, states->states,            \
                  states->finished, *a);
  FOR_LATENTS(RUN)
  return cudaErrorInvalidValue;
}
