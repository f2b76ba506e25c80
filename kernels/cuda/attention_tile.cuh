/* SPDX-License-Identifier: Apache-2.0 */
/*
 * K and V of a sequence in tiles of 64 tokens, as bf16 in shared memory: finds each
 * token, copies it, and widens int8 blocks. The copies are asynchronous, so the next
 * tile arrives while the present one is computed.
 *
 * A cell is 8 values of a token, 16 bytes in shared memory. From an int8 block it first
 * gets 8 bytes, which the thread that copied them widens in place, so that no thread
 * waits for another. A thread's cells are one column of cells over consecutive tokens,
 * 16 with heads of 128 dims: so in blocks of 16 it needs the scales of one block, 8
 * channels of them.
 *
 * Rows in shared memory are head_dim + 8 numbers apart, an odd multiple of 16 bytes, so
 * that the eight rows of an ldmatrix lie in different banks.
 */
#ifndef LLS_CUDA_ATTENTION_TILE_CUH
#define LLS_CUDA_ATTENTION_TILE_CUH

#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/tensor.cuh"

#define TILE  LLS_CUDA_TILE
#define CELL  8
#define AHEAD 4 /* places that a thread reads at once */

/* The work of a thread block. */
struct work {
  lls_cuda_item item;
  lls_cuda_sequence sequence;
  kv_list
      /* the list that the thread looks tokens up in: V's from thread TILE on, else
       * K's */
      list;
  uint32_t layer, group, kv_head, n_queries;
};

template <int HD> struct tile_layout {
  static constexpr int stride = HD + 8;           /* elements from token to token */
  static constexpr int cells = HD / CELL;         /* cells of a token */
  static constexpr int stage = 2 * TILE * stride; /* elements of a stage: K, then V */
  static constexpr int v = TILE * stride;
};

/* Divides the tile's tokens, K's then V's, among threads: each thread of `groups`
 * groups has one column of cells over `rows` tokens. `groups` is a power of two, so
 * that no thread has both K and V. */
template <int HD, int THREADS> struct tile_share {
  static constexpr int fitting = THREADS / tile_layout<HD>::cells;
  static constexpr int groups = fitting >= 32 ? 32 : fitting >= 16 ? 16 : 8;
  static constexpr int rows = 2 * TILE / groups;
  static_assert(fitting >= 8, "too few threads for a tile");
  static_assert(rows % AHEAD == 0, "rows left over");
};

/* The places of the tokens of two tiles: (2, 2 TILE). */
struct tile_places {
  shared<uint64_t> at;
  shared<uint32_t> half; /* with int8 blocks: see token_place */
};

/* Returns the bytes of shared memory: two stages, then the places. */
template <int HD, bool INT8> constexpr size_t shared_bytes()
{
  return 2 * tile_layout<HD>::stage * sizeof(bf16) +
         2 * 2 * TILE * (sizeof(uint64_t) + (INT8 ? sizeof(uint32_t) : 0));
}

static __device__ __forceinline__ unsigned place_of(uint32_t tile, uint32_t row)
{
  return tile % 2 * 2 * TILE + row;
}

/* A place being looked up: its entry is read while another tile is computed. */
struct lookup {
  lls_block_entry entry;
  uint32_t token;
  bool there;
};

/* Looks up one token a thread: of tile `tile`'s tokens, K's then V's; none past the
 * item's end. No query sees tokens before the list, so any place with finite values
 * serves; they get the place of the list's first token. */
static __device__ __forceinline__ lookup begin_lookup(const work &w, uint32_t tile)
{
  lookup l;
  uint32_t token = w.item.begin + tile * TILE + threadIdx.x % TILE;
  l.token = token > w.list.begin ? token : w.list.begin;
  l.there = threadIdx.x < 2 * TILE && l.token < w.item.end;
  l.entry = {};
  if (l.there)
    l.entry = find_entry(w.list, l.token);
  return l;
}

template <bool INT8>
static __device__ __forceinline__ void
end_lookup(const work &w, const lls_cuda_pool &pool, const lookup &l, uint32_t tile,
           const tile_places &places)
{
  unsigned i = place_of(tile, threadIdx.x);
  if (threadIdx.x >= 2 * TILE)
    return;
  if (INT8) {
    token_place place = {0, NOT_INT8};
    if (l.there)
      place = place_at(pool, w.list, l.entry, l.token);
    places.at[i] = place.at;
    places.half[i] = place.half;
  } else if (l.there) {
    places.at[i] = token_at(w.list, l.entry, l.token);
  }
}

/* Begins the copy of a tile; tokens past the item's end become zeros. */
template <int HD, int THREADS, bool INT8>
static __device__ __forceinline__ void load_tile(const work &w, const void *pool,
                                                 uint32_t tile, const tile_places &places,
                                                 shared<bf16> stages)
{
  typedef tile_layout<HD> layout;
  typedef tile_share<HD, THREADS> share;
  unsigned group = threadIdx.x / layout::cells, cell = threadIdx.x % layout::cells * CELL;
  shared<bf16> to = stages + (tile % 2 * layout::stage + cell);
  for (unsigned i = 0; i < (group < share::groups ? share::rows : 0); i += AHEAD) {
    /* all are read before the copies, which the compiler does not move reads across */
    uint64_t at[AHEAD];
    bool there[AHEAD];
#pragma unroll
    for (unsigned k = 0; k < AHEAD; k++) {
      uint32_t row = group * share::rows + i + k;
      there[k] = w.item.begin + tile * TILE + row % TILE < w.item.end;
      at[k] = there[k] ? (uint64_t)places.at[place_of(tile, row)] + cell : 0;
    }
#pragma unroll
    for (unsigned k = 0; k < AHEAD; k++) {
      uint32_t row = group * share::rows + i + k;
      if (INT8 && places.half[place_of(tile, row)] != NOT_INT8)
        copy_async_half(to + row * layout::stride, (const uint8_t *)pool + at[k]);
      else
        copy_async(to + row * layout::stride, (const bf16 *)pool + at[k], there[k]);
    }
  }
  copy_async_commit();
}

/* ---- int8 blocks ------------------------------------------------------------------- */

/* The scales of a cell's channels in one block. */
struct cell_scales {
  uint32_t half; /* NOT_INT8: no scales loaded */
  several<uint16_t, CELL> step, least;
};

template <int HD>
static __device__ __forceinline__ cell_scales read_scales(const work &w,
                                                          const lls_cuda_pool &pool,
                                                          uint32_t half)
{
  unsigned cell = threadIdx.x % tile_layout<HD>::cells * CELL;
  const uint16_t *from = find_scales(pool, w.layer, w.kv_head, half) + cell;
  return {half, *(const several<uint16_t, CELL> *)from,
          *(const several<uint16_t, CELL> *)(from + HD)};
}

/* Loads the scales for a thread's first token of a tile, if it is INT8. */
template <int HD, int THREADS>
static __device__ __forceinline__ cell_scales first_scales(const work &w,
                                                           const lls_cuda_pool &pool,
                                                           uint32_t tile,
                                                           const tile_places &places)
{
  typedef tile_share<HD, THREADS> share;
  unsigned group = threadIdx.x / tile_layout<HD>::cells;
  uint32_t half = NOT_INT8;
  if (group < share::groups)
    half = places.half[place_of(tile, group * share::rows)];
  if (half != NOT_INT8)
    return read_scales<HD>(w, pool, half);
  return {NOT_INT8, {}, {}};
}

/* The factors that turn bytes of a cell into values: x = (32768 + byte) step + base. A
 * byte placed in the second byte of the f32 2^15 adds itself to it, so no conversion is
 * needed; base is rounded to 2^-9 of a step. */
struct cell_factors {
  float step[CELL], base[CELL];
};

static __device__ __forceinline__ cell_factors factors_of(const cell_scales &scales)
{
  cell_factors f;
#pragma unroll
  for (int c = 0; c < CELL; c++) {
    f.step[c] = half_to_float(scales.step.v[c]);
    f.base[c] = half_to_float(scales.least.v[c]) - 32768 * f.step[c];
  }
  return f;
}

/* Widens two bytes to bf16. */
static __device__ __forceinline__ uint32_t widen_pair(uint32_t bytes, unsigned first,
                                                      const cell_factors &f, int c)
{
  float x[2];
#pragma unroll
  for (unsigned i = 0; i < 2; i++) {
    uint32_t bits = __byte_perm(bytes, 0x47000000, 0x7404 | (first + i) << 4);
    x[i] = __uint_as_float(bits) * f.step[c + i] + f.base[c + i];
  }
  return pack_bf16(x[0], x[1]);
}

/* Widens the int8 cells that this thread has copied and that have arrived. */
template <int HD, int THREADS>
static __device__ __forceinline__ void
widen_tile(const work &w, const lls_cuda_pool &pool, uint32_t tile,
           const tile_places &places, cell_scales scales, shared<bf16> stages)
{
  typedef tile_layout<HD> layout;
  typedef tile_share<HD, THREADS> share;
  unsigned group = threadIdx.x / layout::cells, cell = threadIdx.x % layout::cells * CELL;
  cell_factors factors = factors_of(scales);
#pragma unroll 4
  for (unsigned i = 0; i < (group < share::groups ? share::rows : 0); i++) {
    uint32_t row = group * share::rows + i, half = places.half[place_of(tile, row)];
    if (half == NOT_INT8)
      continue;
    if (half != scales.half) {
      scales = read_scales<HD>(w, pool, half);
      factors = factors_of(scales);
    }
    shared<bf16> at = stages + (tile % 2 * layout::stage + row * layout::stride + cell);
    several<uint32_t, 2> bytes = *shared_cast<several<uint32_t, 2>>(at);
    several<uint32_t, 4> wide;
#pragma unroll
    for (int c = 0; c < 4; c++)
      wide.v[c] = widen_pair(bytes.v[c / 2], c % 2 * 2, factors, 2 * c);
    *shared_cast<several<uint32_t, 4>>(at) = wide;
  }
}

#endif
