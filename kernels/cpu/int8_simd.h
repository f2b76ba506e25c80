/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INT8 blocks with vectors, a channel in each lane, included by int8_avx2.c,
 * int8_avx512.c and int8_neon.c. Channels that do not fill a vector are left to the
 * generic kernel. Each product and sum is rounded on its own, not fused, so that all
 * levels give the same bits. Bytes of a block: values are read twice, the second time
 * from L1.
 */
#ifndef LLS_CPU_INT8_SIMD_H
#define LLS_CPU_INT8_SIMD_H

#include "kernels/cpu/int8.h"
#include "kernels/cpu/simd.h"

#define F16_MOST 65504.0f
#define STEPS    255.0f

#ifdef __aarch64__
#define _MM_FROUND_TO_NEG_INF 0x01 /* the names of x86 */
#define _MM_FROUND_TO_POS_INF 0x02

/* Arm rounds as a register of the thread says, to nearest: a half that came out on the
 * wrong side of x is replaced by the next one. */
INLINE void STORE_F16(uint16_t *p, vf x, const int direction)
{
  uint16x4_t half = vreinterpret_u16_f16(vcvt_f16_f32(x));
  vf back = vcvt_f32_f16(vreinterpret_f16_u16(half));
  const bool down = direction == _MM_FROUND_TO_NEG_INF;
  uint16x4_t wrong = vmovn_u32(down ? vcgtq_f32(back, x) : vcltq_f32(back, x));
  /* A half one larger as an integer is farther from 0. A wrong 0 has the sign of x. */
  uint16x4_t negative = vreinterpret_u16_s16(vshr_n_s16(vreinterpret_s16_u16(half), 15));
  uint16x4_t larger = down ? negative : vmvn_u16(negative);
  uint16x4_t next =
      vbsl_u16(larger, vadd_u16(half, vdup_n_u16(1)), vsub_u16(half, vdup_n_u16(1)));
  vst1_u16(p, vbsl_u16(wrong, next, half));
}
INLINE void store_codes(uint8_t *p, vf q)
{
  uint16x4_t words = vmovn_u32(vcvtq_u32_f32(q));
  uint32_t bytes =
      vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(words, words))), 0);
  memcpy(p, &bytes, sizeof bytes);
}
#elif defined __AVX512F__
#define STORE_F16(p, x, direction)                                                       \
  _mm256_storeu_si256((__m256i *)(void *)(p),                                            \
                      _mm512_cvtps_ph(x, (direction) | _MM_FROUND_NO_EXC))
INLINE void store_codes(uint8_t *p, vf q)
{
  _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(q)));
}
#else
#define STORE_F16(p, x, direction)                                                       \
  _mm_storeu_si128((__m128i *)(void *)(p),                                               \
                   _mm256_cvtps_ph(x, (direction) | _MM_FROUND_NO_EXC))
INLINE void store_codes(uint8_t *p, vf q)
{
  __m256i x = _mm256_cvttps_epi32(q);
  __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storel_epi64((__m128i *)(void *)p, _mm_packus_epi16(words, words));
}
#endif

INLINE vf number_at(const struct lls_int8_head *h, size_t i, const bool bf16)
{
  if (bf16)
    return vload_bf16((const uint16_t *)(const void *)h->numbers + i);
  return vload((const float *)(const void *)h->numbers + i);
}

/* Clips x. vmax and vmin return their second operand if the first is NaN. */
INLINE vf clipped(vf x)
{
  return vmin(vmax(x, vset(-F16_MOST)), vset(F16_MOST));
}

INLINE void choose_scales(const struct lls_int8_head *h, uint32_t dim, const bool bf16)
{
  vf low = number_at(h, dim, bf16), high = low;
  for (uint32_t slot = 1; slot < h->n_slots; slot++) {
    vf x = number_at(h, (size_t)slot * h->dims + dim, bf16);
    low = vmin(x, low);
    high = vmax(x, high);
  }
  STORE_F16(h->scales + h->dims + dim, clipped(low), _MM_FROUND_TO_NEG_INF);
  vf span = vsub(clipped(high), vload_f16(h->scales + h->dims + dim));
  STORE_F16(h->scales + dim, vdiv(span, vset(STEPS)), _MM_FROUND_TO_POS_INF);
}

INLINE void quantise_as(const struct lls_int8_head *h, uint32_t first, uint32_t past,
                        const bool bf16)
{
  for (uint32_t dim = first; dim < past; dim += LANES) {
    choose_scales(h, dim, bf16);
    vf base = vload_f16(h->scales + h->dims + dim), step = vload_f16(h->scales + dim);
    vf per_step = vselect(vless(vzero(), step), vdiv(vset(1.0f), step), vzero());
    for (uint32_t slot = 0; slot < h->n_slots; slot++) {
      size_t i = (size_t)slot * h->dims + dim;
      vf q = vmul(vsub(number_at(h, i, bf16), base), per_step);
      q = vmin(vmax(vadd(q, vset(0.5f)), vzero()), vset(STEPS));
      store_codes(h->codes + i, q);
    }
  }
}

INLINE void widen_as(const struct lls_int8_head *h, uint32_t first, uint32_t past,
                     const bool bf16)
{
  for (uint32_t dim = first; dim < past; dim += LANES) {
    vf base = vload_f16(h->scales + h->dims + dim), step = vload_f16(h->scales + dim);
    for (uint32_t slot = 0; slot < h->n_slots; slot++) {
      size_t i = (size_t)slot * h->dims + dim;
      vf x = vadd(base, vmul(step, vload_u8(h->codes + i)));
      if (bf16)
        vstore_bf16((uint16_t *)(void *)h->numbers + i, x);
      else
        vstore((float *)(void *)h->numbers + i, x);
    }
  }
}

static void quantise(const struct lls_int8_head *h, uint32_t first, uint32_t past)
{
  uint32_t whole = past - (past - first) % LANES;
  if (h->bf16)
    quantise_as(h, first, whole, true);
  else
    quantise_as(h, first, whole, false);
  lls_cpu_int8_quantise(h, whole, past);
}

static void widen(const struct lls_int8_head *h, uint32_t first, uint32_t past)
{
  uint32_t whole = past - (past - first) % LANES;
  if (h->bf16)
    widen_as(h, first, whole, true);
  else
    widen_as(h, first, whole, false);
  lls_cpu_int8_widen(h, whole, past);
}

#endif
