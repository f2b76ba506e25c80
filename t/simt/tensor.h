/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor-core instructions as the PTX manual describes them, one warp at a time: which
 * lane's register holds which element (m16n8k16 and ldmatrix, PTX ISA 8, figures of
 * section 9.7.14.5.8 and 9.7.14.5.15).
 */
#ifndef LLS_SIMT_TENSOR_H
#define LLS_SIMT_TENSOR_H

#include "simt.h"

namespace simt
{

using to_number = float (*)(uint16_t);

inline float bf16_number(uint16_t bits)
{
  return __uint_as_float((uint32_t)bits << 16);
}

/* IEEE 754 binary16, subnormal ones too. */
inline float half_number(uint16_t bits)
{
  int exponent = bits >> 10 & 31, digits = bits & 1023;
  float size = exponent == 31  ? (digits == 0 ? INFINITY : NAN)
               : exponent == 0 ? std::ldexp((float)digits, -24)
                               : std::ldexp((float)(1024 + digits), exponent - 25);
  return bits >> 15 ? -size : size;
}

inline float number_at(const exchange &lane, unsigned reg, unsigned half,
                       to_number number)
{
  uint16_t pair[2];
  std::memcpy(pair, lane.bytes + 4 * reg, sizeof pair);
  return number(pair[half]);
}

/* Row of A: 0..15, k: 0..15. Register: lower or upper rows, then lower or upper k. */
inline float element_a(const exchange *all, unsigned row, unsigned k, to_number number)
{
  return number_at(all[row % 8 * 4 + k % 8 / 2], row / 8 + k / 8 * 2, k % 2, number);
}

inline float element_b(const exchange *all, unsigned k, unsigned column, to_number number)
{
  return number_at(all[column * 4 + k % 8 / 2], 4 + k / 8, k % 2, number);
}

inline void mma_any(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                    to_number number, site s)
{
  const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const exchange *all = warp_exchange(mine, sizeof mine, s);
  for (unsigned i = 0; i < 4; i++) {
    unsigned row = lane() / 4 + i / 2 * 8, column = lane() % 4 * 2 + i % 2;
    float sum = 0;
    for (unsigned k = 0; k < 16; k++)
      sum += element_a(all, row, k, number) * element_b(all, k, column, number);
    d[i] += sum;
  }
}

inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                     site s)
{
  mma_any(d, a, b0, b1, bf16_number, s);
}

inline void mma_half(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                     site s)
{
  mma_any(d, a, b0, b1, half_number, s);
}

/* Lane 8 j + i gives the place of row i of matrix j; rows of 16 bytes are aligned to
 * 16. */
inline void ldmatrix(uint32_t (&r)[4], size_t row, bool trans, site s)
{
  if (row % 16 != 0)
    fail("%s:%d: ldmatrix of a row at shared byte %zu, no multiple of 16", s.file, s.line,
         row);
  const exchange *all = warp_exchange(&row, sizeof row, s);
  for (unsigned j = 0; j < 4; j++) {
    uint16_t pair[2];
    for (unsigned i = 0; i < 2; i++) {
      unsigned line = trans ? lane() % 4 * 2 + i : lane() / 4;
      unsigned column = trans ? lane() / 4 : lane() % 4 * 2 + i;
      size_t place;
      std::memcpy(&place, all[8 * j + line].bytes, sizeof place);
      std::memcpy(&pair[i], shared_touch(place + 2 * column, 2, READ), 2);
    }
    r[j] = pair[0] | (uint32_t)pair[1] << 16;
  }
}

} // namespace simt

#endif
