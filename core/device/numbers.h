/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short floats in plain C. bf16 is the upper half of an f32; f16 is IEEE 754 binary16
 * (5 bits of exponent, 10 of fraction). Roundings are to nearest, ties to even.
 */
#ifndef LLS_DEVICE_NUMBERS_H
#define LLS_DEVICE_NUMBERS_H

#include <stdint.h>
#include <string.h>

static inline float lls_bits_to_f32(uint32_t bits)
{
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint32_t lls_f32_to_bits(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float lls_bf16_to_f32(uint16_t h)
{
  return lls_bits_to_f32((uint32_t)h << 16);
}

static inline uint16_t lls_f32_to_bf16(float x)
{
  uint32_t bits = lls_f32_to_bits(x);
  if ((bits & 0x7fffffff) > 0x7f800000) /* a NaN must stay a NaN */
    return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float lls_f16_to_f32(uint16_t h)
{
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
  if (rest >= 0x7c00) /* infinity or NaN */
    return lls_bits_to_f32(sign | 0x7f800000 | rest << 13);
  /* The shifted exponent is 112 too small; the multiplication corrects it and
   * normalises subnormal halves. */
  float scaled = lls_bits_to_f32(rest << 13) * 0x1p112f;
  return lls_bits_to_f32(sign | lls_f32_to_bits(scaled));
}

static inline uint16_t lls_f32_to_f16(float x)
{
  uint32_t bits = lls_f32_to_bits(x), sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits >= 0x7f800000) /* infinity or NaN */
    return (uint16_t)(sign | (bits > 0x7f800000 ? 0x7e00 : 0x7c00));
  if (bits >= 0x477ff000) /* rounds to more than 65504 */
    return (uint16_t)(sign | 0x7c00);
  if (bits < 0x38800000) /* subnormal: 2^-24 is the last bit of 0.5 */
    return (uint16_t)(sign |
                      (lls_f32_to_bits(lls_bits_to_f32(bits) + 0.5f) - 0x3f000000));
  bits += 0xfff + (bits >> 13 & 1);
  return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

#endif
