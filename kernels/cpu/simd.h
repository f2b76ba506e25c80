/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A vector of LANES floats and the few operations that the kernels of this folder need,
 * for the ISA level that the including file is compiled for. A kernel is written once
 * against these operations (NAME_simd.h) and compiled by NAME_avx2.c, NAME_avx512.c and
 * NAME_neon.c; the plain C reference (NAME_generic.c) does not use them.
 *
 * All functions are static, so that one level's code cannot be linked in place of
 * another's.
 */
#ifndef LLS_CPU_SIMD_H
#define LLS_CPU_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline, unused))

/* Loops over registers must be unrolled: an accumulator with a variable index would be
 * in memory. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#elif defined __aarch64__ /* has twice as many registers as AVX2, half as wide */
#define UNROLL _Pragma("GCC unroll 32")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Prefetch a cache line: into L1, or into L2. */
INLINE void prefetch_l1(const void *p)
{
  __builtin_prefetch(p, 0, 3);
}
INLINE void prefetch_l2(const void *p)
{
  __builtin_prefetch(p, 0, 2);
}

#ifdef __aarch64__
#include "kernels/cpu/simd_neon.h"
#else
#include <immintrin.h>
#endif

#ifdef __AVX512F__

#define LANES 16
typedef __m512 vf;
typedef __mmask16 vmask;

INLINE vf vset(float x)
{
  return _mm512_set1_ps(x);
}
INLINE vf vload(const float *p)
{
  return _mm512_loadu_ps(p);
}
INLINE void vstore(float *p, vf v)
{
  _mm512_storeu_ps(p, v);
}
INLINE vf vload_part(const float *p, size_t n)
{
  return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
INLINE void vstore_part(float *p, size_t n, vf v)
{
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}
INLINE vf vload_bf16(const uint16_t *p)
{
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
INLINE vf vload_f16(const uint16_t *p)
{
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
INLINE vf vload_u8(const uint8_t *p)
{
  __m128i bytes = _mm_loadu_si128((const __m128i *)p);
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}
INLINE vf vload_u8_part(const uint8_t *p, size_t n)
{
  __m128i bytes = _mm_maskz_loadu_epi8((__mmask16)((1u << n) - 1), p);
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}
INLINE vf vadd(vf a, vf b)
{
  return _mm512_add_ps(a, b);
}
INLINE vf vsub(vf a, vf b)
{
  return _mm512_sub_ps(a, b);
}
INLINE vf vmul(vf a, vf b)
{
  return _mm512_mul_ps(a, b);
}
INLINE vf vdiv(vf a, vf b)
{
  return _mm512_div_ps(a, b);
}
INLINE vf vfma(vf a, vf b, vf c) /* a b + c */
{
  return _mm512_fmadd_ps(a, b, c);
}
INLINE vf vfnma(vf a, vf b, vf c) /* c - a b */
{
  return _mm512_fnmadd_ps(a, b, c);
}
INLINE vf vmax(vf a, vf b) /* b if a is NaN */
{
  return _mm512_max_ps(a, b);
}
INLINE vf vmin(vf a, vf b)
{
  return _mm512_min_ps(a, b);
}
INLINE vf vabs(vf a)
{
  return _mm512_abs_ps(a);
}
INLINE vf vround(vf a)
{
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE vmask vless(vf a, vf b)
{
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
INLINE vf vselect(vmask m, vf a, vf b) /* m ? a : b */
{
  return _mm512_mask_blend_ps(m, b, a);
}
INLINE vf vpower2(vf p, vf n) /* p 2^n for p near 1 and whole n in -126..127 */
{
  __m512i e = _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), e));
}
INLINE float vsum(vf v)
{
  return _mm512_reduce_add_ps(v);
}
INLINE float vmaximum(vf v)
{
  return _mm512_reduce_max_ps(v);
}
INLINE void vstore_bf16(uint16_t *p, vf v)
{
  __m512i u = _mm512_castps_si512(v);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  __m512i up = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  up = _mm512_mask_or_epi32(up, nan, u, _mm512_set1_epi32(0x400000));
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}

#elif !defined __aarch64__ /* AVX2 */

#define LANES 8
typedef __m256 vf;
typedef __m256 vmask;

INLINE vf vset(float x)
{
  return _mm256_set1_ps(x);
}
INLINE vf vload(const float *p)
{
  return _mm256_loadu_ps(p);
}
INLINE void vstore(float *p, vf v)
{
  _mm256_storeu_ps(p, v);
}
INLINE __m256i vfirst(size_t n) /* the first n lanes */
{
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vf vload_part(const float *p, size_t n)
{
  return _mm256_maskload_ps(p, vfirst(n));
}
INLINE void vstore_part(float *p, size_t n, vf v)
{
  _mm256_maskstore_ps(p, vfirst(n), v);
}
INLINE vf vload_bf16(const uint16_t *p)
{
  __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
INLINE vf vload_f16(const uint16_t *p)
{
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
INLINE vf vload_u8(const uint8_t *p)
{
  __m128i bytes = _mm_loadl_epi64((const __m128i *)p);
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}
INLINE vf vload_u8_part(const uint8_t *p, size_t n)
{
  uint8_t bytes[LANES] = {0};
  memcpy(bytes, p, n);
  return vload_u8(bytes);
}
INLINE vf vadd(vf a, vf b)
{
  return _mm256_add_ps(a, b);
}
INLINE vf vsub(vf a, vf b)
{
  return _mm256_sub_ps(a, b);
}
INLINE vf vmul(vf a, vf b)
{
  return _mm256_mul_ps(a, b);
}
INLINE vf vdiv(vf a, vf b)
{
  return _mm256_div_ps(a, b);
}
INLINE vf vfma(vf a, vf b, vf c) /* a b + c */
{
  return _mm256_fmadd_ps(a, b, c);
}
INLINE vf vfnma(vf a, vf b, vf c) /* c - a b */
{
  return _mm256_fnmadd_ps(a, b, c);
}
INLINE vf vmax(vf a, vf b) /* b if a is NaN */
{
  return _mm256_max_ps(a, b);
}
INLINE vf vmin(vf a, vf b)
{
  return _mm256_min_ps(a, b);
}
INLINE vf vabs(vf a)
{
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
INLINE vf vround(vf a)
{
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE vmask vless(vf a, vf b)
{
  return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
INLINE vf vselect(vmask m, vf a, vf b) /* m ? a : b */
{
  return _mm256_blendv_ps(b, a, m);
}
INLINE vf vpower2(vf p, vf n) /* p 2^n for p near 1 and whole n in -126..127 */
{
  __m256i e = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), e));
}
INLINE float vsum(vf v)
{
  __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  h = _mm_add_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
INLINE float vmaximum(vf v)
{
  __m128 h = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  h = _mm_max_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}
INLINE void vstore_bf16(uint16_t *p, vf v)
{
  __m256i u = _mm256_castps_si256(v);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  up = _mm256_blendv_epi8(up, _mm256_or_si256(u, _mm256_set1_epi32(0x400000)), nan);
  up = _mm256_srli_epi32(up, 16);
  __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(up, up), 0x08);
  _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(packed));
}

#endif

INLINE vf vzero(void)
{
  return vset(0.0f);
}
/* min(n, LANES) floats; the lanes beyond are 0. */
INLINE vf vget(const float *p, size_t n)
{
  return n >= LANES ? vload(p) : vload_part(p, n);
}
/* min(n, LANES) bytes as floats; the lanes beyond are 0. */
INLINE vf vget_u8(const uint8_t *p, size_t n)
{
  return n >= LANES ? vload_u8(p) : vload_u8_part(p, n);
}
INLINE void vput(float *p, size_t n, vf v)
{
  if (n >= LANES)
    vstore(p, v);
  else
    vstore_part(p, n, v);
}

/*
 * e^x: e^(x - n ln 2) 2^n, the power series to the 6th power on [-ln2/2, ln2/2], whose
 * relative error is 1.2e-7 at the ends. exp(0) = 1 exactly. The result is 0 below
 * -87.33, where 2^n would be subnormal, and for NaN; above 88.37 it is the value at
 * 88.37.
 */
INLINE vf vexp(vf x)
{
  const vf lowest = vset(-87.33f);
  vf y = vmin(vmax(x, lowest), vset(88.37f));
  vf n = vround(vmul(y, vset(1.44269504f)));
  vf r = vfnma(n, vset(0.693359375f), y);
  r = vfnma(n, vset(-2.12194440e-4f), r);
  vf p = vset(1.0f / 720);
  p = vfma(p, r, vset(1.0f / 120));
  p = vfma(p, r, vset(1.0f / 24));
  p = vfma(p, r, vset(1.0f / 6));
  p = vfma(p, r, vset(0.5f));
  p = vfma(p, r, vset(1.0f));
  p = vfma(p, r, vset(1.0f));
  return vselect(vless(lowest, x), vpower2(p, n), vzero());
}

/* cap tanh(x slope / 2) = cap (1 - 2 / (e^(x slope) + 1)). */
INLINE vf vcap(vf x, float slope, float cap)
{
  vf e = vexp(vmul(x, vset(slope)));
  return vfnma(vset(2 * cap), vdiv(vset(1.0f), vadd(e, vset(1.0f))), vset(cap));
}

#endif
