/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codes_neon.h with SMMLA, which multiplies (2 outputs, 8 inputs) by (8 inputs, 2 rows)
 * of signed bytes: twice as many products as SDOT. Two quads of 4 outputs become two such
 * operands by interleaving their fours of inputs. A single row has no use for half of
 * them, and its loads take longer than SDOT does.
 */
#include "kernels/cpu/codes_neon.h"

#define PAIRS (MAX_ROWS / 2)

/* Inputs 8 i on of rows r and r + 1. The last row of an odd number is its own pair. */
INLINE int8x16_t pair_of(const struct lls_codes_x *x, const int r, const int rows,
                         const int i)
{
  const struct lls_codes_x *second = r + 1 < rows ? x + r + 1 : x + r;
  return vcombine_s8(vld1_s8(x[r].code + 8 * i), vld1_s8(second->code + 8 * i));
}

/* Sums (2 outputs, 2 rows) of outputs 0 and 1, 2 and 3 become those of a row. */
INLINE void untangle(const int32x4_t sum[2], const int r, const int rows,
                     enum lls_packed packed, const struct lls_codes_x *x, const int part,
                     int32x4_t *whole)
{
  whole[r] = vaddq_s32(start_of(&x[r], part, packed), vuzp1q_s32(sum[0], sum[1]));
  if (r + 1 < rows)
    whole[r + 1] =
        vaddq_s32(start_of(&x[r + 1], part, packed), vuzp2q_s32(sum[0], sum[1]));
}

INLINE void multiply_part(const char *record, const int half, const int part,
                          const struct lls_codes_x *x, const int v, const int rows,
                          enum lls_packed packed, uint8x16_t table, int32x4_t *whole)
{
  const int n = 4 / (lls_codes_layout(packed).groups / 2); /* pairs of quads */
  int32x4_t sum[PAIRS][2];
  UNROLL
  for (int p = 0; p < PAIRS; p++)
    sum[p][0] = sum[p][1] = vdupq_n_s32(0);
  UNROLL
  for (int i = part * n; i < part * n + n; i++) {
    int32x4_t even =
        vreinterpretq_s32_s8(load_number(record, half, 2 * i, v, packed, table));
    int32x4_t odd =
        vreinterpretq_s32_s8(load_number(record, half, 2 * i + 1, v, packed, table));
    int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(even, odd));
    int8x16_t high = vreinterpretq_s8_s32(vzip2q_s32(even, odd));
    UNROLL
    for (int r = 0; r < rows; r += 2) {
      int8x16_t two = pair_of(x, r, rows, i);
      sum[r / 2][0] = vmmlaq_s32(sum[r / 2][0], low, two);
      sum[r / 2][1] = vmmlaq_s32(sum[r / 2][1], high, two);
    }
  }
  UNROLL
  for (int r = 0; r < rows; r += 2)
    untangle(sum[r / 2], r, rows, packed, x, part, whole);
}

void lls_cpu_codes_i8mm(struct lls_cpu_linear_kernels *k)
{
#define ENTER(name, packed, many) k->of[packed].tile = tile_##name;
  LLS_CODES_FORMATS(ENTER)
}
