/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of codes (codes.h) with AVX512-VNNI: an instruction adds four products of
 * bytes, unsigned codes of weights times signed ones of x, in each of 16 lanes.
 *
 * Few rows: eight registers hold 32 inputs of a panel's 16 outputs, unpacked once for all
 * rows of the group; each row takes eight such instructions, x broadcast from memory, and
 * three that make the sum a float, scale it and add it to the row's. One row of CODES4:
 * 9 bytes of weights for 32 operations, at 4 GHz some 100 GB/s a core: memory's limit.
 *
 * Many: two panels of bytes at a time, each quad of x broadcast once for both.
 */
#include "kernels/cpu/ahead.h"
#include "kernels/cpu/codes_avx512.h"
#include "kernels/cpu/cpu.h"

#define MAX_ROWS  6
#define ROW_BLOCK 258
#define AHEAD     3072 /* bytes prefetched ahead where weights stream by; bench/linear */
/* Memory prefetched this far ahead goes to L2, since L1 has space for the present
 * product's lines only. */
#define FAR 4096

/* ---- products -------------------------------------------------------------------- */

/* Adds half a record times all rows to their sums. It takes one quad for all rows
 * before the next quad, so that no instruction waits for the one before it. */
INLINE void add_rows(const __m512i w[8], const __m512 scale[2], const __m512 offset[2],
                     const struct lls_codes_x *x, const int rows, enum lls_packed packed,
                     __m512 *sum)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const int parts = layout.groups / 2, n = 8 / parts;
  UNROLL
  for (int part = 0; part < parts; part++) {
    __m512i whole[MAX_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
      whole[r] =
          layout.zero == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(x[r].start[part]);
    UNROLL
    for (int i = part * n; i < part * n + n; i++) {
      UNROLL
      for (int r = 0; r < rows; r++) {
        int32_t quad;
        memcpy(&quad, x[r].code + 4 * i, sizeof quad);
        whole[r] = _mm512_dpbusd_epi32(whole[r], w[i], _mm512_set1_epi32(quad));
      }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
      sum[r] =
          _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[r]),
                          _mm512_mul_ps(scale[part], _mm512_set1_ps(x[r].scale)), sum[r]);
  }
  if (!layout.offset)
    return;
  UNROLL
  for (int part = 0; part < parts; part++) {
    UNROLL
    for (int r = 0; r < rows; r++) {
      float of_part = parts == 1 ? x[r].sum : x[r].scale * (float)x[r].start[part];
      sum[r] = _mm512_fmadd_ps(offset[part], _mm512_set1_ps(of_part), sum[r]);
    }
  }
}

/* The memory that a tile's panels prefetch while they are multiplied: each as many
 * bytes as its own, from `stream` on (NULL: none); or, in a tile that spreads, all
 * together `ahead`. */
struct wants {
  const char *stream;
  struct lls_ahead ahead[LLS_AHEAD];
  size_t share[LLS_AHEAD];
};

/* A block's scales follow its last record. */
INLINE const char *tail_of(const char *panel, size_t k, enum lls_packed packed)
{
  const size_t block = lls_codes_records(packed) * LLS_CODES_STEP;
  return panel + lls_codes_at(packed, (k / block + 1) * block) - lls_codes_tail(packed);
}

INLINE bool last_of_block(size_t k, enum lls_packed packed)
{
  return lls_codes_tail(packed) > 0 &&
         k / LLS_CODES_STEP % LLS_CODES_BLOCK_RECORDS == LLS_CODES_BLOCK_RECORDS - 1;
}

/*
 * One panel. Codes of 8 bits rely on the hardware prefetcher (suit_zen4), which works
 * where lines are read in their order: compilers keep to it where both halves stand in
 * this loop and move x on themselves. In a function for a record gcc turned them
 * around, and one row took half as long again.
 */
INLINE void multiply(const struct lls_tile *t, const char *panel, struct wants *wants,
                     float *sums, const int rows, enum lls_packed packed)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const int parts = layout.groups / 2;
  const size_t bytes = lls_codes_record(packed), group = lls_codes_group_bytes(packed);
  const struct lls_codes_x *x = t->x;
  const char *record = panel, *stream = wants->stream;
  __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)t->table));
  __m512 sum[MAX_ROWS];
  UNROLL
  for (int r = 0; r < rows; r++)
    sum[r] = t->more ? _mm512_loadu_ps(sums + r * LLS_PANEL) : _mm512_setzero_ps();
  for (size_t k = 0; k < t->inputs; k += LLS_CODES_STEP) {
    const bool last = last_of_block(k, packed);
    const char *asked = stream != NULL ? stream + lls_codes_at(packed, k) : NULL;
    __m512 block[2];
    UNROLL
    for (size_t line = 0; asked != NULL && line < bytes; line += 64) {
      if (t->stream_ahead < FAR)
        _mm_prefetch(asked + line, _MM_HINT_T0);
      else
        _mm_prefetch(asked + line, _MM_HINT_T1);
    }
    if (asked == NULL)
      ask(wants->ahead, wants->share);
    else if (last)
      _mm_prefetch(asked + bytes, _MM_HINT_T1);
    load_block(tail_of(panel, k, packed), packed, block);
    UNROLL
    for (int half = 0; half < 2; half++) {
      const char *scales =
          record + lls_codes_bytes(packed) + (size_t)(half * parts) * group;
      __m512i w[8];
      __m512 scale[2], offset[2];
      load_codes(record, half, packed, table, w);
      UNROLL
      for (int i = 0; i < parts; i++) {
        scale[i] = load_scales(scales + (size_t)i * group, packed, block[0]);
        if (layout.offset)
          offset[i] =
              load_scales(scales + (size_t)i * group + lls_codes_scale_bytes(packed),
                          packed, block[1]);
      }
      add_rows(w, scale, offset, x, rows, packed, sum);
      x += rows;
    }
    record += bytes + (last ? lls_codes_tail(packed) : 0);
  }
  UNROLL
  for (int r = 0; r < rows; r++)
    _mm512_storeu_ps(sums + r * LLS_PANEL, sum[r]);
}

/* ---- many rows: two panels of bytes at once -------------------------------------- */

/* Adds the inputs of one scale times the rows, for both panels. Each quad of x is
 * broadcast once for the two. */
INLINE void multiply_part(const char *const quads[2], const struct lls_codes_x *x,
                          const int part, const int rows, enum lls_packed packed,
                          __m512i whole[2][MAX_ROWS])
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const int n = 8 / (layout.groups / 2);
  UNROLL
  for (int r = 0; r < rows; r++)
    whole[0][r] = whole[1][r] =
        layout.zero == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(x[r].start[part]);
  UNROLL
  for (int i = part * n; i < part * n + n; i++) {
    __m512i w[2] = {load(quads[0] + i * LLS_CODES_QUAD),
                    load(quads[1] + i * LLS_CODES_QUAD)};
    UNROLL
    for (int r = 0; r < rows; r++) {
      int32_t quad;
      memcpy(&quad, x[r].code + 4 * i, sizeof quad);
      whole[0][r] = _mm512_dpbusd_epi32(whole[0][r], w[0], _mm512_set1_epi32(quad));
      whole[1][r] = _mm512_dpbusd_epi32(whole[1][r], w[1], _mm512_set1_epi32(quad));
    }
  }
}

/* Adds one panel's products of a scale group, scaled, to its sums. The sums stay in
 * memory, because the registers hold 12 products and their operands. */
INLINE void add_part(const char *record, const int half, const int part,
                     const struct lls_codes_x *x, const int rows, enum lls_packed packed,
                     const __m512i whole[MAX_ROWS], float *sums)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const int parts = layout.groups / 2;
  const __m512 none = _mm512_setzero_ps(); /* codes of 8 bits have no blocks */
  const char *scales = record + lls_codes_bytes(packed) +
                       (size_t)(half * parts + part) * lls_codes_group_bytes(packed);
  __m512 scale = load_scales(scales, packed, none), offset = none;
  if (layout.offset)
    offset = load_scales(scales + lls_codes_scale_bytes(packed), packed, none);
  UNROLL
  for (int r = 0; r < rows; r++) {
    __m512 sum = _mm512_loadu_ps(sums + r * LLS_PANEL);
    sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[r]),
                          _mm512_mul_ps(scale, _mm512_set1_ps(x[r].scale)), sum);
    if (layout.offset)
      sum = _mm512_fmadd_ps(offset, _mm512_set1_ps(x[r].sum), sum);
    _mm512_storeu_ps(sums + r * LLS_PANEL, sum);
  }
}

/*
 * The loop of prefill. For 32 inputs of 6 rows: 96 instructions of 64 products each, and
 * 24 that scale and add, which the same two units execute: 80 % of the integer rate at
 * most (measured: 820 of 1,020 GOP/s on a Zen 5 core). In addition 96 loads from L1, 16
 * of which read the weights' 1,024 bytes.
 */
INLINE void multiply_pair(const struct lls_tile *t, const int rows,
                          enum lls_packed packed)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const size_t bytes = lls_codes_record(packed);
  const char *record[2] = {t->weight, t->weight + t->panel_bytes};
  float *sums[2] = {t->sums, t->sums + t->sum_stride};
  const struct lls_codes_x *x = t->x;
  struct lls_ahead ahead[LLS_AHEAD];
  size_t share[LLS_AHEAD];
  memcpy(ahead, t->ahead, sizeof ahead);
  share_out(ahead, t->inputs / LLS_CODES_STEP, share);
  for (int r = 0; r < 2 * rows && !t->more; r++)
    _mm512_storeu_ps(sums[r % 2] + r / 2 * LLS_PANEL, _mm512_setzero_ps());
  for (size_t k = 0; k < t->inputs; k += LLS_CODES_STEP) {
    ask(ahead, share);
    for (int half = 0; half < 2; half++, x += rows) {
      const char *quads[2] = {record[0] + half * 512, record[1] + half * 512};
      UNROLL
      for (int part = 0; part < layout.groups / 2; part++) {
        __m512i whole[2][MAX_ROWS];
        multiply_part(quads, x, part, rows, packed, whole);
        add_part(record[0], half, part, x, rows, packed, whole[0], sums[0]);
        add_part(record[1], half, part, x, rows, packed, whole[1], sums[1]);
      }
    }
    record[0] += bytes;
    record[1] += bytes;
  }
}

/* A panel that streams by prefetches from here on. Panels follow each other in memory,
 * so the next panel is ahead of this one. */
INLINE const char *stream_of(const struct lls_tile *t, const char *panel)
{
  if (t->lead == 0 || t->stream_ahead == 0)
    return NULL;
  return panel + (t->lead < t->inputs ? t->stream_ahead : t->panels * t->panel_bytes);
}

INLINE void run(const struct lls_tile *t, const int rows, enum lls_packed packed)
{
  if (lls_codes_layout(packed).bits == 8 && rows >= 4 && t->lead == 0 && t->panels == 2) {
    multiply_pair(t, rows, packed);
    return;
  }
  struct wants wants = {0};
  if (t->lead == 0) {
    memcpy(wants.ahead, t->ahead, sizeof wants.ahead);
    share_out(wants.ahead, t->panels * t->inputs / LLS_CODES_STEP, wants.share);
  }
  for (size_t p = 0; p < t->panels; p++) {
    const char *panel = t->weight + p * t->panel_bytes;
    wants.stream = stream_of(t, panel);
    multiply(t, panel, &wants, t->sums + p * t->sum_stride, rows, packed);
  }
}

INLINE void tile(const struct lls_tile *t, enum lls_packed packed)
{
  switch (t->rows) {
  case 1:
    return run(t, 1, packed);
  case 2:
    return run(t, 2, packed);
  case 3:
    return run(t, 3, packed);
  case 4:
    return run(t, 4, packed);
  case 5:
    return run(t, 5, packed);
  default:
    return run(t, 6, packed);
  }
}

/* ---- the table ------------------------------------------------------------------- */

#define FORMAT(name, packed, many)                                                       \
  static void tile_##name(const struct lls_tile *t)                                      \
  {                                                                                      \
    tile(t, packed);                                                                     \
  }                                                                                      \
  static void pack_##name(const float *x, size_t stride, size_t n_rows, size_t columns,  \
                          size_t inputs, void *out)                                      \
  {                                                                                      \
    quantise_rows(x, stride, n_rows, columns, inputs, packed, n_rows, out);              \
  }                                                                                      \
  static void expand_##name(const char *panel, size_t inputs, const uint8_t *table,      \
                            const char *next, char *out)                                 \
  {                                                                                      \
    (void)next; /* the tiles prefetch it, a few lines at a time */                       \
    expand(panel, inputs, table, 0, out, packed, many);                                  \
  }
LLS_CODES_FORMATS(FORMAT)

/*
 * Zen 4 executes a 512-bit instruction in two halves, and unpacks in two of its four
 * units, which do not multiply: unpacking codes again for each group costs nothing
 * there up to about 64 rows (16 rows of 4 bits: 120 instead of 131 ms of two cores),
 * beyond that broadcasting x for one panel costs more. Its L1 can have 24 lines
 * outstanding at most, so memory is prefetched into L2; codes of 8 bits, read line by
 * line, rely on the hardware prefetcher (one row of 1.1B: 40 instead of 36 tokens/s).
 */
static void suit_zen4(struct lls_linear_kernel *k, unsigned bits)
{
  k->own_rows = 64;
  k->stream_ahead = bits == 8 ? 0 : 6144;
}

void lls_cpu_codes_avx512(struct lls_cpu_linear_kernels *k)
{
  __builtin_cpu_init();
  /* the same family as Zen 3, which has no AVX-512 */
  bool zen4 = __builtin_cpu_is("amdfam19h");
#define ENTER(name, packed, many)                                                        \
  k->of[packed].tile = tile_##name;                                                      \
  k->of[packed].pack = pack_##name;                                                      \
  k->of[packed].expand = (packed) == (many) ? NULL : expand_##name;                      \
  k->of[packed].expanded = many;
  LLS_CODES_FORMATS(ENTER)
  for (int i = LLS_PACKED_CODES8; i < LLS_N_PACKED; i++) {
    k->of[i].max_rows = MAX_ROWS;
    k->of[i].row_block = ROW_BLOCK;
    k->of[i].panels = 2;
    k->of[i].spread = true;
    k->of[i].stream_ahead = AHEAD;
    if (zen4)
      suit_zen4(&k->of[i], lls_codes_layout((enum lls_packed)i).bits);
  }
}
