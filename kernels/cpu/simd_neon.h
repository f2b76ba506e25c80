/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd.h's vector on aarch64: four floats. Arm's instructions differ from x86's in what
 * they make of NaN, so that vmax and vmin compare and select: all levels then agree.
 */
#ifndef LLS_CPU_SIMD_NEON_H
#define LLS_CPU_SIMD_NEON_H

#include <arm_neon.h>

#define LANES 4
typedef float32x4_t vf;
typedef uint32x4_t vmask;

INLINE vf vset(float x)
{
  return vdupq_n_f32(x);
}
INLINE vf vload(const float *p)
{
  return vld1q_f32(p);
}
INLINE void vstore(float *p, vf v)
{
  vst1q_f32(p, v);
}
INLINE vf vload_part(const float *p, size_t n)
{
  float all[LANES] = {0};
  memcpy(all, p, n * sizeof *p);
  return vld1q_f32(all);
}
INLINE void vstore_part(float *p, size_t n, vf v)
{
  float all[LANES];
  vst1q_f32(all, v);
  memcpy(p, all, n * sizeof *p);
}
INLINE vf vload_bf16(const uint16_t *p)
{
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
INLINE vf vload_f16(const uint16_t *p)
{
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
INLINE vf vload_u8(const uint8_t *p)
{
  uint32_t bytes;
  memcpy(&bytes, p, sizeof bytes);
  uint16x8_t wide = vmovl_u8(vcreate_u8(bytes));
  return vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide)));
}
INLINE vf vload_u8_part(const uint8_t *p, size_t n)
{
  uint8_t bytes[LANES] = {0};
  memcpy(bytes, p, n);
  return vload_u8(bytes);
}
INLINE vf vadd(vf a, vf b)
{
  return vaddq_f32(a, b);
}
INLINE vf vsub(vf a, vf b)
{
  return vsubq_f32(a, b);
}
INLINE vf vmul(vf a, vf b)
{
  return vmulq_f32(a, b);
}
INLINE vf vdiv(vf a, vf b)
{
  return vdivq_f32(a, b);
}
INLINE vf vfma(vf a, vf b, vf c) /* a b + c */
{
  return vfmaq_f32(c, a, b);
}
INLINE vf vfnma(vf a, vf b, vf c) /* c - a b */
{
  return vfmsq_f32(c, a, b);
}
INLINE vf vmax(vf a, vf b) /* b if a is NaN */
{
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}
INLINE vf vmin(vf a, vf b)
{
  return vbslq_f32(vcltq_f32(a, b), a, b);
}
INLINE vf vabs(vf a)
{
  return vabsq_f32(a);
}
INLINE vf vround(vf a)
{
  return vrndnq_f32(a);
}
INLINE vmask vless(vf a, vf b)
{
  return vcltq_f32(a, b);
}
INLINE vf vselect(vmask m, vf a, vf b) /* m ? a : b */
{
  return vbslq_f32(m, a, b);
}
INLINE vf vpower2(vf p, vf n) /* p 2^n for p near 1 and whole n in -126..127 */
{
  int32x4_t e = vshlq_n_s32(vcvtnq_s32_f32(n), 23);
  return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), e));
}
INLINE float vsum(vf v)
{
  return vaddvq_f32(v);
}
INLINE float vmaximum(vf v)
{
  return vmaxvq_f32(v);
}
INLINE void vstore_bf16(uint16_t *p, vf v)
{
  uint32x4_t u = vreinterpretq_u32_f32(v);
  uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
  uint32x4_t up = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  up = vbslq_u32(vceqq_f32(v, v), up, vorrq_u32(u, vdupq_n_u32(0x400000)));
  vst1_u16(p, vshrn_n_u32(up, 16));
}

#endif
