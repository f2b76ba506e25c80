/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linear_simd.h for aarch64: 32 registers of four floats hold 24 sums, a panel's four
 * weight vectors and an x. bf16 weights are widened; linear_i8mm.c multiplies them as
 * they are.
 */
#define MAX_SUMS 24
#include "kernels/cpu/linear_simd.h"

#define MAX_ROWS 6

INLINE void tile(const struct lls_tile *t, enum lls_packed packed)
{
  switch (t->rows) {
  case 1:
    return run(t, 4, 1, sizeof(float), packed);
  case 2:
    return run(t, 2, 2, sizeof(float), packed);
  case 3:
    return run(t, 2, 3, sizeof(float), packed);
  case 4:
    return run(t, 1, 4, sizeof(float), packed);
  case 5:
    return run(t, 1, 5, sizeof(float), packed);
  default:
    return run(t, 1, 6, sizeof(float), packed);
  }
}

static void tile_f32(const struct lls_tile *t)
{
  tile(t, LLS_PACKED_F32);
}

static void tile_f16(const struct lls_tile *t)
{
  tile(t, LLS_PACKED_F16);
}

static void tile_bf16(const struct lls_tile *t)
{
  tile(t, LLS_PACKED_BF16);
}

void lls_cpu_linear_neon(struct lls_cpu_linear_kernels *k)
{
  for (int i = 0; i < LLS_N_PACKED; i++)
    k->of[i].finish = finish;
  for (int i = LLS_PACKED_F32; i <= LLS_PACKED_BF16; i++) {
    k->of[i].max_rows = MAX_ROWS;
    k->of[i].panels = 1;
  }
  k->of[LLS_PACKED_F32].tile = tile_f32;
  k->of[LLS_PACKED_F16].tile = tile_f16;
  k->of[LLS_PACKED_BF16].tile = tile_bf16;
}
