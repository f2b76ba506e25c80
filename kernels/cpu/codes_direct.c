/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs rows of Q4_0 and Q8_0 files straight into panels: the bits that codes.c makes by
 * way of separate codes and f32 scales. Of 1 GB in Q4_0 that way took 1.3 s of processor
 * time, most of the start of a server; this one takes a quarter of it.
 *
 * Codes need no arithmetic: both layouts have four codes in 32 bits. Scales are f16 in
 * the file and in the panel, where an output's scales are multiplied by a power of two,
 * so the difference of the exponents is added to each. Rows where that is not exact
 * (infinite or very large scales, or none that is normal) are left to codes.c.
 */
#include "core/device/numbers.h"
#include "core/device/quantised.h"
#include "kernels/cpu/codes_pack.h"

#include <math.h>
#include <string.h>

#define SIGN     0x8000u
#define NORMAL   0x0400u /* the smallest normal f16 */
#define LARGE    0x7800u /* 2^15: more than a panel's largest scale */
#define EXPONENT 10      /* bits of an f16 below its exponent */
#define TOP      29      /* exponent field of a panel's largest scale: [2^14, 2^15) */

static uint16_t half_at(const uint8_t *p)
{
  uint16_t half;
  memcpy(&half, p, sizeof half);
  return half;
}

static uint32_t quad_at(const uint8_t *p)
{
  uint32_t quad;
  memcpy(&quad, p, sizeof quad);
  return quad;
}

static void put(uint8_t *slot, uint32_t quad)
{
  memcpy(slot, &quad, sizeof quad);
}

/* 16 bytes of a block: the low halves are its first 16 codes. In a panel quads 2i and 2i
 * + 1 share a slot. */
static void put_nibbles(uint8_t *slot, const uint8_t *p)
{
  const uint32_t low = 0x0f0f0f0f, high = 0xf0f0f0f0;
  for (size_t i = 0; i < 2; i++) {
    uint32_t even = quad_at(p + 8 * i), odd = quad_at(p + 8 * i + 4);
    put(slot + i * LLS_CODES_QUAD, (even & low) | (odd & low) << 4);
    put(slot + (2 + i) * LLS_CODES_QUAD, (even & high) >> 4 | (odd & high));
  }
}

/* 32 bytes with a sign; a panel has them plus 128. */
static void put_bytes(uint8_t *slot, const uint8_t *p)
{
  for (size_t q = 0; q < LLS_CODES_GROUP / 4; q++)
    put(slot + q * LLS_CODES_QUAD, quad_at(p + 4 * q) ^ 0x80808080);
}

/* Returns the largest scale's magnitude, as f16; LARGE or more if one of them is. */
static uint16_t largest_of(const uint8_t *block, size_t n, size_t bytes)
{
  uint16_t largest = 0;
  for (size_t i = 0; i < n; i++) {
    uint16_t half = half_at(block + i * bytes) & (uint16_t)~SIGN;
    largest = half > largest ? half : largest;
  }
  return largest;
}

/* Returns half * 2^up, which is exact. */
static uint16_t raised(uint16_t half, int up)
{
  if ((half & ~SIGN) >= NORMAL)
    return (uint16_t)(half + (up << EXPONENT));
  return lls_f32_to_f16(ldexpf(lls_f16_to_f32(half), up));
}

static bool is_direct(const struct lls_weight *w, const struct lls_tensor_view *v)
{
  return v->data != NULL && ((v->dtype == LLS_Q4_0 && w->packed == LLS_PACKED_CODES4) ||
                             (v->dtype == LLS_Q8_0 && w->packed == LLS_PACKED_CODES8));
}

bool lls_codes_pack_directly(struct lls_weight *w, size_t output,
                             const struct lls_tensor_view *v, size_t row)
{
  if (!is_direct(w, v))
    return false;
  const bool nibbles = v->dtype == LLS_Q4_0;
  const size_t bytes = lls_dtype_row_bytes(v->dtype, LLS_CODES_GROUP);
  const size_t n = v->columns / LLS_CODES_GROUP, o = output % LLS_PANEL;
  const uint8_t *block =
      (const uint8_t *)v->data + lls_dtype_row_bytes(v->dtype, row * v->row_stride);
  const uint16_t largest = largest_of(block, n, bytes);
  if (largest < NORMAL || largest >= LARGE)
    return false;
  const int up = TOP - (largest >> EXPONENT);
  const size_t codes = lls_codes_bytes(w->packed), record = lls_codes_record(w->packed);
  uint8_t *at = (uint8_t *)w->data + output / LLS_PANEL * w->panel_bytes;
  w->scale[output] = ldexpf(1, -up);
  for (size_t i = 0; i < n; i++, block += bytes) {
    const size_t second = i % 2; /* a record has two groups */
    uint8_t *slot = at + second * codes / 2 + o * 4;
    if (nibbles)
      put_nibbles(slot, block + 2);
    else
      put_bytes(slot, block + 2);
    ((uint16_t *)(at + codes))[second * LLS_PANEL + o] = raised(half_at(block), up);
    at += second * record;
  }
  return true;
}
