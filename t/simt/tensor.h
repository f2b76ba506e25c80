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

inline float bf16_at(const exchange &lane, unsigned reg, unsigned half)
{
  uint32_t pair;
  std::memcpy(&pair, lane.bytes + 4 * reg, sizeof pair);
  return __uint_as_float(half == 0 ? pair << 16 : pair & 0xffff0000u);
}

/* Row of A: 0..15, k: 0..15. Register: lower or upper rows, then lower or upper k. */
inline float element_a(const exchange *all, unsigned row, unsigned k)
{
  return bf16_at(all[row % 8 * 4 + k % 8 / 2], row / 8 + k / 8 * 2, k % 2);
}

inline float element_b(const exchange *all, unsigned k, unsigned column)
{
  return bf16_at(all[column * 4 + k % 8 / 2], 4 + k / 8, k % 2);
}

inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                     site s)
{
  const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const exchange *all = warp_exchange(mine, sizeof mine, s);
  for (unsigned i = 0; i < 4; i++) {
    unsigned row = lane() / 4 + i / 2 * 8, column = lane() % 4 * 2 + i % 2;
    float sum = 0;
    for (unsigned k = 0; k < 16; k++)
      sum += element_a(all, row, k) * element_b(all, k, column);
    d[i] += sum;
  }
}

/* Lane 8 j + i gives the place of row i of matrix j; rows are 16 bytes at multiples of
 * it. */
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
