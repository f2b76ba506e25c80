/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range is cut until its two ends differ only in bytes that take all of their values,
 * or in a single byte; then each byte position is a range of its own.
 */
#include "text/grammar/utf8_ranges.h"

static uint8_t encode(uint32_t c, uint8_t *bytes)
{
  if (c < 0x80) {
    bytes[0] = (uint8_t)c;
    return 1;
  }
  uint8_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (uint8_t i = n - 1; i > 0; i--, c >>= 6)
    bytes[i] = (uint8_t)(0x80 | (c & 0x3F));
  bytes[0] = (uint8_t)((0xF00u >> n) | c);
  return n;
}

static uint32_t add(uint32_t first, uint32_t last, struct lls_utf8_sequence *out)
{
  out->n = encode(first, out->lo);
  encode(last, out->hi);
  return 1;
}

/* Cuts a range whose ends have the same encoded length, `tail` bytes after the first. */
static uint32_t cut(uint32_t first, uint32_t last, int tail,
                    struct lls_utf8_sequence *out)
{
  for (int i = 1; i <= tail; i++) {
    uint32_t mask = (1u << (6 * i)) - 1, at = 0;
    if ((first & ~mask) == (last & ~mask))
      continue;
    if ((first & mask) != 0)
      at = first | mask;
    else if ((last & mask) != mask)
      at = (last & ~mask) - 1;
    else
      continue;
    uint32_t n = cut(first, at, tail, out);
    return n + cut(at + 1, last, tail, out + n);
  }
  return add(first, last, out);
}

uint32_t lls_utf8_ranges(uint32_t first, uint32_t last, struct lls_utf8_sequence *out)
{
  static const uint32_t largest[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
  uint32_t n = 0;
  for (int tail = 0; tail < 4 && first <= last; tail++) {
    uint32_t end = last < largest[tail] ? last : largest[tail];
    if (first > end)
      continue;
    n += cut(first, end, tail, out + n);
    first = end + 1;
  }
  return n;
}
