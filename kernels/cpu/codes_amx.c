/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of codes (codes.h) with many rows on AMX (amx.h): a B tile holds the quads
 * of a group as an expanded record has them, A 16 rows of x, C integers. A few rows are
 * left to AVX-512: there the memory bandwidth is the limit, which tiles would not
 * raise.
 *
 * A tile could hold 64 inputs, but only inputs that share a scale are multiplied at
 * once: 32, 16 in the short formats. An instruction takes 16 cycles for its 16 rows
 * whatever their depth, so filling up with zeros would be no faster; tiles are
 * configured half or a quarter as deep instead, and need no zeros. After each, C goes
 * through the first-level cache into 16 registers, the sums of 16 rows. For 16 rows x
 * 16 outputs x 32 inputs:
 *
 *   tiles       16 cycles  one product
 *   stores      16         C's rows
 *   vectors     24         16 x (to float, scale of weights x scale of x, add), two ports
 *   loads       28         16 of A, 8 of B, 16 of C, 16 scales of x, two ports
 *
 * If they overlapped, with C of one group scaled while the next is multiplied, this
 * would be 585 operations a cycle of the tiles' 2,048; AVX512-VNNI reaches 205 of 256.
 * They do not overlap: prefill of 512 is 1.5 times AVX512-VNNI's, not 2.9 (bench/engine
 * -i, and why: experiments/results/peer.md). Sums of 32 rows would halve B's loads, but
 * not fit into the registers.
 *
 * Integers are exact and are scaled as on AVX-512, so both levels give the same bits.
 */
#include "kernels/cpu/ahead.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/codes_avx512.h"
#include "kernels/cpu/cpu.h"

#define ROW_BLOCK 528 /* whole tiles of rows, and whole groups of the AVX-512 kernel */
#define PANELS    2
/* Tile registers, two sets for even and odd groups. */
#define C0 0
#define C1 1
#define A0 2
#define A1 3
#define B0 4
#define B1 5

/* ---- x --------------------------------------------------------------------------- */

static size_t skip_tiles(size_t n_rows, size_t k)
{
  size_t rows = (n_rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
  return k / LLS_CODES_GROUP * rows * sizeof(struct lls_codes_x);
}

/* (inputs / 32, 16); missing rows are zero. */
static void pack_tiles(const float *x, size_t stride, size_t n_rows, size_t columns,
                       size_t inputs, void *out)
{
  struct lls_codes_x *to = out;
  for (size_t k = 0; k < inputs; k += LLS_CODES_GROUP)
    memset(to + k / LLS_CODES_GROUP * TILE_ROWS + n_rows, 0,
           (TILE_ROWS - n_rows) * sizeof *to);
  quantise_rows(x, stride, n_rows, columns, inputs, LLS_PACKED_SIGNED8, TILE_ROWS, to);
}

/* ---- products -------------------------------------------------------------------- */

/* Integer products of a group, (16 rows, 16 outputs), before they are scaled. */
struct whole {
  int32_t sum[TILE_ROWS * LLS_PANEL];
} __attribute__((aligned(64)));

/* Multiplies a group. A's rows are where pack_tiles put the codes of each row. */
INLINE void multiply_group(const char *quads, const int8_t *x, const int odd,
                           struct whole *out)
{
#define PRODUCT(c, a, b)                                                                 \
  _tile_zero(c);                                                                         \
  _tile_loadd(a, x, sizeof(struct lls_codes_x));                                         \
  _tile_loadd(b, quads, LLS_CODES_QUAD);                                                 \
  _tile_dpbssd(c, a, b);                                                                 \
  _tile_stored(c, out->sum, LLS_PANEL * sizeof(int32_t));
  if (odd) {
    PRODUCT(C1, A1, B1)
  } else {
    PRODUCT(C0, A0, B0)
  }
#undef PRODUCT
  SETTLE_MEMORY(out);
}

INLINE void scale_group(const struct whole *whole, const char *scales,
                        const struct lls_codes_x *x, enum lls_packed packed,
                        __m512 sum[TILE_ROWS])
{
  const __m512 none = _mm512_setzero_ps(); /* codes of 8 bits have no blocks */
  __m512 scale = load_scales(scales, packed, none);
  UNROLL
  for (int r = 0; r < TILE_ROWS; r++) {
    __m512 product = _mm512_cvtepi32_ps(_mm512_load_si512(whole->sum + r * LLS_PANEL));
    sum[r] = _mm512_fmadd_ps(product, _mm512_mul_ps(scale, _mm512_set1_ps(x[r].scale)),
                             sum[r]);
  }
  if (!lls_codes_layout(packed).offset)
    return;
  __m512 offset = load_scales(scales + lls_codes_scale_bytes(packed), packed, none);
  UNROLL
  for (int r = 0; r < TILE_ROWS; r++)
    sum[r] = _mm512_fmadd_ps(offset, _mm512_set1_ps(x[r].sum), sum[r]);
}

/* Multiplies one panel with 16 rows. Each group is scaled after the next one's product
 * began. */
INLINE void multiply(const struct lls_tile *t, const char *record, float *sums,
                     struct lls_ahead ahead[LLS_AHEAD], enum lls_packed packed)
{
  const int groups = lls_codes_layout(packed).groups;
  const size_t depth = LLS_CODES_STEP / (size_t)groups;
  const struct lls_codes_x *x = t->x, *x_before = NULL;
  const char *scales_before = NULL;
  struct whole whole[2];
  __m512 sum[TILE_ROWS];
  size_t share[LLS_AHEAD];
  share_out(ahead, t->inputs / LLS_CODES_STEP * t->panels, share);
  UNROLL
  for (int r = 0; r < TILE_ROWS; r++)
    sum[r] = t->more ? _mm512_loadu_ps(sums + r * LLS_PANEL) : _mm512_setzero_ps();
  for (size_t k = 0; k < t->inputs; k += LLS_CODES_STEP) {
    const char *scales = record + lls_codes_bytes(packed);
    ask(ahead, share);
    UNROLL
    for (int g = 0; g < groups; g++) {
      size_t input = (size_t)g * depth;
      multiply_group(record + input * LLS_PANEL,
                     x[input / LLS_CODES_GROUP * TILE_ROWS].code +
                         input % LLS_CODES_GROUP,
                     g % 2, &whole[g % 2]);
      if (x_before != NULL)
        scale_group(&whole[(g + 1) % 2], scales_before, x_before, packed, sum);
      scales_before = scales + (size_t)g * lls_codes_group_bytes(packed);
      x_before = x + input / LLS_CODES_GROUP * TILE_ROWS;
    }
    record += lls_codes_record(packed);
    x += LLS_CODES_STEP / LLS_CODES_GROUP * TILE_ROWS;
  }
  scale_group(&whole[1], scales_before, x_before, packed, sum);
  UNROLL
  for (int r = 0; r < TILE_ROWS; r++)
    _mm512_storeu_ps(sums + r * LLS_PANEL, sum[r]);
}

INLINE void tile(const struct lls_tile *t, enum lls_packed packed)
{
  struct lls_ahead ahead[LLS_AHEAD];
  memcpy(ahead, t->ahead, sizeof ahead);
  for (size_t p = 0; p < t->panels; p++)
    multiply(t, t->weight + p * t->panel_bytes, t->sums + p * t->sum_stride, ahead,
             packed);
}

/* ---- the table ------------------------------------------------------------------- */

/* Configures the tiles: A's rows are the inputs of a group, B's rows are quads. */
INLINE void begin(enum lls_packed packed)
{
  const uint8_t depth = LLS_CODES_STEP / lls_codes_layout(packed).groups;
  const struct amx_shape c = {TILE_ROWS, LLS_CODES_QUAD}, a = {TILE_ROWS, depth},
                         b = {depth / 4, LLS_CODES_QUAD};
  amx_configure((const struct amx_shape[8]){
      [C0] = c, [C1] = c, [A0] = a, [A1] = a, [B0] = b, [B1] = b});
}

#define SIGNED_FORMATS(F)                                                                \
  F(signed8, LLS_PACKED_SIGNED8)                                                         \
  F(signed8_wide, LLS_PACKED_SIGNED8_WIDE)                                               \
  F(signed8_offset, LLS_PACKED_SIGNED8_OFFSET)                                           \
  F(signed8_short, LLS_PACKED_SIGNED8_SHORT)

#define FORMAT(name, packed)                                                             \
  static void begin_##name(void)                                                         \
  {                                                                                      \
    begin(packed);                                                                       \
  }                                                                                      \
  static void tile_##name(const struct lls_tile *t)                                      \
  {                                                                                      \
    tile(t, packed);                                                                     \
  }
SIGNED_FORMATS(FORMAT)

INLINE enum lls_packed signed_of(enum lls_packed packed)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  if (layout.offset)
    return LLS_PACKED_SIGNED8_OFFSET;
  if (layout.groups == 4)
    return LLS_PACKED_SIGNED8_SHORT;
  return layout.scales == LLS_SCALES_HALF ? LLS_PACKED_SIGNED8 : LLS_PACKED_SIGNED8_WIDE;
}

#define EXPANSION(name, packed, many)                                                    \
  static void expand_##name(const char *panel, size_t inputs, const uint8_t *table,      \
                            const char *next, char *out)                                 \
  {                                                                                      \
    (void)next; /* the tiles prefetch it, a few lines at a time */                       \
    expand(panel, inputs, table, lls_codes_layout(packed).zero, out, packed,             \
           signed_of(packed));                                                           \
  }
LLS_CODES_FORMATS(EXPANSION)

void lls_cpu_codes_amx(struct lls_cpu_linear_kernels *k)
{
#define ENTER(name, packed, many)                                                        \
  k->of[packed].row_block = ROW_BLOCK;                                                   \
  if ((packed) != LLS_PACKED_CODES2_SHORT) { /* AVX-512 multiplies these */              \
    k->of[packed].expand = expand_##name;                                                \
    k->of[packed].expanded = signed_of(packed);                                          \
  }
  LLS_CODES_FORMATS(ENTER)
#define ENTER_SIGNED(name, packed)                                                       \
  k->of[packed].tile = tile_##name;                                                      \
  k->of[packed].begin = begin_##name;
  SIGNED_FORMATS(ENTER_SIGNED)
  for (int i = LLS_PACKED_SIGNED8; i < LLS_N_PACKED; i++) {
    k->of[i].row_block = ROW_BLOCK;
    k->of[i].max_rows = TILE_ROWS;
    k->of[i].row_unit = TILE_ROWS;
    k->of[i].panels = PANELS;
    k->of[i].spread = true;
    k->of[i].pack = pack_tiles;
    k->of[i].skip = skip_tiles;
    k->of[i].end = amx_end;
  }
}
