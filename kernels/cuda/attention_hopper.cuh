/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of prompts on Hopper: large items of a plan, 128 queries of a KV head against
 * tiles of 128 tokens, in the structure of FlashAttention-3 (Shah et al., 2024): a
 * warpgroup of producers copies K, V and queries to shared memory; two consumer
 * warpgroups have 64 queries each, whose scores, weights and sums stay in registers. A
 * consumer computes the weights of a tile while the product of the previous weights
 * with their V runs (section 3.2 there). Letting the two consumers alternate in issuing
 * products (3.1) gained nothing on an H200: .47 and .60 of the matrix peak at 4,096 and
 * 16,384 tokens with it, .47 and .62 without.
 *
 * One block a multiprocessor processes (item, KV head) pairs one after the other, and
 * the producers run ahead, across items too: a prompt of 4096 tokens has items of 16
 * tiles on average, so the time to begin and end an item matters. Queries have two
 * slots and come with a work order (struct order), so consumers neither wait for the
 * copy of the next item's queries nor look the item up in dependent reads.
 *
 * Two producer warps copy K, the other two queries and V, half a matrix each. A copy is
 * 16 bytes a thread. Each lane finds the addresses of two of the warp's 64 rows and
 * shares them with the other lanes, so the order of blocks in a list does not matter.
 *
 * Copies write shared memory and products read it through different proxies of PTX's
 * memory model. So a producer waits for its copies, executes a fence, then signals the
 * consumers.
 */
#ifndef LLS_CUDA_ATTENTION_HOPPER_CUH
#define LLS_CUDA_ATTENTION_HOPPER_CUH

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/hopper.cuh"

constexpr int ROWS = 128;   /* rows of a matrix: queries, or a tile's tokens */
constexpr int COLUMNS = 64; /* columns of one part of a matrix */
/* rows that a producer warp copies, or a consumer multiplies */
constexpr int SHARE = ROWS / 2;
constexpr int STAGES = 2, QUERY_STAGES = 2;
constexpr int CONSUMERS = 2;
constexpr int CONSUMER_WARPS = CONSUMERS * WARPGROUP / WARP;
constexpr int HOPPER_THREADS = (1 + CONSUMERS) * WARPGROUP;
/* Each thread begins with 168 of 65,536 registers; 40 + 2 x 232 equals three times
 * 168. */
constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;

static_assert(ROWS == LLS_CUDA_LARGE, "an item's queries are a matrix");

/* The id of the consumers' barrier; 0 is __syncthreads. */
constexpr unsigned CONSUMERS_MEET = 1;

/* A ring of matrices that producers fill and consumers read, one after the other. */
template <int N> struct matrix_ring {
  shared<bf16> matrices;
  /* (2 N) one for filling each matrix, then one for reading each */
  shared<mbarrier> barriers;
  uint32_t number; /* number of the next matrix */
};

template <int HD> struct matrices {
  static constexpr int size = ROWS * HD; /* elements */
  static constexpr size_t bytes =
      (QUERY_STAGES + 2 * STAGES) * size * sizeof(bf16) + 1024;
};

template <int HD, int N>
static __device__ __forceinline__ shared<bf16> matrix_of(const matrix_ring<N> &r)
{
  return r.matrices + r.number % N * matrices<HD>::size;
}

template <int N>
static __device__ __forceinline__ void begin_filling(const matrix_ring<N> &r)
{
  mbarrier_wait(r.barriers + (N + r.number % N), r.number / N - 1);
  __syncwarp();
}

/* Signals that a matrix is filled, after all copies of this thread have arrived. */
template <int N> static __device__ __forceinline__ void end_filling(matrix_ring<N> &r)
{
  copy_async_commit();
  copy_async_wait();
  products_fence();
  mbarrier_arrive(r.barriers + r.number % N);
  r.number++;
}

template <int N>
static __device__ __forceinline__ void begin_reading(const matrix_ring<N> &r)
{
  mbarrier_wait(r.barriers + r.number % N, r.number / N);
}

/* Signals that the warp's products with the matrix are done. */
template <int N> static __device__ __forceinline__ void end_reading(matrix_ring<N> &r)
{
  if (threadIdx.x % WARP == 0)
    mbarrier_arrive(r.barriers + (N + r.number % N));
  r.number++;
}

struct rings {
  matrix_ring<QUERY_STAGES> queries;
  matrix_ring<STAGES> keys, values;
};

template <int HD> static __device__ __forceinline__ rings make_rings()
{
  constexpr int size = matrices<HD>::size;
  constexpr int tiles = QUERY_STAGES * size, of_tiles = 2 * QUERY_STAGES;
  SHARED_ARRAY(mbarrier, barriers, of_tiles + 4 * STAGES);
  shared<mbarrier> b = shared_cast<mbarrier>(&barriers[0]);
  shared<bf16> m = aligned_shared(dynamic_shared<bf16>());
  return {{m, b, 0},
          {m + tiles, b + of_tiles, 0},
          {m + (tiles + STAGES * size), b + (of_tiles + 2 * STAGES), 0}};
}

template <int N> static __device__ __forceinline__ void init_ring(const matrix_ring<N> &r)
{
  for (int i = 0; i < N; i++) {
    mbarrier_init(r.barriers + i, WARPGROUP / 2);
    mbarrier_init(r.barriers + (N + i), CONSUMER_WARPS);
  }
}

static __device__ __forceinline__ void init_rings(const rings &r)
{
  init_ring(r.queries);
  init_ring(r.keys);
  init_ring(r.values);
}

/* The consumers' work order: the item whose queries a matrix holds. */
struct alignas(16) order {
  lls_cuda_item item;
  uint32_t first_row, context, kv_head;
};

static __device__ __forceinline__ shared<order>
order_of(const matrix_ring<QUERY_STAGES> &queries)
{
  SHARED_ARRAY(order, orders, QUERY_STAGES);
  return shared_cast<order>(&orders[queries.number % QUERY_STAGES]);
}

/* Returns the block's piece of work in a round: items, the longest first, and for each
 * its KV heads. Every other round runs backwards, so that the block with the longest
 * item gets the shortest. */
static __device__ __forceinline__ uint32_t piece_of(uint32_t round)
{
  uint32_t at = round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
  return round * gridDim.x + at;
}

/* ---- producers --------------------------------------------------------------------- */

/* The places of a warp's rows, in units of head_dim elements. CELLS lanes copy a row;
 * one of them holds the place of the row that they copy next. */
struct row_places {
  uint32_t at[SHARE / WARP];
};

template <int HD> struct copying {
  /* rows copied at once */
  static constexpr unsigned cells = HD / CELL, rows = WARP / cells;
};

/* Returns which of the warp's 64 rows the lane's place number i belongs to. */
template <int HD> static __device__ __forceinline__ uint32_t row_known(int i)
{
  typedef copying<HD> c;
  uint32_t lane = thread_again() % WARP;
  return (i * c::cells + lane % c::cells) * c::rows + lane / c::cells;
}

/* A list of blocks, counted in rows, for which 32 bits suffice. */
struct row_list {
  const lls_block_entry *entries;
  uint32_t n, begin, head, unit, end;
  bool whole;
};

template <int HD> static __device__ __forceinline__ row_list rows_of(const work &w)
{
  const kv_list &list = w.list;
  return {list.entries,
          list.n,
          list.begin,
          (uint32_t)(list.head / HD),
          (uint32_t)(list.unit / HD),
          w.item.end,
          list.whole};
}

static __device__ __forceinline__ uint32_t find_row(const row_list &list,
                                                    uint32_t block_tokens, uint32_t token)
{
  token = token < list.end ? token : list.end - 1;
  token = token > list.begin ? token : list.begin;
  kv_list l = {};
  l.entries = list.entries;
  l.n = list.n;
  l.block_tokens = block_tokens;
  l.whole = list.whole;
  l.begin = list.begin;
  l.head_dim = 1;
  const lls_block_entry &e = find_entry(l, token);
  return e.block * list.unit + list.head + (uint32_t)slot_at(l, e, token);
}

/* Finds the places of the warp's tokens of a tile, from `first` on. Tokens before the
 * list or past the item's end get no weight, so any place with finite values serves:
 * that of the list's first or the item's last token. */
template <int HD>
static __device__ __forceinline__ row_places find_tokens(const row_list &list,
                                                         uint32_t block_tokens,
                                                         uint32_t first)
{
  row_places places;
#pragma unroll
  for (int i = 0; i < SHARE / WARP; i++)
    places.at[i] = find_row(list, block_tokens, first + row_known<HD>(i));
  return places;
}

template <int HD>
static __device__ __forceinline__ row_places find_queries(const work &w,
                                                          const lls_cuda_attention &a,
                                                          uint32_t first)
{
  row_places places;
  uint32_t heads = a.columns / HD, row = w.sequence.first_row + w.item.first;
#pragma unroll
  for (int i = 0; i < SHARE / WARP; i++) {
    uint32_t query = first + row_known<HD>(i);
    /* rows beyond the last query load it again; their result is not used */
    query = query < w.n_queries ? query : w.n_queries - 1;
    places.at[i] =
        (row + query / w.group) * heads + w.kv_head * w.group + query % w.group;
  }
  return places;
}

/* Begins the copies of a warp's rows. */
template <int HD>
static __device__ __forceinline__ void copy_rows(const row_places &places,
                                                 const void *data, shared<bf16> matrix)
{
  typedef copying<HD> c;
  unsigned thread = thread_again(), lane = thread % WARP, cell = lane % c::cells;
  unsigned first = thread / WARP % 2 * SHARE + lane / c::cells;
  const bf16 *from = again((const bf16 *)data + cell * CELL);
  shared<bf16> to = matrix + (cell / 8 * ROWS * COLUMNS + first * COLUMNS);
#pragma unroll
  for (unsigned i = 0; i < SHARE / c::rows; i++) {
    uint32_t at = __shfl_sync(ALL_LANES, places.at[i / c::cells], i % c::cells, c::cells);
    unsigned row = i * c::rows, place = (cell ^ (first + row)) % 8;
    copy_async(to + (row * COLUMNS + place * CELL), from + (size_t)at * HD, true);
  }
}

template <int HD>
static __device__ __forceinline__ void
produce(const lls_cuda_step *step, const lls_cuda_plan *plan, const lls_cuda_pool &pool,
        const lls_cuda_attention &a)
{
  rings r = make_rings<HD>();
  bool is_v = threadIdx.x >= WARPGROUP / 2; /* the same choice of list as in work_of */
  uint32_t mine = threadIdx.x / WARP % 2 * SHARE;
  matrix_ring<STAGES> tiles = is_v ? r.values : r.keys;
  uint32_t n = plan->n_large * a.kv_heads;
  for (uint32_t round = 0, i; (i = piece_of(round)) < n; round++) {
    work w = work_of({step, &plan->large, i}, pool, a);
    if (is_v) {
      row_places queries = find_queries<HD>(w, a, mine);
      begin_filling(r.queries);
      if (threadIdx.x == WARPGROUP / 2)
        *order_of(r.queries) = {w.item, w.sequence.first_row, w.sequence.context,
                                w.kv_head};
      copy_rows<HD>(queries, a.qkv, matrix_of<HD>(r.queries));
      end_filling(r.queries);
    }
    row_list list = rows_of<HD>(w);
    row_places places = find_tokens<HD>(list, pool.block_tokens, w.item.begin + mine);
    for (uint32_t first = w.item.begin; first < list.end; first += ROWS) {
      begin_filling(tiles);
      copy_rows<HD>(places, pool.data, matrix_of<HD>(tiles));
      places = find_tokens<HD>(list, pool.block_tokens, first + ROWS + mine);
      end_filling(tiles);
    }
  }
}

/* ---- consumers --------------------------------------------------------------------- */

/* The threads that combine parts. */
struct consumers {
  static __device__ __forceinline__ unsigned thread()
  {
    return threadIdx.x - WARPGROUP;
  }
  static __device__ __forceinline__ unsigned count()
  {
    return CONSUMERS * WARPGROUP;
  }
  static __device__ __forceinline__ void meet()
  {
    barrier_sync(CONSUMERS_MEET, CONSUMERS * WARPGROUP);
  }
};

/* Issues the products of 64 queries with 128 tokens. */
template <int HD>
static __device__ __forceinline__ void give_scores(uint32_t queries, uint32_t keys,
                                                   float (&s)[ROWS / 8][4])
{
#pragma unroll
  for (int d = 0; d < HD; d += 16) {
    /* 16 columns are 32 bytes of a row; descriptors count in units of 16 bytes */
    int at = d / COLUMNS * (ROWS * COLUMNS * 2 / 16) + d % COLUMNS * 2 / 16;
    if (d == 0)
      wgmma_rows<false>(s, queries + at, keys + at);
    else
      wgmma_rows<true>(s, queries + at, keys + at);
  }
  wgmma_commit();
}

/* Weights in the layout of A: 16 tokens in four registers. */
struct weights {
  uint32_t a[ROWS / 16][4];
};

static __device__ __forceinline__ void pack_weights(const float (&s)[ROWS / 8][4],
                                                    weights &p)
{
#pragma unroll
  for (int n = 0; n < ROWS / 16; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++)
      p.a[n][i] = pack_bf16(s[2 * n + i / 2][i % 2 * 2], s[2 * n + i / 2][i % 2 * 2 + 1]);
  }
}

template <int HD>
static __device__ __forceinline__ void give_values(const weights &p, uint32_t values,
                                                   state<HD> &st)
{
#pragma unroll
  for (int n = 0; n < ROWS / 16; n++)
    wgmma_columns(st.values, p.a[n], values + n * (16 * COLUMNS * 2 / 16));
  wgmma_commit();
}

/* The tokens [first, end) that each of this lane's two queries sees, and those that all
 * queries of the warp see. */
struct sight {
  uint32_t first[2], end[2];
  uint32_t all_first, all_end;
};

static __device__ __forceinline__ sight sight_of(const work &w,
                                                 const lls_cuda_attention &a,
                                                 uint32_t first_query)
{
  uint32_t position = w.sequence.context + w.item.first;
  uint32_t last = position + w.item.n_rows - 1, lane = threadIdx.x % WARP;
  sight v;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    uint32_t here = position + (first_query + lane / 4 + i * 8) / w.group;
    v.first[i] = lls_cuda_oldest(&a, here);
    v.end[i] = here + 1 < w.item.end ? here + 1 : w.item.end;
  }
  uint32_t first_end = position + first_query / w.group + 1;
  v.all_first = lls_cuda_oldest(&a, last);
  v.all_end = first_end < w.item.end ? first_end : w.item.end;
  return v;
}

static __device__ __forceinline__ void hide(const sight &v, uint32_t first,
                                            float (&s)[ROWS / 8][4])
{
  if (first >= v.all_first && first + ROWS <= v.all_end)
    return;
  uint32_t token = first + threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < ROWS / 8; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      uint32_t here = token + n * 8 + i % 2;
      if (here < v.first[i / 2] || here >= v.end[i / 2])
        s[n][i] = NOTHING;
    }
  }
}

/* Computes cap tanh(x / cap) for unscaled scores: tanh x = 1 - 2 / (1 + e^2x). */
static __device__ __forceinline__ void cap_scores(const lls_cuda_attention &a,
                                                  float (&s)[ROWS / 8][4])
{
  float factor = 2 * LOG2E * a.scale / a.soft_cap;
#pragma unroll
  for (int n = 0; n < ROWS / 8; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++)
      s[n][i] = a.soft_cap - __fdividef(2 * a.soft_cap, 1 + fast_exp2(s[n][i] * factor));
  }
}

/* Turns scores into weights, 2^(factor (s - max)), and updates the state's maximum and
 * sum. The values are to be multiplied by `decay`. */
template <int HD>
static __device__ __forceinline__ void weigh_scores(float factor, float (&s)[ROWS / 8][4],
                                                    state<HD> &st, float (&decay)[2])
{
#pragma unroll
  for (int row = 0; row < 2; row++) {
    float max = NOTHING;
#pragma unroll
    for (int n = 0; n < ROWS / 8; n++)
      max = fmaxf(max, fmaxf(s[n][2 * row], s[n][2 * row + 1]));
    max = fmaxf(max, __shfl_xor_sync(ALL_LANES, max, 1));
    max = fmaxf(max, __shfl_xor_sync(ALL_LANES, max, 2));
    max = fmaxf(st.max[row], max * factor);
    float base = max == NOTHING ? 0 : max; /* no token seen yet: all weights are 0 */
    decay[row] = fast_exp2(st.max[row] - base);
    st.max[row] = max;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < ROWS / 8; n++) {
#pragma unroll
      for (int i = 2 * row; i < 2 * row + 2; i++) {
        s[n][i] = fast_exp2(s[n][i] * factor - base);
        sum += s[n][i];
      }
    }
    st.sum[row] = st.sum[row] * decay[row] + sum;
  }
}

template <int HD>
static __device__ __forceinline__ void decay_values(const float (&decay)[2],
                                                    state<HD> &st)
{
#pragma unroll
  for (int n = 0; n < HD / 8; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++)
      st.values[n][i] *= decay[i / 2];
  }
}

/* Waits for the next queries and returns their work. */
static __device__ __forceinline__ work next_work(const rings &r,
                                                 const lls_cuda_attention &a)
{
  begin_reading(r.queries);
  const order o = *order_of(r.queries);
  work w = {};
  w.item = o.item;
  w.sequence.first_row = o.first_row;
  w.sequence.context = o.context;
  w.kv_head = o.kv_head;
  w.group = a.heads / a.kv_heads;
  w.n_queries = o.item.n_rows * w.group;
  return w;
}

/* Processes the warpgroup's queries of a piece, which have arrived; first_query is the
 * warp's first. */
template <int HD>
static __device__ __forceinline__ void
consume_piece(const work &w, const lls_cuda_attention &a, uint32_t first_query, rings &r,
              state<HD> &st)
{
  constexpr uint32_t apart = ROWS * COLUMNS * sizeof(bf16);
  uint32_t share = (warpgroup() - 1) * SHARE;
  float factor = a.soft_cap > 0 ? LOG2E : a.scale * LOG2E;
  sight v = sight_of(w, a, first_query);
  float s[ROWS / 8][4], decay[2];
  weights p;
  begin_state(w, a, first_query, st);
  uint32_t q = describe(matrix_of<HD>(r.queries) + share * COLUMNS, 16);

  begin_reading(r.keys);
  wgmma_fence();
  give_scores<HD>(q, describe(matrix_of<HD>(r.keys), 16), s);
  wgmma_wait<0>();
  settle(s);
  end_reading(r.keys);
  if (a.soft_cap > 0)
    cap_scores(a, s);
  hide(v, w.item.begin, s);
  weigh_scores(factor, s, st, decay);
  pack_weights(s, p);
  uint32_t first = w.item.begin + ROWS;
  if (first < w.item.end)
    begin_reading(r.keys);
  for (; first < w.item.end; first += ROWS) {
    settle(st.values);
    settle(p.a);
    wgmma_fence();
    give_scores<HD>(q, describe(matrix_of<HD>(r.keys), 16), s);
    begin_reading(r.values);
    wgmma_fence();
    give_values(p, describe(matrix_of<HD>(r.values), apart), st);
    wgmma_wait<1>();
    settle(s);
    end_reading(r.keys);
    if (a.soft_cap > 0)
      cap_scores(a, s);
    hide(v, first, s);
    weigh_scores(factor, s, st, decay);
    settle(s);
    if (first + ROWS < w.item.end)
      begin_reading(r.keys);
    wgmma_wait<0>();
    settle(st.values);
    end_reading(r.values);
    decay_values(decay, st);
    pack_weights(s, p);
  }
  end_reading(r.queries);
  begin_reading(r.values);
  settle(st.values);
  settle(p.a);
  wgmma_fence();
  give_values(p, describe(matrix_of<HD>(r.values), apart), st);
  wgmma_wait<0>();
  settle(st.values);
  end_reading(r.values);
}

template <int HD>
static __device__ __forceinline__ void consume(const lls_cuda_plan *plan,
                                               const lls_cuda_attention &a, float *states,
                                               uint32_t *finished)
{
  rings r = make_rings<HD>();
  uint32_t first_query = consumers::thread() / WARP * 16;
  uint32_t n = plan->n_large * a.kv_heads;
  for (uint32_t round = 0; piece_of(round) < n; round++) {
    work w = next_work(r, a);
    state<HD> st;
    consume_piece<HD>(w, a, first_query, r, st);
#pragma unroll
    for (int row = 0; row < 2; row++) {
      st.sum[row] += __shfl_xor_sync(ALL_LANES, st.sum[row], 1);
      st.sum[row] += __shfl_xor_sync(ALL_LANES, st.sum[row], 2);
    }
    store_warp(w, a, states, first_query, st);
    if (w.item.part != LLS_CUDA_NO_PART && finish_part<consumers>(w, a, finished))
      merge_parts<HD, consumers>(w, a, states);
  }
}

/* ---- the kernel -------------------------------------------------------------------- */

template <int HD>
__global__ void __launch_bounds__(HOPPER_THREADS, 1)
    attend_hopper(const lls_cuda_step *step, const lls_cuda_plan *plan,
                  lls_cuda_pool pool, float *states, uint32_t *finished,
                  lls_cuda_attention a)
{
#ifdef LLS_HOPPER_CODE
  if (threadIdx.x == 0)
    init_rings(make_rings<HD>());
  __syncthreads();
  if (warpgroup() == 0) {
    leave_registers<PRODUCER_REGISTERS>();
    produce<HD>(step, again(plan), pool, a);
  } else {
    take_registers<CONSUMER_REGISTERS>();
    consume<HD>(again(plan), a, states, finished);
  }
#endif
}

#endif
