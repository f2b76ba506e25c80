/* SPDX-License-Identifier: Apache-2.0 */
/*
 * K and V on their way to one warp of decode attention: slabs of 16 tokens of K or of
 * V, in a ring of four that belongs to the warp, so that it waits for its own copies
 * only. Two tiles are always under way, also across the end of a sequence.
 *
 * A slab holds bf16 or, if all its tokens are in one int8 block, the bytes as stored,
 * followed by the block's scales. A slab whose tokens are of several kinds is widened
 * while it is loaded; if blocks have 16 tokens and are in order, no such slab occurs.
 *
 * Rows are an odd multiple of 16 bytes apart, so that the eight rows of an ldmatrix lie
 * in different banks.
 */
#ifndef LLS_CUDA_ATTENTION_SLAB_CUH
#define LLS_CUDA_ATTENTION_SLAB_CUH

#include <stddef.h>

#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/tensor.cuh"

#define TILE    LLS_CUDA_TILE
#define SLAB    16 /* tokens */
#define SLABS   4  /* slabs of each warp: K and V of two tiles */
#define NOWHERE UINT32_MAX

template <int HD> struct slab_layout {
  static constexpr int stride = HD + 8; /* elements from token to token */
  static constexpr int size = SLAB * stride;
  static constexpr int int8_stride = (HD / 16 | 1) * 16; /* bytes */
  static constexpr int steps = SLAB * int8_stride;       /* byte offset of the scales */
  static constexpr int least = steps + 2 * HD;
  static_assert(least + 2 * HD <= size * 2, "int8 blocks need more room than others");
};

/* A token to copy: the lane's token of a tile, of K (lanes 0 to 15) or V (the other
 * lanes). */
struct found {
  uint32_t block, first_token, kind; /* fields of the token's block table entry */
  uint32_t token;
  bool there; /* false: past the end of the piece or of all pieces */
  bool scratch;
};

/* The third word of an entry: count, direction, form. */
static_assert(sizeof(lls_block_entry) == 16 &&
                  offsetof(lls_block_entry, direction) == 10 &&
                  offsetof(lls_block_entry, form) == 11,
              "entries are read at once");

static __device__ __forceinline__ bool from_left(const found &t)
{
  return (t.kind >> 16 & 0xff) == LLS_LEFT_TO_RIGHT;
}

static __device__ __forceinline__ bool in_bytes(const found &t)
{
  return t.there && t.kind >> 24 == LLS_FORM_INT8;
}

/* The sequence of tiles that a warp reads: its tokens of each tile of each piece. */
struct feed {
  const lls_cuda_piece *piece, *past;
  const lls_block_entry *all, *entries; /* entries of the step; of the list */
  uint32_t n, list_begin;
  uint32_t token, end; /* first token of the tile; end of the piece */
  uint32_t settled;    /* tokens before this one were written by earlier steps */
  bool whole, scratch;
};

/* Does the lane look up V? */
static __device__ __forceinline__ bool is_v()
{
  return threadIdx.x % WARP >= SLAB;
}

static __device__ __forceinline__ void open_piece(feed &f)
{
  if (f.piece == f.past)
    return;
  const lls_cuda_piece p = *f.piece;
  f.entries = f.all + p.kv_first;
  f.n = p.kv_count;
  f.list_begin = p.kv_begin;
  f.whole = (p.flags & LLS_CUDA_WHOLE) != 0;
  f.scratch = (p.flags & LLS_CUDA_SCRATCH) != 0;
  f.token = p.begin;
  f.end = p.end;
  f.settled = f.scratch ? 0 : p.position;
}

/* Finds the lane's token of the next tile. No query sees tokens before the list, so any
 * place with finite values serves; they get the place of the list's first token. */
static __device__ __forceinline__ found find_tile(feed &f, uint32_t block_tokens)
{
  found t = {0, 0, 0, 0, false, f.scratch};
  if (f.piece == f.past)
    return t;
  uint32_t token = f.token + threadIdx.x / WARP * SLAB + threadIdx.x % SLAB, low = 0;
  t.token = token > f.list_begin ? token : f.list_begin;
  t.there = t.token < f.end;
  if (f.whole)
    low = (t.token - f.list_begin) / block_tokens;
  else
    for (uint32_t high = f.n; high - low > 1;) {
      uint32_t middle = low + (high - low) / 2;
      if (f.entries[middle].first_token <= t.token)
        low = middle;
      else
        high = middle;
    }
  if (t.there) {
    auto entry = *(const several<uint32_t, 4> *)(f.entries + low);
    t.block = entry.v[0];
    t.first_token = entry.v[1];
    t.kind = entry.v[2];
  }
  f.token += TILE;
  if (f.token >= f.end) {
    f.piece++;
    open_piece(f);
  }
  return t;
}

/* The memory that slabs are loaded from. */
struct source {
  const lls_cuda_pool &pool;
  uint32_t layer, kv_head;
};

/* Returns the place of the lane's token in vectors of head_dim elements (int8 block:
 * bytes) from the pool's beginning. 32 bits suffice: 2^32 vectors are more than a GPU
 * has. */
template <int HD>
static __device__ __forceinline__ uint32_t place_of(const source &from, const found &t)
{
  uint32_t index = t.token - t.first_token, heads = from.pool.kv_heads;
  uint32_t slot = from_left(t) ? index : from.pool.block_tokens - 1 - index;
  uint32_t all = t.scratch ? heads : heads * from.pool.layers; /* of K, of V */
  uint32_t head =
      (is_v() ? all : 0) + (t.scratch ? 0 : heads * from.layer) + from.kv_head;
  uint32_t begin = t.block * (uint32_t)(from.pool.unit / HD) << (in_bytes(t) ? 1 : 0);
  if (t.scratch)
    begin = (uint32_t)(from.pool.scratch_at / HD) +
            t.block * 2 * all * from.pool.block_tokens;
  return t.there ? begin + head * from.pool.block_tokens + slot : NOWHERE;
}

/* Copies a slab of vectors of `BYTES` each; `first` is the lane of its first token.
 * Missing tokens become zeros. */
template <int BYTES, int STRIDE>
static __device__ __forceinline__ void copy_rows(const char *data, uint32_t place,
                                                 unsigned first, shared<uint8_t> to)
{
  constexpr int cells = BYTES / 16, at_once = WARP / cells;
  unsigned lane = threadIdx.x % WARP, line = lane / cells, cell = lane % cells * 16;
#pragma unroll
  for (unsigned i = 0; i < SLAB; i += at_once) {
    unsigned row = i + line;
    uint32_t at = __shfl_sync(ALL_LANES, place, first + row % SLAB);
    if ((at_once * cells == WARP || line < at_once) &&
        (SLAB % at_once == 0 || row < SLAB)) /* false for lanes left over */
      copy_async(shared_cast<bf16>(to + (row * STRIDE + cell)),
                 data + (size_t)at * BYTES + cell, at != NOWHERE);
  }
}

/* ---- int8 blocks ------------------------------------------------------------------- */

/* Are the 16 tokens from lane `first` on in one int8 block? */
static __device__ __forceinline__ bool is_bytes(const found &t, unsigned first)
{
  uint32_t block = __shfl_sync(ALL_LANES, t.block, first);
  bool like = in_bytes(t) && t.block == block;
  return (__ballot_sync(ALL_LANES, like) >> first & 0xffff) == 0xffff;
}

static __device__ __forceinline__ bool has_bytes(const found &t, unsigned first)
{
  return (__ballot_sync(ALL_LANES, in_bytes(t)) >> first & 0xffff) != 0;
}

/* Widens some values of an int8 block to bf16. */
static __device__ __forceinline__ several<bf16, 4>
widened(const uint8_t *bytes, const uint16_t *step, const uint16_t *least)
{
  several<uint8_t, 4> from = *(const several<uint8_t, 4> *)bytes;
  float x[4];
#pragma unroll
  for (int c = 0; c < 4; c++)
    x[c] = half_to_float(step[c]) * (float)from.v[c] + half_to_float(least[c]);
  return round_all<bf16>(x);
}

/* Loads tokens of several kinds as bf16. It waits for its reads. */
template <int HD>
static __device__ __forceinline__ void load_mixed(const source &from, const found &t,
                                                  uint32_t place, unsigned first,
                                                  shared<bf16> to)
{
  typedef slab_layout<HD> layout;
  constexpr unsigned cells = HD / 4;
  uint32_t half = in_bytes(t) ? 2 * t.block + is_v() : NOT_INT8;
#pragma unroll 1
  for (unsigned i = 0; i < SLAB * cells; i += WARP) {
    unsigned row = (i + threadIdx.x % WARP) / cells;
    unsigned d = (i + threadIdx.x % WARP) % cells * 4;
    uint32_t at = __shfl_sync(ALL_LANES, place, first + row);
    uint32_t of = __shfl_sync(ALL_LANES, half, first + row);
    several<bf16, 4> x = {};
    if (at != NOWHERE && of == NOT_INT8)
      x = *(const several<bf16, 4> *)((const char *)from.pool.data +
                                      ((size_t)at * HD + d) * 2);
    if (at != NOWHERE && of != NOT_INT8) {
      const uint16_t *scales = find_scales(from.pool, from.layer, from.kv_head, of) + d;
      x = widened((const uint8_t *)from.pool.data + (size_t)at * HD + d, scales,
                  scales + HD);
    }
    *shared_cast<several<bf16, 4>>(to + (row * layout::stride + d)) = x;
  }
}

/* ---- one slab ---------------------------------------------------------------------- */

/* Begins to load K (first = 0) or V (first = SLAB) of a tile; zeros if no tile is left,
 * since a branch would cost more. Returns true if the slab will hold bytes. */
template <int HD, bool INT8>
static __device__ __forceinline__ bool load_slab(const source &from, const found &t,
                                                 unsigned first, shared<bf16> to)
{
  typedef slab_layout<HD> layout;
  uint32_t place = place_of<HD>(from, t);
  bool bytes = INT8 && is_bytes(t, first);
  if (bytes) {
    shared<uint8_t> at = shared_cast<uint8_t>(to);
    copy_rows<HD, layout::int8_stride>((const char *)from.pool.data, place, first, at);
    uint32_t half = 2 * __shfl_sync(ALL_LANES, t.block, first) + (first >= SLAB);
    unsigned d = threadIdx.x % WARP * 8;
    if (d < 2 * HD)
      copy_async(shared_cast<bf16>(at + (layout::steps + d * 2)),
                 find_scales(from.pool, from.layer, from.kv_head, half) + d, true);
  } else if (INT8 && has_bytes(t, first)) {
    load_mixed<HD>(from, t, place, first, to);
  } else {
    copy_rows<2 * HD, 2 * layout::stride>((const char *)from.pool.data, place, first,
                                          shared_cast<uint8_t>(to));
  }
  copy_async_commit();
  return bytes;
}

#endif
