/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bf16 weights on AMX (amx.h): A are rows of x, rounded to bf16; B is 1 KiB of a
 * panel as it lies in memory; C are sums.
 *
 * A group is up to 32 rows, (tiles, inputs / 32, 16, 32), missing rows zero. Two A and
 * two B tiles feed four C tiles, so four tile loads serve four products.
 *
 * Bytes and operations of one pass over a panel: 16 x inputs x 2 read once,
 * 2 x 16 x inputs x 16 operations per A tile, however few of its rows are used. A
 * product takes 16 cycles, and memory takes some 100 to deliver the tile it needs, so
 * few rows cost the same as 16.
 */
#include "kernels/cpu/ahead.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/cpu.h"

#define MAX_ROWS  32
#define ROW_BLOCK 512

/* Tile registers; the instructions require literal numbers. */
#define C00 0 /* rows 0..15, first panel */
#define C01 1
#define C10 2
#define C11 3
#define A0  4
#define A1  5
#define B0  6
#define B1  7

static size_t tiles_of(size_t n_rows)
{
  return (n_rows + TILE_ROWS - 1) / TILE_ROWS;
}

/* Loads LANES values at k of a row of `columns`, rounded to bf16; 0 beyond its end. */
INLINE __m256i load_rounded(const float *row, size_t k, size_t columns)
{
  size_t n = columns < k ? 0 : columns - k;
  vf some = n == 0 ? vzero() : vget(row + k, n);
  return (__m256i)_mm512_cvtneps_pbh(some);
}

/* Packs x as (inputs / 32, row tiles, 16, 32); each row is read from front to back. */
static void pack_tiles(const float *x, size_t stride, size_t n_rows, size_t columns,
                       size_t inputs, void *out)
{
  size_t rows = tiles_of(n_rows) * TILE_ROWS;
  for (size_t row = 0; row < rows; row++) {
    size_t known = row < n_rows ? columns : 0;
    const float *from = x + (row < n_rows ? row : 0) * stride;
    uint16_t *to = (uint16_t *)out + row * TILE_DEPTH;
    for (size_t k = 0; k < inputs; k += TILE_DEPTH, to += rows * TILE_DEPTH) {
      __m256i *halves = (__m256i *)to;
      _mm256_store_si256(halves, load_rounded(from, k, known));
      _mm256_store_si256(halves + 1, load_rounded(from, k + LANES, known));
    }
  }
}

static size_t skip_tiles(size_t n_rows, size_t k)
{
  return k * tiles_of(n_rows) * TILE_ROWS;
}

INLINE void prefetch(const char *p, size_t bytes)
{
  for (size_t line = 0; line < bytes; line += 64)
    _mm_prefetch(p + line, _MM_HINT_T0);
}

/* C (row tiles, panels) += 32 inputs. The operand that is used only once (the weights
 * if `stream`, else x) is loaded past L1 (tileloaddt1), which holds the other
 * operand. */
INLINE void multiply_tiles(const char *const b[2], const char *x, const int panels,
                           const int row_tiles, const bool stream)
{
#define LOAD(tile, at, past)                                                             \
  do {                                                                                   \
    if (past)                                                                            \
      _tile_stream_loadd(tile, at, 64);                                                  \
    else                                                                                 \
      _tile_loadd(tile, at, 64);                                                         \
  } while (0)
  LOAD(B0, b[0], stream);
  LOAD(A0, x, !stream);
  _tile_dpbf16ps(C00, A0, B0);
  if (panels == 2) {
    LOAD(B1, b[1], stream);
    _tile_dpbf16ps(C01, A0, B1);
  }
  if (row_tiles == 2) {
    LOAD(A1, x + TILE_BYTES, !stream);
    _tile_dpbf16ps(C10, A1, B0);
    if (panels == 2)
      _tile_dpbf16ps(C11, A1, B1);
  }
#undef LOAD
}

/* Multiplies all inputs of a tile: the innermost loop. It prefetches `ahead` in the
 * same streams or, if that is NULL, its share of w's lines. */
INLINE void multiply(const char *w, const char *ahead, size_t panel_bytes, const char *x,
                     size_t inputs, const int panels, const int row_tiles,
                     enum lls_packed packed, struct lls_ahead *spread)
{
  const size_t b_bytes = TILE_DEPTH * LLS_PANEL * lls_packed_bytes(packed);
  size_t share[LLS_AHEAD];
  if (ahead == NULL)
    share_out(spread, inputs / TILE_DEPTH, share);
  for (size_t k = 0; k < inputs; k += TILE_DEPTH) {
    const char *b[2] = {w, w + panel_bytes};
    if (ahead == NULL)
      ask(spread, share);
    for (int p = 0; p < panels; p++) {
      if (ahead != NULL)
        prefetch(ahead + p * panel_bytes, b_bytes);
    }
    multiply_tiles(b, x, panels, row_tiles, ahead != NULL);
    w += b_bytes;
    if (ahead != NULL)
      ahead += b_bytes;
    x += row_tiles * TILE_BYTES;
  }
}

/* Loads C from the sums (up to 32 rows of two panels), or sets it to 0. */
INLINE void load_sums(const float *sums, size_t stride, bool more, const int panels,
                      const int row_tiles)
{
  _tile_zero(C00);
  _tile_zero(C01);
  _tile_zero(C10);
  _tile_zero(C11);
  if (!more)
    return;
  _tile_loadd(C00, sums, 64);
  if (panels == 2)
    _tile_loadd(C01, sums + stride, 64);
  if (row_tiles == 2)
    _tile_loadd(C10, sums + TILE_ROWS * LLS_PANEL, 64);
  if (panels == 2 && row_tiles == 2)
    _tile_loadd(C11, sums + stride + TILE_ROWS * LLS_PANEL, 64);
}

INLINE void store_sums(float *sums, size_t stride, const int panels, const int row_tiles)
{
  _tile_stored(C00, sums, 64);
  if (panels == 2)
    _tile_stored(C01, sums + stride, 64);
  if (row_tiles == 2)
    _tile_stored(C10, sums + TILE_ROWS * LLS_PANEL, 64);
  if (panels == 2 && row_tiles == 2)
    _tile_stored(C11, sums + stride + TILE_ROWS * LLS_PANEL, 64);
}

/* Multiplies one or two panels, from `first` on. */
INLINE void part(const struct lls_tile *t, size_t first, const int panels,
                 const int row_tiles, enum lls_packed packed)
{
  const size_t input_bytes = LLS_PANEL * lls_packed_bytes(packed);
  const char *w = t->weight + first * t->panel_bytes, *x = t->x;
  float *sums = t->sums + first * t->sum_stride;
  SETTLE_MEMORY(sums);
  load_sums(sums, t->sum_stride, t->more, panels, row_tiles);
  struct lls_ahead ahead[LLS_AHEAD];
  memcpy(ahead, t->ahead, sizeof ahead);
  if (t->lead == 0) {
    multiply(w, NULL, t->panel_bytes, x, t->inputs, panels, row_tiles, packed, ahead);
  } else {
    /* inputs for which the prefetched ones are in the same panels */
    size_t near = t->inputs - t->lead;
    multiply(w, w + t->lead * input_bytes, t->panel_bytes, x, near, panels, row_tiles,
             packed, ahead);
    multiply(w + near * input_bytes, w + panels * t->panel_bytes, t->panel_bytes,
             x + near / TILE_DEPTH * row_tiles * TILE_BYTES, t->lead, panels, row_tiles,
             packed, ahead);
  }
  store_sums(sums, t->sum_stride, panels, row_tiles);
  SETTLE_MEMORY(sums);
}

INLINE void run(const struct lls_tile *t, const int row_tiles, enum lls_packed packed)
{
  size_t i = 0;
  for (; i + 2 <= t->panels; i += 2)
    part(t, i, 2, row_tiles, packed);
  if (i < t->panels)
    part(t, i, 1, row_tiles, packed);
}

static void tile_bf16(const struct lls_tile *t)
{
  if (t->rows <= TILE_ROWS)
    run(t, 1, LLS_PACKED_BF16);
  else
    run(t, 2, LLS_PACKED_BF16);
}

static void take_over(struct lls_linear_kernel *k, void (*tile)(const struct lls_tile *))
{
  k->row_block = ROW_BLOCK;
  k->max_rows = MAX_ROWS;
  k->row_unit = TILE_ROWS;
  k->x_bytes = sizeof(uint16_t);
  k->panels = 2;
  k->spread = true;
  k->begin = amx_begin;
  k->end = amx_end;
  k->pack = pack_tiles;
  k->skip = skip_tiles;
  k->tile = tile;
}

void lls_cpu_linear_amx(struct lls_cpu_linear_kernels *k)
{
  take_over(&k->of[LLS_PACKED_BF16], tile_bf16);
}
