/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codes_simd.h for AVX-VNNI, which adds four products of bytes, unsigned codes of weights
 * times signed ones of x, in 32 bits. The 16 registers hold the sums of 8 rows and the
 * operands of four inputs: one instruction for a row and 8 outputs.
 */
#include "kernels/cpu/codes_simd.h"

/* Adds the products of half a record's quads that share a scale, scaled, to the rows'
 * sums. Codes are multiplied as stored; a row's sums start with the zero's share. */
INLINE void add_part(const char *record, const char *tail, const int half, const int part,
                     const struct lls_codes_x *x, const int v, const int rows,
                     enum lls_packed packed, __m256i table, __m256 *sum)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const int parts = layout.groups / 2, n = 8 / parts;
  __m256i whole[MAX_ROWS];
  UNROLL
  for (int r = 0; r < rows; r++)
    whole[r] =
        layout.zero == 0 ? _mm256_setzero_si256() : _mm256_set1_epi32(x[r].start[part]);
  UNROLL
  for (int i = part * n; i < part * n + n; i++) {
    __m256i w = load_stored(record, half, i, v, packed, table);
    UNROLL
    for (int r = 0; r < rows; r++)
      whole[r] = _mm256_dpbusd_avx_epi32(whole[r], w, quad_of(&x[r], i));
  }
  __m256 scale = load_scale(record, tail, half, part, v, packed);
  UNROLL
  for (int r = 0; r < rows; r++)
    sum[r * 2 + v] =
        _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole[r]),
                        _mm256_mul_ps(scale, _mm256_set1_ps(x[r].scale)), sum[r * 2 + v]);
}

INLINE void add_half(const char *record, const char *tail, const int half,
                     const struct lls_codes_x *x, const int rows, enum lls_packed packed,
                     const enum table_kind kind, const uint8_t *table, __m256 *sum)
{
  (void)kind;
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  UNROLL
  for (int v = 0; v < 2; v++) {
    UNROLL
    for (int part = 0; part < layout.groups / 2; part++)
      add_part(record, tail, half, part, x, v, rows, packed, load_table(table), sum);
    if (!layout.offset)
      continue;
    UNROLL
    for (int part = 0; part < layout.groups / 2; part++) {
      __m256 offset = load_offset(record, tail, half, part, v, packed);
      UNROLL
      for (int r = 0; r < rows; r++)
        sum[r * 2 + v] =
            _mm256_fmadd_ps(offset, sum_of_part(&x[r], part, packed), sum[r * 2 + v]);
    }
  }
}

/* Tables need no distinction at this level. */
INLINE enum table_kind kind_of(const uint8_t *table)
{
  (void)table;
  return TABLE_SMALL;
}

/* ---- bytes for many rows --------------------------------------------------------- */

/* A record's scales, and offsets, in the expanded format. */
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
  __m256i table = load_table(table_bytes);
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

#define EXPAND(name, packed, many)                                                       \
  static void expand_##name(const char *panel, size_t inputs, const uint8_t *table,      \
                            const char *next, char *out)                                 \
  {                                                                                      \
    expand(panel, inputs, table, next, out, packed, many);                               \
  }
LLS_CODES_FORMATS(EXPAND)

void lls_cpu_codes_avxvnni(struct lls_cpu_linear_kernels *k)
{
  enter_codes(k);
#define ENTER_EXPAND(name, packed, many)                                                 \
  k->of[packed].expand = (packed) == (many) ? NULL : expand_##name;                      \
  k->of[packed].expanded = many;
  LLS_CODES_FORMATS(ENTER_EXPAND)
}
