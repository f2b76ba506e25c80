/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codes (codes.h) in registers of 512 bits, for codes_avx512.c and codes_amx.c: a
 * record's as bytes, and x quantised.
 */
#ifndef LLS_CPU_CODES_AVX512_H
#define LLS_CPU_CODES_AVX512_H

#include "kernels/cpu/codes.h"
#include "kernels/cpu/simd.h"

/* ---- a record's codes ------------------------------------------------------------ */

INLINE __m512i load(const char *p)
{
  return _mm512_loadu_si512(p);
}

/* Returns the low four bits of each byte of v, after a shift down by `by`. */
INLINE __m512i nibble(__m512i v, const int by)
{
  return _mm512_and_si512(_mm512_srli_epi16(v, by), _mm512_set1_epi8(15));
}

/* Returns the `wide` high bits of quad i, from bytes that several quads share, moved
 * above the low four bits. */
INLINE __m512i high_bits(__m512i v, const int i, const int wide)
{
  const int shift = i * wide; /* moves the bits to bit 4 */
  __m512i moved =
      shift <= 4 ? _mm512_slli_epi16(v, 4 - shift) : _mm512_srli_epi16(v, shift - 4);
  return _mm512_and_si512(moved, _mm512_set1_epi8(wide == 1 ? 16 : 48));
}

/* Returns quad i of half a record of two or three bits. */
INLINE __m512i load_few(const char *record, const int half, const int i, const bool three)
{
  __m512i four = load(record + (half * 2 + i / 4) * LLS_CODES_QUAD);
  __m512i code =
      _mm512_and_si512(_mm512_srli_epi16(four, i % 4 * 2), _mm512_set1_epi8(3));
  if (!three)
    return code;
  __m512i third = load(record + lls_codes_high(3) + half * LLS_CODES_QUAD);
  third = i <= 2 ? _mm512_slli_epi16(third, i <= 2 ? 2 - i : 0)
                 : _mm512_srli_epi16(third, i > 2 ? i - 2 : 0);
  return _mm512_or_si512(code, _mm512_and_si512(third, _mm512_set1_epi8(4)));
}

/* The eight quads of 32 inputs, `half` of the record, as bytes. */
INLINE void load_codes(const char *record, const int half, enum lls_packed packed,
                       __m512i table, __m512i out[8])
{
  UNROLL
  for (int i = 0; i < 8; i++) {
    if (lls_codes_layout(packed).bits == 8) {
      out[i] = load(record + (half * 8 + i) * LLS_CODES_QUAD);
      continue;
    }
    if (lls_codes_layout(packed).bits < 4)
      out[i] = load_few(record, half, i, lls_codes_layout(packed).bits == 3);
    else
      out[i] = nibble(load(record + (half * 4 + i / 2) * LLS_CODES_QUAD), i % 2 * 4);
    if (lls_codes_listed(packed))
      out[i] = _mm512_shuffle_epi8(table, out[i]);
    if (lls_codes_layout(packed).bits == 5)
      out[i] = _mm512_or_si512(
          out[i], high_bits(load(record + 512 + half * LLS_CODES_QUAD), i, 1));
    if (packed == LLS_PACKED_CODES6)
      out[i] = _mm512_or_si512(
          out[i],
          high_bits(load(record + 512 + (half * 2 + i / 4) * LLS_CODES_QUAD), i % 4, 2));
  }
}

INLINE __m512 load_halves(const char *p)
{
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

/* Returns a group's scales or offsets; BLOCK formats store multiples of `block`. */
INLINE __m512 load_scales(const char *p, enum lls_packed packed, __m512 block)
{
  if (lls_codes_layout(packed).scales == LLS_SCALES_HALF)
    return load_halves(p);
  if (lls_codes_layout(packed).scales == LLS_SCALES_FLOAT)
    return _mm512_loadu_ps((const float *)p);
  __m512i whole = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(whole), block);
}

/* A block's scale and offset, of formats that have them. */
INLINE void load_block(const char *tail, enum lls_packed packed, __m512 out[2])
{
  out[0] = out[1] = _mm512_setzero_ps();
  if (lls_codes_tail(packed) == 0)
    return;
  out[0] = load_halves(tail);
  if (lls_codes_layout(packed).offset)
    out[1] = load_halves(tail + LLS_PANEL * sizeof(uint16_t));
}

/* A record's scales, and offsets, in the expanded format. */
INLINE void expand_scales(const char *record, const __m512 block[2],
                          enum lls_packed packed, enum lls_packed many, char *out)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const size_t codes = lls_codes_bytes(packed), bytes = lls_codes_record(packed);
  if (lls_codes_layout(many).scales == LLS_SCALES_HALF) {
    UNROLL
    for (size_t at = codes; at < bytes; at += 64)
      _mm512_storeu_si512(out + at - codes, load(record + at));
    return;
  }
  UNROLL
  for (int i = 0; i < layout.groups * (1 + layout.offset); i++) {
    const char *scales = record + codes + (size_t)i * lls_codes_group_bytes(packed);
    _mm512_storeu_ps(out + (size_t)i * LLS_PANEL * sizeof(float),
                     load_scales(scales, packed, block[i >= layout.groups]));
  }
}

/* Expands records to bytes for many rows, and subtracts `zero` from the codes. */
INLINE void expand(const char *record, size_t inputs, const uint8_t *table_bytes,
                   const int zero, char *out, enum lls_packed packed,
                   enum lls_packed many)
{
  const size_t records = lls_codes_records(packed);
  __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table_bytes));
  for (size_t k = 0; k < inputs; k += records * LLS_CODES_STEP) {
    const char *tail = record + records * lls_codes_record(packed);
    __m512 block[2];
    load_block(tail, packed, block);
    for (; record < tail; record += lls_codes_record(packed)) {
      UNROLL
      for (int half = 0; half < 2; half++) {
        __m512i w[8];
        load_codes(record, half, packed, table, w);
        UNROLL
        for (int i = 0; i < 8; i++) {
          if (zero != 0)
            w[i] = _mm512_sub_epi8(w[i], _mm512_set1_epi8((char)zero));
          _mm512_storeu_si512(out + (half * 8 + i) * LLS_CODES_QUAD, w[i]);
        }
      }
      expand_scales(record, block, packed, many, out + LLS_CODES_CODES);
      out += lls_codes_record(many);
    }
    record += lls_codes_tail(packed);
  }
}

/* ---- x --------------------------------------------------------------------------- */

/* Returns 16 floats quantised to codes in 32 bits. */
INLINE __m512i codes_of(__m512 x, __m512 inverse)
{
  return _mm512_cvtps_epi32(_mm512_mul_ps(x, inverse));
}

/* Returns the largest magnitude; infinite or NaN if any value is: as integers their
 * bits are the largest. */
INLINE float largest_of(__m512 a, __m512 b)
{
  const __m512i positive = _mm512_set1_epi32(0x7fffffff);
  __m512i bits = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(a), positive),
                                  _mm512_and_si512(_mm512_castps_si512(b), positive));
  int32_t largest = (int32_t)_mm512_reduce_max_epu32(bits);
  float x;
  memcpy(&x, &largest, sizeof x);
  return x;
}

INLINE void quantise(__m512 a, __m512 b, enum lls_packed packed, struct lls_codes_x *out)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  float largest = largest_of(a, b);
  __m512 inverse = _mm512_set1_ps(largest > 1e-30f ? 127 / largest : 0);
  __m512i first = codes_of(a, inverse), second = codes_of(b, inverse);
  _mm_storeu_si128((__m128i *)out->code, _mm512_cvtsepi32_epi8(first));
  _mm_storeu_si128((__m128i *)out->code + 1, _mm512_cvtsepi32_epi8(second));
  int sum = _mm512_reduce_add_epi32(_mm512_add_epi32(first, second));
  int of_first = layout.groups == 2 ? sum : _mm512_reduce_add_epi32(first);
  out->scale = largest - largest == 0 ? largest / 127 : largest - largest;
  out->sum = out->scale * (float)sum;
  /* Codes of non-finite values are arbitrary, and their sums may overflow: unsigned. */
  out->start[0] = (int32_t)(lls_codes_start(layout) * (unsigned)of_first);
  out->start[1] =
      (int32_t)(lls_codes_start(layout) * ((unsigned)sum - (unsigned)of_first));
}

/* Quantises the first n_rows of each (inputs / 32, out_rows). */
INLINE void quantise_rows(const float *x, size_t stride, size_t n_rows, size_t columns,
                          size_t inputs, enum lls_packed packed, size_t out_rows,
                          struct lls_codes_x *out)
{
  for (size_t row = 0; row < n_rows; row++) {
    for (size_t k = 0; k < inputs; k += LLS_CODES_GROUP) {
      const float *from = x + row * stride + k;
      __m512 a = columns > k ? vget(from, columns - k) : vzero();
      __m512 b = columns > k + 16 ? vget(from + 16, columns - k - 16) : vzero();
      quantise(a, b, packed, out + k / LLS_CODES_GROUP * out_rows + row);
    }
  }
}

#endif
