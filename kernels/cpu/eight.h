/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight floats, or 32-bit words, of eight tokens: what attention_load.h transposes keys
 * with, whatever the vectors of the level. A register of AVX2 and AVX-512, two of
 * aarch64.
 */
#ifndef LLS_CPU_EIGHT_H
#define LLS_CPU_EIGHT_H

#include "kernels/cpu/simd.h"

#ifdef __aarch64__

typedef float32x4x2_t eight;

INLINE eight eight_zero(void)
{
  return (eight){{vzero(), vzero()}};
}
INLINE eight eight_load(const float *p)
{
  return (eight){{vld1q_f32(p), vld1q_f32(p + 4)}};
}
INLINE void eight_store(float *p, eight x)
{
  vst1q_f32(p, x.val[0]);
  vst1q_f32(p + 4, x.val[1]);
}
INLINE eight eight_bf16(const void *p)
{
  const uint16_t *at = p;
  return (eight){{vload_bf16(at), vload_bf16(at + 4)}};
}
INLINE eight eight_f16(const uint16_t *p)
{
  return (eight){{vload_f16(p), vload_f16(p + 4)}};
}
/* The bf16 in the low halves of eight words, and in the high halves. */
INLINE eight eight_even(eight x)
{
  UNROLL
  for (int i = 0; i < 2; i++)
    x.val[i] = vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(x.val[i]), 16));
  return x;
}
INLINE eight eight_odd(eight x)
{
  const uint32x4_t high = vdupq_n_u32(0xffff0000);
  UNROLL
  for (int i = 0; i < 2; i++)
    x.val[i] = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x.val[i]), high));
  return x;
}
/* Byte j of eight words, as floats. */
INLINE eight eight_byte(eight x, const unsigned j)
{
  UNROLL
  for (int i = 0; i < 2; i++) {
    uint32x4_t moved = vreinterpretq_u32_f32(x.val[i]) >> (8 * j);
    x.val[i] = vcvtq_f32_u32(vandq_u32(moved, vdupq_n_u32(255)));
  }
  return x;
}
INLINE eight eight_scaled(eight x, float factor, float offset) /* x factor + offset */
{
  UNROLL
  for (int i = 0; i < 2; i++)
    x.val[i] = vfma(x.val[i], vset(factor), vset(offset));
  return x;
}

/* Transposes four 32-bit words of eight tokens: out[i] holds word i of each. */
INLINE void turn(const char *const token[8], size_t byte, eight out[4])
{
  UNROLL
  for (int i = 0; i < 2; i++) {
    float32x4_t x[4];
    UNROLL
    for (int j = 0; j < 4; j++)
      x[j] = vld1q_f32((const float *)(token[4 * i + j] + byte));
    float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(x[0], x[1]));
    float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(x[0], x[1]));
    float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(x[2], x[3]));
    float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(x[2], x[3]));
    out[0].val[i] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    out[1].val[i] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    out[2].val[i] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    out[3].val[i] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
  }
}

#else

typedef __m256 eight;

INLINE eight eight_zero(void)
{
  return _mm256_setzero_ps();
}
INLINE eight eight_load(const float *p)
{
  return _mm256_loadu_ps(p);
}
INLINE void eight_store(float *p, eight x)
{
  _mm256_storeu_ps(p, x);
}
INLINE eight eight_bf16(const void *p)
{
  __m128i raw = _mm_loadu_si128((const __m128i *)p);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
}
INLINE eight eight_f16(const uint16_t *p)
{
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
/* The bf16 in the low halves of eight words, and in the high halves. */
INLINE eight eight_even(eight x)
{
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 16));
}
INLINE eight eight_odd(eight x)
{
  return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000)));
}
/* Byte j of eight words, as floats. */
INLINE eight eight_byte(eight x, const unsigned j)
{
  const __m256i first = _mm256_broadcastsi128_si256(
      _mm_setr_epi32((int)0x80808000, (int)0x80808004, (int)0x80808008, (int)0x8080800c));
  __m256i byte = _mm256_add_epi32(first, _mm256_set1_epi32((int)j));
  return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(_mm256_castps_si256(x), byte));
}
INLINE eight eight_scaled(eight x, float factor, float offset) /* x factor + offset */
{
  return _mm256_fmadd_ps(x, _mm256_set1_ps(factor), _mm256_set1_ps(offset));
}

/* Transposes four 32-bit words of eight tokens: out[i] holds word i of each. */
INLINE void turn(const char *const token[8], size_t byte, eight out[4])
{
  __m256 x[4];
  UNROLL
  for (unsigned i = 0; i < 4; i++)
    x[i] = _mm256_insertf128_ps(
        _mm256_castps128_ps256(_mm_loadu_ps((const float *)(token[i] + byte))),
        _mm_loadu_ps((const float *)(token[i + 4] + byte)), 1);
  __m256 a = _mm256_unpacklo_ps(x[0], x[1]), b = _mm256_unpackhi_ps(x[0], x[1]);
  __m256 c = _mm256_unpacklo_ps(x[2], x[3]), d = _mm256_unpackhi_ps(x[2], x[3]);
  out[0] = _mm256_shuffle_ps(a, c, 0x44);
  out[1] = _mm256_shuffle_ps(a, c, 0xee);
  out[2] = _mm256_shuffle_ps(b, d, 0x44);
  out[3] = _mm256_shuffle_ps(b, d, 0xee);
}

#endif
#endif
