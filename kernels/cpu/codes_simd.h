/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codes (codes.h) in registers of 256 bits, included by codes_avx2.c and
 * codes_avxvnni.c, which provide the product of half a record. Here are the loop around
 * it, the unpacking of codes and scales, and the quantising of x. A panel's 16 outputs
 * are two registers. Integers are exact, so both levels give the same bits.
 */
#ifndef LLS_CPU_CODES_SIMD_H
#define LLS_CPU_CODES_SIMD_H

#include "kernels/cpu/codes.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define MAX_ROWS 4
#define AHEAD    2048 /* bytes prefetched ahead where the weights stream by */

/* ---- a record's codes ------------------------------------------------------------ */

INLINE __m256i load(const char *p)
{
  return _mm256_loadu_si256((const __m256i *)p);
}

/* Returns quad i of half a record of two or three bits. */
INLINE __m256i load_few(const char *record, const int half, const int i, const int v,
                        const bool three)
{
  __m256i four = load(record + (half * 2 + i / 4) * LLS_CODES_QUAD + v * 32);
  __m256i code =
      _mm256_and_si256(_mm256_srli_epi16(four, i % 4 * 2), _mm256_set1_epi8(3));
  if (!three)
    return code;
  __m256i third = load(record + lls_codes_high(3) + half * LLS_CODES_QUAD + v * 32);
  third = i <= 2 ? _mm256_slli_epi16(third, i <= 2 ? 2 - i : 0)
                 : _mm256_srli_epi16(third, i > 2 ? i - 2 : 0);
  return _mm256_or_si256(code, _mm256_and_si256(third, _mm256_set1_epi8(4)));
}

INLINE __m256i high_bits(__m256i v, const int i, const int wide)
{
  const int shift = i * wide; /* moves the bits to bit 4 */
  __m256i moved =
      shift <= 4 ? _mm256_slli_epi16(v, 4 - shift) : _mm256_srli_epi16(v, shift - 4);
  return _mm256_and_si256(moved, _mm256_set1_epi8(wide == 1 ? 16 : 48));
}

/* Quad i of the record's `half`, outputs 8 v to 8 v + 7: unpacked, still with the
 * zero. */
INLINE __m256i load_stored(const char *record, const int half, const int i, const int v,
                           enum lls_packed packed, __m256i table)
{
  if (lls_codes_layout(packed).bits == 8)
    return load(record + (half * 8 + i) * LLS_CODES_QUAD + v * 32);
  if (lls_codes_layout(packed).bits < 4) {
    __m256i few = load_few(record, half, i, v, lls_codes_layout(packed).bits == 3);
    return lls_codes_listed(packed) ? _mm256_shuffle_epi8(table, few) : few;
  }
  __m256i two = load(record + (half * 4 + i / 2) * LLS_CODES_QUAD + v * 32);
  __m256i code = _mm256_and_si256(i % 2 == 0 ? two : _mm256_srli_epi16(two, 4),
                                  _mm256_set1_epi8(15));
  if (lls_codes_listed(packed))
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

INLINE __m256 load_halves(const char *p)
{
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

/* Returns a group's scales or offsets, outputs 8 v on; BLOCK formats store multiples of
 * `block`. */
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

/* Returns a block's scale (i = 0) or offset, of formats that have them. */
INLINE __m256 load_block(const char *tail, const int i, const int v,
                         enum lls_packed packed)
{
  const size_t of_8 = 8 * sizeof(uint16_t);
  return lls_codes_tail(packed) == 0 ? _mm256_setzero_ps()
                                     : load_halves(tail + (size_t)(2 * i + v) * of_8);
}

/* The scale and the offset of a scale group in half a record; outputs 8 v on. */
INLINE __m256 load_scale(const char *record, const char *tail, const int half,
                         const int part, const int v, enum lls_packed packed)
{
  const int parts = lls_codes_layout(packed).groups / 2;
  const char *scales = record + lls_codes_bytes(packed);
  return load_scales(scales +
                         (size_t)(half * parts + part) * lls_codes_group_bytes(packed),
                     v, packed, load_block(tail, 0, v, packed));
}

INLINE __m256 load_offset(const char *record, const char *tail, const int half,
                          const int part, const int v, enum lls_packed packed)
{
  const int parts = lls_codes_layout(packed).groups / 2;
  const char *offsets = record + lls_codes_bytes(packed) + lls_codes_scale_bytes(packed);
  return load_scales(offsets +
                         (size_t)(half * parts + part) * lls_codes_group_bytes(packed),
                     v, packed, load_block(tail, 1, v, packed));
}

/* The sum of a row's inputs that share an offset. */
INLINE __m256 sum_of_part(const struct lls_codes_x *x, const int part,
                          enum lls_packed packed)
{
  return _mm256_set1_ps(
      lls_codes_layout(packed).groups == 2 ? x->sum : x->scale * (float)x->start[part]);
}

INLINE __m256i load_table(const uint8_t *table)
{
  return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
}

/* Four inputs of a row, broadcast for all outputs. */
INLINE __m256i quad_of(const struct lls_codes_x *x, const int i)
{
  int32_t quad;
  memcpy(&quad, x->code + 4 * i, sizeof quad);
  return _mm256_set1_epi32(quad);
}

/* ---- products -------------------------------------------------------------------- */

/* The range of a table's numbers decides how they can be multiplied. */
enum table_kind { TABLE_EVEN /* -8 to 7 */, TABLE_SMALL /* -16 to 16 */, TABLE_WIDE };

/* Provided by the including file: adds half a record times the rows, scaled, to their
 * sums (rows, 2). */
INLINE void add_half(const char *record, const char *tail, int half,
                     const struct lls_codes_x *x, int rows, enum lls_packed packed,
                     enum table_kind kind, const uint8_t *table, __m256 *sum);
INLINE enum table_kind kind_of(const uint8_t *table);

/* Multiplies one panel; prefetches as many bytes from `ahead` on. */
INLINE void multiply(const struct lls_tile *t, const char *record, const char *ahead,
                     float *sums, const int rows, enum lls_packed packed,
                     const enum table_kind kind)
{
  const size_t bytes = lls_codes_record(packed), records = lls_codes_records(packed);
  const struct lls_codes_x *x = t->x;
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
      add_half(record, tail, 0, x, rows, packed, kind, t->table, sum);
      add_half(record, tail, 1, x + rows, rows, packed, kind, t->table, sum);
    }
    record += lls_codes_tail(packed);
    ahead += ahead != NULL ? record - first : 0;
  }
  UNROLL
  for (int i = 0; i < 2 * rows; i++)
    _mm256_storeu_ps(sums + i * 8, sum[i]);
}

/* Panels follow each other in memory, so a panel prefetches the next one. */
INLINE void run(const struct lls_tile *t, const int rows, enum lls_packed packed,
                const enum table_kind kind)
{
  for (size_t p = 0; p < t->panels; p++) {
    const char *panel = t->weight + p * t->panel_bytes;
    const char *ahead = t->lead == 0          ? NULL
                        : t->lead < t->inputs ? panel + AHEAD
                                              : panel + t->panels * t->panel_bytes;
    multiply(t, panel, ahead, t->sums + p * t->sum_stride, rows, packed, kind);
  }
}

INLINE void run_rows(const struct lls_tile *t, enum lls_packed packed,
                     const enum table_kind kind)
{
  switch (t->rows) {
  case 1:
    return run(t, 1, packed, kind);
  case 2:
    return run(t, 2, packed, kind);
  case 3:
    return run(t, 3, packed, kind);
  default:
    return run(t, 4, packed, kind);
  }
}

INLINE void tile(const struct lls_tile *t, enum lls_packed packed)
{
  enum table_kind kind = lls_codes_listed(packed) ? kind_of(t->table) : TABLE_SMALL;
  if (kind == TABLE_EVEN && packed == LLS_PACKED_CODES4)
    run_rows(t, packed, TABLE_EVEN);
  else if (kind == TABLE_WIDE)
    run_rows(t, packed, TABLE_WIDE);
  else
    run_rows(t, packed, TABLE_SMALL);
}

/* ---- x --------------------------------------------------------------------------- */

INLINE int32_t sum_of(__m256i v)
{
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1)));
}

/* Returns the largest of 32 magnitudes; infinite or NaN if any value is: as integers
 * their bits are the largest. */
INLINE float largest_of(const __m256 x[4])
{
  const __m256i positive = _mm256_set1_epi32(0x7fffffff);
  __m256i bits = _mm256_setzero_si256();
  UNROLL
  for (int i = 0; i < 4; i++)
    bits = _mm256_max_epi32(bits, _mm256_and_si256(_mm256_castps_si256(x[i]), positive));
  __m128i most =
      _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1));
  return _mm_cvtss_f32(_mm_castsi128_ps(most));
}

INLINE void quantise(const __m256 x[4], enum lls_packed packed, struct lls_codes_x *out)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  float largest = largest_of(x);
  __m256 inverse = _mm256_set1_ps(largest > 1e-30f ? 127 / largest : 0);
  __m256i code[4];
  UNROLL
  for (int i = 0; i < 4; i++)
    code[i] = _mm256_cvtps_epi32(_mm256_mul_ps(x[i], inverse));
  /* Packing works within halves of registers: fours of codes come out as 0 4 1 5 2 6 3 7.
   */
  __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(code[0], code[1]),
                                     _mm256_packs_epi32(code[2], code[3]));
  bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256((__m256i *)out->code, bytes);
  /* Codes of non-finite values are arbitrary, and their sums may overflow: unsigned. */
  unsigned first = (unsigned)sum_of(_mm256_add_epi32(code[0], code[1]));
  unsigned second = (unsigned)sum_of(_mm256_add_epi32(code[2], code[3]));
  out->scale = largest - largest == 0 ? largest / 127 : largest - largest;
  out->sum = out->scale * (float)(int32_t)(first + second);
  unsigned of_first = layout.groups == 2 ? first + second : first;
  out->start[0] = (int32_t)(lls_codes_start(layout) * of_first);
  out->start[1] = (int32_t)(lls_codes_start(layout) * second);
}

/* (inputs / 32, n_rows) */
INLINE void quantise_rows(const float *x, size_t stride, size_t n_rows, size_t columns,
                          size_t inputs, enum lls_packed packed, struct lls_codes_x *out)
{
  for (size_t k = 0; k < inputs; k += LLS_CODES_GROUP) {
    for (size_t row = 0; row < n_rows; row++) {
      const float *from = x + row * stride + k;
      __m256 of[4];
      UNROLL
      for (size_t i = 0; i < 4; i++)
        of[i] = columns > k + i * LANES ? vget(from + i * LANES, columns - k - i * LANES)
                                        : vzero();
      quantise(of, packed, out++);
    }
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
    quantise_rows(x, stride, n_rows, columns, inputs, packed, out);                      \
  }
LLS_CODES_FORMATS(FORMAT)

INLINE void enter_codes(struct lls_cpu_linear_kernels *k)
{
#define ENTER(name, packed, many)                                                        \
  k->of[packed].tile = tile_##name;                                                      \
  k->of[packed].pack = pack_##name;
  LLS_CODES_FORMATS(ENTER)
  for (int i = LLS_PACKED_CODES8; i < LLS_N_PACKED; i++) {
    k->of[i].max_rows = MAX_ROWS;
    k->of[i].panels = 1;
  }
}

#endif
