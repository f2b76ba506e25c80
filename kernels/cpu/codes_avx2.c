/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codes_simd.h for AVX2, whose product of bytes (maddubs: unsigned times signed) adds two
 * in 16 bits.
 *
 * Codes of up to 6 bits are small: as integers from 0 to m, 2 n products fit in 16 bits
 * while 2 n m 127 <= 32,767. So a row takes two instructions (product, addition) for a
 * quad and 8 outputs, and two more for every n quads: 8 with codes up to 15, 4 up to
 * 32, 2 up to 63. One core of a Zen 3 made 190, 157 and 126 GOP/s in a loop over L1
 * (experiments/results/peer.md), and 100 with codes of 8 bits.
 *
 * For 8-bit codes, and lists with larger numbers, 2 x 255 x 127 does not fit; magnitudes,
 * up to 128, are multiplied, and x takes their signs: four instructions for two products.
 *
 * Codes are unpacked again for each group of rows: storing them as bytes doubled the
 * loads, which cost as much.
 *
 * Both registers of a panel's outputs are multiplied at once, so that a quad of x is
 * broadcast once: broadcasts bound this loop (125 instead of 190 GOP/s with one each).
 */
#include "kernels/cpu/codes_simd.h"

/* gcc would compute all products before it adds any, and runs out of registers: 110
 * instead of 190 GOP/s. KEEP makes a sum stay where the source adds it. */
#define KEEP(v) __asm__("" : "+x"(v))

#define EVEN_ZERO  8  /* the zero of codes 0 to 15 for -8 to 7 */
#define TABLE_ZERO 16 /* added to a table's values, -16 to 16 (codes.c) */

/* Returns the number of quads whose products fit in 16 bits. */
INLINE int quads_that_fit(enum lls_packed packed, const enum table_kind kind)
{
  switch (packed) {
  case LLS_PACKED_CODES4_OFFSET:
  case LLS_PACKED_CODES4_BLOCK:
    return 8;
  case LLS_PACKED_CODES6:
  case LLS_PACKED_CODES8_SHORT:
    return 2;
  case LLS_PACKED_CODES4:
    return kind == TABLE_EVEN ? 8 : 4;
  default:
    return 4;
  }
}

/* Unpacks quad i for both registers of outputs, as integers from 0 on. */
INLINE void load_small(const char *record, const int half, const int i,
                       enum lls_packed packed, const enum table_kind kind, __m256i table,
                       __m256i w[2])
{
  UNROLL
  for (int v = 0; v < 2; v++)
    w[v] = load_stored(record, half, i, v,
                       kind == TABLE_EVEN ? LLS_PACKED_CODES4_OFFSET : packed, table);
}

/* Multiplies n quads, from `first` on, with the rows: sums of pairs in 16 bits. */
INLINE void multiply_small(const char *record, const int half, const int first,
                           const int n, const struct lls_codes_x *x, const int rows,
                           enum lls_packed packed, const enum table_kind kind,
                           __m256i table, __m256i *pairs)
{
  UNROLL
  for (int i = first; i < first + n; i++) {
    __m256i w[2];
    load_small(record, half, i, packed, kind, table, w);
    UNROLL
    for (int r = 0; r < rows; r++) {
      __m256i quad = quad_of(&x[r], i);
      UNROLL
      for (int v = 0; v < 2; v++) {
        __m256i product = _mm256_maddubs_epi16(w[v], quad);
        __m256i *sum = &pairs[2 * r + v];
        *sum = i == first ? product : _mm256_add_epi16(*sum, product);
        KEEP(*sum);
      }
    }
  }
}

/* Returns the start value of a row's 32-bit sums, which accounts for the codes' zero. For
 * lists x->start is computed for a zero of 128, so it is adapted to the codes' real
 * zero. */
INLINE __m256i start_of(const struct lls_codes_x *x, const int part,
                        enum lls_packed packed, const enum table_kind kind)
{
  int32_t start = x->start[part];
  if (lls_codes_listed(packed))
    start = start / 128 * (kind == TABLE_EVEN ? EVEN_ZERO : TABLE_ZERO);
  return _mm256_set1_epi32(start);
}

INLINE void add_small(const char *record, const int half, const int part,
                      const struct lls_codes_x *x, const int rows, enum lls_packed packed,
                      const enum table_kind kind, __m256i table, __m256i *whole)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const int n = 8 / (layout.groups / 2), fit = quads_that_fit(packed, kind);
  UNROLL
  for (int r = 0; r < 2 * rows; r++)
    whole[r] = layout.zero == 0 ? _mm256_setzero_si256()
                                : start_of(&x[r / 2], part, packed, kind);
  UNROLL
  for (int i = part * n; i < part * n + n; i += fit) {
    __m256i pairs[2 * MAX_ROWS];
    multiply_small(record, half, i, fit, x, rows, packed, kind, table, pairs);
    UNROLL
    for (int r = 0; r < 2 * rows; r++)
      whole[r] =
          _mm256_add_epi32(whole[r], _mm256_madd_epi16(pairs[r], _mm256_set1_epi16(1)));
  }
}

/* Are the codes multiplied as magnitudes? */
INLINE bool takes_magnitudes(enum lls_packed packed, const enum table_kind kind)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  return lls_codes_listed(packed) ? kind == TABLE_WIDE : layout.zero == 128;
}

/* Adds the products of inputs that share a scale, as magnitudes with signs. The table, of
 * formats that have one, has the numbers themselves. */
INLINE void add_signed(const char *record, const int half, const int part,
                       const struct lls_codes_x *x, const int rows,
                       enum lls_packed packed, __m256i table, __m256i *whole)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const int n = 8 / (layout.groups / 2);
  UNROLL
  for (int r = 0; r < 2 * rows; r++)
    whole[r] = _mm256_setzero_si256();
  UNROLL
  for (int i = part * n; i < part * n + n; i++) {
    UNROLL
    for (int v = 0; v < 2; v++) {
      __m256i stored = load_stored(record, half, i, v, packed, table);
      __m256i w = lls_codes_listed(packed)
                      ? stored
                      : _mm256_sub_epi8(stored, _mm256_set1_epi8(-128));
      __m256i magnitude = _mm256_abs_epi8(w);
      UNROLL
      for (int r = 0; r < rows; r++) {
        __m256i pairs =
            _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(quad_of(&x[r], i), w));
        __m256i *sum = &whole[2 * r + v];
        *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        KEEP(*sum);
      }
    }
  }
}

/* Adds the scaled products of one scale group to the rows' sums. */
INLINE void add_part(const char *record, const char *tail, const int half, const int part,
                     const struct lls_codes_x *x, const int rows, enum lls_packed packed,
                     const enum table_kind kind, __m256i table, __m256 *sum)
{
  __m256i whole[2 * MAX_ROWS];
  if (takes_magnitudes(packed, kind))
    add_signed(record, half, part, x, rows, packed, table, whole);
  else
    add_small(record, half, part, x, rows, packed, kind, table, whole);
  UNROLL
  for (int v = 0; v < 2; v++) {
    __m256 scale = load_scale(record, tail, half, part, v, packed);
    UNROLL
    for (int r = 0; r < rows; r++)
      sum[2 * r + v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole[2 * r + v]),
                                       _mm256_mul_ps(scale, _mm256_set1_ps(x[r].scale)),
                                       sum[2 * r + v]);
  }
}

INLINE void add_half(const char *record, const char *tail, const int half,
                     const struct lls_codes_x *x, const int rows, enum lls_packed packed,
                     const enum table_kind kind, const uint8_t *table, __m256 *sum)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const int zero = kind == TABLE_WIDE ? 0 : TABLE_ZERO;
  __m256i from_zero =
      _mm256_sub_epi8(load_table(table), _mm256_set1_epi8((char)(128 - zero)));
  UNROLL
  for (int part = 0; part < layout.groups / 2; part++)
    add_part(record, tail, half, part, x, rows, packed, kind, from_zero, sum);
  if (!layout.offset)
    return;
  UNROLL
  for (int i = 0; i < layout.groups; i++) {
    const int part = i / 2, v = i % 2;
    __m256 offset = load_offset(record, tail, half, part, v, packed);
    UNROLL
    for (int r = 0; r < rows; r++)
      sum[2 * r + v] =
          _mm256_fmadd_ps(offset, sum_of_part(&x[r], part, packed), sum[2 * r + v]);
  }
}

INLINE enum table_kind kind_of(const uint8_t *table)
{
  bool even = true, small = true;
  for (int i = 0; i < 16; i++) {
    even = even && table[i] == 128 - EVEN_ZERO + i;
    small = small && table[i] >= 128 - TABLE_ZERO && table[i] <= 128 + TABLE_ZERO;
  }
  return even ? TABLE_EVEN : small ? TABLE_SMALL : TABLE_WIDE;
}

void lls_cpu_codes_avx2(struct lls_cpu_linear_kernels *k)
{
  enter_codes(k);
}
