/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codes_neon.h with SDOT, which adds four products of signed bytes in 32 bits: one
 * instruction for a row and 4 outputs of a quad. Here are also the kernels that other
 * levels of aarch64 share: the packing of x, and the expansion for many rows.
 */
#include "kernels/cpu/codes_neon.h"

/* Adds the products of w (4 outputs, 4 inputs) and inputs 4 lane on of x. */
INLINE int32x4_t dot(int32x4_t sum, int8x16_t w, int8x16_t x, const int lane)
{
  switch (lane) { /* the lane is part of the instruction */
  case 0:
    return vdotq_laneq_s32(sum, w, x, 0);
  case 1:
    return vdotq_laneq_s32(sum, w, x, 1);
  case 2:
    return vdotq_laneq_s32(sum, w, x, 2);
  default:
    return vdotq_laneq_s32(sum, w, x, 3);
  }
}

INLINE void multiply_part(const char *record, const int half, const int part,
                          const struct lls_codes_x *x, const int v, const int rows,
                          enum lls_packed packed, uint8x16_t table, int32x4_t *whole)
{
  const int n = 8 / (lls_codes_layout(packed).groups / 2);
  UNROLL
  for (int r = 0; r < rows; r++)
    whole[r] = start_of(&x[r], part, packed);
  UNROLL
  for (int i = part * n; i < part * n + n; i++) {
    int8x16_t w = load_number(record, half, i, v, packed, table);
    UNROLL
    for (int r = 0; r < rows; r++)
      whole[r] = dot(whole[r], w, vld1q_s8(x[r].code + i / 4 * 16), i % 4);
  }
}

#define PACK_AND_EXPAND(name, packed, many)                                              \
  static void pack_##name(const float *x, size_t stride, size_t n_rows, size_t columns,  \
                          size_t inputs, void *out)                                      \
  {                                                                                      \
    quantise_rows(x, stride, n_rows, columns, inputs, packed, out);                      \
  }                                                                                      \
  static void expand_##name(const char *panel, size_t inputs, const uint8_t *table,      \
                            const char *next, char *out)                                 \
  {                                                                                      \
    expand(panel, inputs, table, next, out, packed, many);                               \
  }
LLS_CODES_FORMATS(PACK_AND_EXPAND)

void lls_cpu_codes_neon(struct lls_cpu_linear_kernels *k)
{
#define ENTER(name, packed, many)                                                        \
  k->of[packed].tile = tile_##name;                                                      \
  k->of[packed].pack = pack_##name;                                                      \
  k->of[packed].expand = (packed) == (many) ? NULL : expand_##name;                      \
  k->of[packed].expanded = many;
  LLS_CODES_FORMATS(ENTER)
  for (int i = LLS_PACKED_CODES8; i < LLS_N_PACKED; i++) {
    k->of[i].max_rows = MAX_ROWS;
    k->of[i].panels = 1;
  }
}
