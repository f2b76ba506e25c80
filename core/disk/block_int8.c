/* SPDX-License-Identifier: Apache-2.0 */
/* See block_int8.h. */
#include "core/disk/block_int8.h"

#include <stdint.h>

#include "core/device/numbers.h"

#define PIECE 64
#define LIMIT 0x1p127f /* above, 127 times the rounded scale may be infinite */

struct piece {
  float scale;
  int8_t numbers[PIECE]; /* behind the last number of a block: 0 */
};

static size_t pieces_of(size_t n)
{
  return (n + PIECE - 1) / PIECE;
}

size_t lls_int8_bytes(size_t n)
{
  return pieces_of(n) * sizeof(struct piece);
}

/* Copies n numbers, from `first` on, to floats. */
static void widen(enum lls_dtype t, const void *numbers, size_t first, size_t n,
                  float *out)
{
  const uint16_t *shorts = numbers;
  if (t == LLS_BF16)
    for (size_t i = 0; i < n; i++)
      out[i] = lls_bf16_to_f32(shorts[first + i]);
  else
    memcpy(out, (const float *)numbers + first, n * sizeof *out);
}

/* Copies n floats to the numbers from `first` on. */
static void narrow(enum lls_dtype t, const float *x, size_t n, void *numbers,
                   size_t first)
{
  uint16_t *shorts = numbers;
  if (t == LLS_BF16)
    for (size_t i = 0; i < n; i++)
      shorts[first + i] = lls_f32_to_bf16(x[i]);
  else
    memcpy((float *)numbers + first, x, n * sizeof *x);
}

/* Returns the largest magnitude. The bits of floats without the sign order as magnitudes
 * do, with infinity and NaN above all, and compilers vectorise the maximum of integers.
 */
static float largest(const float x[PIECE])
{
  uint32_t most = 0;
  for (size_t i = 0; i < PIECE; i++) {
    uint32_t bits = lls_f32_to_bits(x[i]) & 0x7fffffff;
    most = bits > most ? bits : most;
  }
  return lls_bits_to_f32(most);
}

/* Rounds to nearest: adding 1.5 * 2^23 leaves the integer in the low bits of the sum. */
static int8_t rounded(float x)
{
  return (int8_t)(lls_f32_to_bits(x + 0x1.8p23f) & 0xff);
}

bool lls_int8_pack(enum lls_dtype t, size_t n, const void *numbers, void *packed)
{
  struct piece *out = packed;
  for (size_t p = 0; p < pieces_of(n); p++) {
    size_t first = p * PIECE, left = n - first;
    float x[PIECE] = {0};
    widen(t, numbers, first, left < PIECE ? left : PIECE, x);
    float most = largest(x);
    if (!(most < LIMIT))
      return false;
    /* The inverse of a subnormal scale may be infinite: such numbers become 0. */
    bool tiny = most / 127 < 0x1p-126f;
    float inverse = tiny ? 0 : 127 / most;
    out[p].scale = tiny ? 0 : most / 127;
    for (size_t i = 0; i < PIECE; i++)
      out[p].numbers[i] = rounded(x[i] * inverse);
  }
  return true;
}

void lls_int8_unpack(enum lls_dtype t, size_t n, const void *packed, void *numbers)
{
  const struct piece *in = packed;
  for (size_t p = 0; p < pieces_of(n); p++) {
    size_t first = p * PIECE, left = n - first;
    float x[PIECE];
    for (size_t i = 0; i < PIECE; i++)
      x[i] = in[p].scale * in[p].numbers[i];
    narrow(t, x, left < PIECE ? left : PIECE, numbers, first);
  }
}
