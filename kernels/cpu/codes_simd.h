/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of codes (codes.h) in 256 bits, included by codes_avx2.c and codes_avxvnni.c.
 *
 * AVX-VNNI adds four products of bytes, unsigned codes of weights times signed ones of x,
 * in 32 bits. Without it maddubs adds two in 16 bits, where 2 x 255 x 127 does not fit.
 * So what x multiplies are the magnitudes of the weights, up to 128, and x takes their
 * signs: 2 x 128 x 127 = 32,512 does. Formats with offsets have codes up to 31 and need
 * no sign. Whole numbers are exact: both make the same bits.
 *
 * A panel's 16 outputs are two registers. The 16 that there are hold 8 sums of rows, and
 * what four inputs take: for a row and 8 outputs one instruction with AVX-VNNI, four
 * without.
 */
#ifndef LLS_CPU_CODES_SIMD_H
#define LLS_CPU_CODES_SIMD_H

#include "kernels/cpu/codes.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define MAX_ROWS 4
#define AHEAD    2048 /* bytes asked for ahead where the weights stream by */

/* ---- a record's codes ------------------------------------------------------------ */

INLINE __m256i load(const char *p)
{
  return _mm256_loadu_si256((const __m256i *)p);
}

INLINE __m256i high_bits(__m256i v, const int i, const int wide)
{
  const int shift = i * wide; /* to come to 4 */
  __m256i moved =
      shift <= 4 ? _mm256_slli_epi16(v, 4 - shift) : _mm256_srli_epi16(v, shift - 4);
  return _mm256_and_si256(moved, _mm256_set1_epi8(wide == 1 ? 16 : 48));
}

/* Quad i of the record's `half`, outputs 8 v to 8 v + 7; as stored, unpacked. */
INLINE __m256i load_stored(const char *record, const int half, const int i, const int v,
                           enum lls_packed packed, __m256i table)
{
  if (lls_codes_layout(packed).bits == 8)
    return load(record + (half * 8 + i) * LLS_CODES_QUAD + v * 32);
  __m256i two = load(record + (half * 4 + i / 2) * LLS_CODES_QUAD + v * 32);
  __m256i code = _mm256_and_si256(i % 2 == 0 ? two : _mm256_srli_epi16(two, 4),
                                  _mm256_set1_epi8(15));
  if (packed == LLS_PACKED_CODES4)
    return _mm256_shuffle_epi8(table, code);
  if (lls_codes_layout(packed).bits == 5)
    return _mm256_or_si256(
        code, high_bits(load(record + 512 + half * LLS_CODES_QUAD + v * 32), i, 1));
  if (packed == LLS_PACKED_CODES6)
    return _mm256_or_si256(
        code, high_bits(load(record + 512 + (half * 2 + i / 4) * LLS_CODES_QUAD + v * 32),
                        i % 4, 2));
  return code;
}

/* ---- products -------------------------------------------------------------------- */

#ifdef __AVXVNNI__

/* Codes are multiplied as they are stored: a row's sums start with the zero's part. */
INLINE __m256i start_of(const struct lls_codes_x *x, const int part,
                        enum lls_packed packed)
{
  return lls_codes_layout(packed).zero == 0 ? _mm256_setzero_si256()
                                            : _mm256_set1_epi32(x->start[part]);
}

INLINE __m256i factor(__m256i stored, enum lls_packed packed)
{
  (void)packed;
  return stored;
}

/* sum + four products in each lane. */
INLINE __m256i add_quad(__m256i sum, __m256i w, int32_t quad, enum lls_packed packed)
{
  (void)packed;
  return _mm256_dpbusd_avx_epi32(sum, w, _mm256_set1_epi32(quad));
}

#else

INLINE __m256i start_of(const struct lls_codes_x *x, const int part,
                        enum lls_packed packed)
{
  (void)x;
  (void)part;
  (void)packed;
  return _mm256_setzero_si256();
}

/* Eight outputs' codes, less their zero. */
INLINE __m256i factor(__m256i stored, enum lls_packed packed)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  return layout.zero == 0 ? stored
                          : _mm256_sub_epi8(stored, _mm256_set1_epi8((char)layout.zero));
}

/* sum + four products in each lane. */
INLINE __m256i add_quad(__m256i sum, __m256i w, int32_t quad, enum lls_packed packed)
{
  __m256i x = _mm256_set1_epi32(quad);
  if (lls_codes_layout(packed).zero != 0) {
    x = _mm256_sign_epi8(x, w);
    w = _mm256_abs_epi8(w);
  }
  __m256i pairs = _mm256_maddubs_epi16(w, x);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#endif

INLINE __m256 load_halves(const char *p)
{
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

/* A group's scales or offsets, outputs 8 v on; `block`: what a block's are multiples of.
 */
INLINE __m256 load_scales(const char *p, const int v, enum lls_packed packed,
                          __m256 block)
{
  p += (size_t)v * lls_codes_group_bytes(packed) / 2;
  if (lls_codes_layout(packed).scales == LLS_SCALES_HALF)
    return load_halves(p);
  if (lls_codes_layout(packed).scales == LLS_SCALES_FLOAT)
    return _mm256_loadu_ps((const float *)p);
  __m256i whole = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(whole), block);
}

/* A block's scale (i = 0) or offset, of formats that have them. */
INLINE __m256 load_block(const char *tail, const int i, const int v,
                         enum lls_packed packed)
{
  const size_t of_8 = 8 * sizeof(uint16_t);
  return lls_codes_tail(packed) == 0 ? _mm256_setzero_ps()
                                     : load_halves(tail + (size_t)(2 * i + v) * of_8);
}

/* Quads [first, first + n) of half a record times the rows, scaled, onto their sums. */
INLINE void add_part(const char *record, const char *tail, const int half, const int part,
                     const struct lls_codes_x *x, const int v, const int rows,
                     enum lls_packed packed, __m256i table, __m256 *sum)
{
  const int parts = lls_codes_layout(packed).groups / 2, n = 8 / parts;
  __m256i whole[MAX_ROWS];
  UNROLL
  for (int r = 0; r < rows; r++)
    whole[r] = start_of(&x[r], part, packed);
  UNROLL
  for (int i = part * n; i < part * n + n; i++) {
    __m256i w = factor(load_stored(record, half, i, v, packed, table), packed);
    UNROLL
    for (int r = 0; r < rows; r++) {
      int32_t quad;
      memcpy(&quad, x[r].code + 4 * i, sizeof quad);
      whole[r] = add_quad(whole[r], w, quad, packed);
    }
  }
  __m256 scale =
      load_scales(record + lls_codes_bytes(packed) +
                      (size_t)(half * parts + part) * lls_codes_group_bytes(packed),
                  v, packed, load_block(tail, 0, v, packed));
  UNROLL
  for (int r = 0; r < rows; r++)
    sum[r * 2 + v] =
        _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole[r]),
                        _mm256_mul_ps(scale, _mm256_set1_ps(x[r].scale)), sum[r * 2 + v]);
}

INLINE void add_half(const char *record, const char *tail, const int half,
                     const struct lls_codes_x *x, const int rows, enum lls_packed packed,
                     __m256i table, __m256 *sum)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  UNROLL
  for (int v = 0; v < 2; v++) {
    UNROLL
    for (int part = 0; part < layout.groups / 2; part++)
      add_part(record, tail, half, part, x, v, rows, packed, table, sum);
    if (!layout.offset)
      continue;
    __m256 offset =
        load_scales(record + lls_codes_bytes(packed) + lls_codes_scale_bytes(packed) +
                        (size_t)half * lls_codes_group_bytes(packed),
                    v, packed, load_block(tail, 1, v, packed));
    UNROLL
    for (int r = 0; r < rows; r++)
      sum[r * 2 + v] = _mm256_fmadd_ps(offset, _mm256_set1_ps(x[r].sum), sum[r * 2 + v]);
  }
}

/* One panel; asks for as much memory from `ahead` on. */
INLINE void multiply(const struct lls_tile *t, const char *record, const char *ahead,
                     float *sums, const int rows, enum lls_packed packed)
{
  const size_t bytes = lls_codes_record(packed), records = lls_codes_records(packed);
  const struct lls_codes_x *x = t->x;
  __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)t->table));
  __m256 sum[2 * MAX_ROWS];
  UNROLL
  for (int i = 0; i < 2 * rows; i++)
    sum[i] = t->more ? _mm256_loadu_ps(sums + i * 8) : _mm256_setzero_ps();
  for (size_t k = 0; k < t->inputs; k += records * LLS_CODES_STEP) {
    const char *first = record, *tail = record + records * bytes;
    if (ahead != NULL && lls_codes_tail(packed) > 0)
      _mm_prefetch(ahead + (tail - first), _MM_HINT_T0);
    for (; record < tail; record += bytes, x += 2 * rows) {
      UNROLL
      for (size_t line = 0; ahead != NULL && line < bytes; line += 64)
        _mm_prefetch(ahead + (record - first) + line, _MM_HINT_T0);
      add_half(record, tail, 0, x, rows, packed, table, sum);
      add_half(record, tail, 1, x + rows, rows, packed, table, sum);
    }
    record += lls_codes_tail(packed);
    ahead += ahead != NULL ? record - first : 0;
  }
  UNROLL
  for (int i = 0; i < 2 * rows; i++)
    _mm256_storeu_ps(sums + i * 8, sum[i]);
}

/* Panels follow each other in memory, so what is ahead of one is the next. */
INLINE void run(const struct lls_tile *t, const int rows, enum lls_packed packed)
{
  for (size_t p = 0; p < t->panels; p++) {
    const char *panel = t->weight + p * t->panel_bytes;
    const char *ahead = t->lead == 0          ? NULL
                        : t->lead < t->inputs ? panel + AHEAD
                                              : panel + t->panels * t->panel_bytes;
    multiply(t, panel, ahead, t->sums + p * t->sum_stride, rows, packed);
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
  default:
    return run(t, 4, packed);
  }
}

/* ---- bytes for many rows --------------------------------------------------------- */

/* A record's scales, and offsets, as the expanded have them. */
INLINE void expand_scales(const char *record, const char *tail, enum lls_packed packed,
                          enum lls_packed many, char *out)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const char *scales = record + lls_codes_bytes(packed);
  if (lls_codes_layout(many).scales == LLS_SCALES_HALF) {
    memcpy(out, scales, lls_codes_record(packed) - lls_codes_bytes(packed));
    return;
  }
  UNROLL
  for (int i = 0; i < layout.groups * (1 + layout.offset); i++) {
    UNROLL
    for (int v = 0; v < 2; v++) {
      __m256 block = load_block(tail, i >= layout.groups, v, packed);
      const char *from = scales + (size_t)i * lls_codes_group_bytes(packed);
      _mm256_storeu_ps((float *)out + i * LLS_PANEL + v * 8,
                       load_scales(from, v, packed, block));
    }
  }
}

INLINE void expand(const char *record, size_t inputs, const uint8_t *table_bytes,
                   const char *next, char *out, enum lls_packed packed,
                   enum lls_packed many)
{
  const size_t bytes = lls_codes_record(packed), records = lls_codes_records(packed);
  __m256i table =
      _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table_bytes));
  for (size_t k = 0; k < inputs; k += records * LLS_CODES_STEP) {
    const char *tail = record + records * bytes;
    for (; record < tail; record += bytes, next += bytes, out += lls_codes_record(many)) {
      for (size_t line = 0; line < bytes; line += 64)
        _mm_prefetch(next + line, _MM_HINT_T1);
      UNROLL
      for (int i = 0; i < 32; i++) {
        __m256i code = load_stored(record, i / 16, i / 2 % 8, i % 2, packed, table);
        _mm256_storeu_si256((__m256i *)(out + i * 32), code);
      }
      expand_scales(record, tail, packed, many, out + LLS_CODES_CODES);
    }
    record += lls_codes_tail(packed);
    next += lls_codes_tail(packed);
  }
}

/* ---- the table ------------------------------------------------------------------- */

#define FORMAT(name, packed, many)                                                       \
  static void tile_##name(const struct lls_tile *t)                                      \
  {                                                                                      \
    tile(t, packed);                                                                     \
  }                                                                                      \
  static void expand_##name(const char *panel, size_t inputs, const uint8_t *table,      \
                            const char *next, char *out)                                 \
  {                                                                                      \
    expand(panel, inputs, table, next, out, packed, many);                               \
  }
LLS_CODES_FORMATS(FORMAT)

/* x is quantised by plain C. */
INLINE void enter_codes(struct lls_cpu_linear_kernels *k)
{
#define ENTER(name, packed, many)                                                        \
  k->of[packed].tile = tile_##name;                                                      \
  k->of[packed].expand = (packed) == (many) ? NULL : expand_##name;                      \
  k->of[packed].expanded = many;
  LLS_CODES_FORMATS(ENTER)
  for (int i = LLS_PACKED_CODES8; i < LLS_N_PACKED; i++) {
    k->of[i].max_rows = MAX_ROWS;
    k->of[i].panels = 1;
  }
}

#endif
