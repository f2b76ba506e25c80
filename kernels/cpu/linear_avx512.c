/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linear_simd.h for AVX-512: 32 registers hold 16 sums, and the weights they share. bf16
 * weights are multiplied in pairs (AVX-512-BF16), x rounded to bf16, two products in each
 * of 16 lanes; the other formats in f32.
 */
#define MAX_SUMS 16
#define PAIRS
#include "kernels/cpu/linear_simd.h"

#define MAX_ROWS 8

INLINE void tile(const struct lls_tile *t, const size_t x_bytes, enum lls_packed packed)
{
  switch (t->rows) {
  case 1:
    return run(t, 4, 1, x_bytes, packed);
  case 2:
    return run(t, 4, 2, x_bytes, packed);
  case 3:
    return run(t, 4, 3, x_bytes, packed);
  case 4:
    return run(t, 4, 4, x_bytes, packed);
  case 5:
    return run(t, 2, 5, x_bytes, packed);
  case 6:
    return run(t, 2, 6, x_bytes, packed);
  case 7:
    return run(t, 2, 7, x_bytes, packed);
  default:
    return run(t, 2, 8, x_bytes, packed);
  }
}

static void tile_f32(const struct lls_tile *t)
{
  tile(t, sizeof(float), LLS_PACKED_F32);
}

static void tile_f16(const struct lls_tile *t)
{
  tile(t, sizeof(float), LLS_PACKED_F16);
}

static void tile_bf16(const struct lls_tile *t)
{
  tile(t, sizeof(uint16_t), LLS_PACKED_BF16);
}

/* Packs x as (inputs / 2, rows, 2) bf16. */
static void pack_pairs(const float *x, size_t stride, size_t n_rows, size_t columns,
                       size_t inputs, void *out)
{
  uint32_t pairs[LANES / 2], *to = out;
  for (size_t k = 0; k < inputs; k += LANES) {
    size_t n = columns < k ? 0 : columns - k;
    for (size_t row = 0; row < n_rows; row++) {
      __m512 some = n == 0 ? vzero() : vget(x + row * stride + k, n);
      _mm256_storeu_si256((__m256i *)pairs, (__m256i)_mm512_cvtneps_pbh(some));
      for (size_t i = 0; i < LANES / 2; i++)
        to[i * n_rows + row] = pairs[i];
    }
    to += n_rows * LANES / 2;
  }
}

void lls_cpu_linear_avx512(struct lls_cpu_linear_kernels *k)
{
  for (int i = 0; i < LLS_N_PACKED; i++)
    k->of[i].finish = finish;
  for (int i = LLS_PACKED_F32; i <= LLS_PACKED_BF16; i++) {
    k->of[i].max_rows = MAX_ROWS;
    k->of[i].panels = 2;
  }
  k->of[LLS_PACKED_F32].tile = tile_f32;
  k->of[LLS_PACKED_F16].tile = tile_f16;
  k->of[LLS_PACKED_BF16].tile = tile_bf16;
  k->of[LLS_PACKED_BF16].pack = pack_pairs;
  k->of[LLS_PACKED_BF16].x_bytes = sizeof(uint16_t);
}
