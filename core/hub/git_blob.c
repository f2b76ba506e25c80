/* SPDX-License-Identifier: Apache-2.0 */
/* See git_blob.h. SHA-1 is in FIPS 180-4, section 6.1. */
#include "core/hub/git_blob.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint32_t rotate(uint32_t x, unsigned n)
{
  return x << n | x >> (32 - n);
}

/* 4.1.1 and 4.2.1: the function and the constant of round t. */
static uint32_t mix(unsigned t, uint32_t b, uint32_t c, uint32_t d)
{
  static const uint32_t k[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
  uint32_t parity = b ^ c ^ d, choice = (b & c) ^ (~b & d);
  uint32_t majority = (b & c) ^ (b & d) ^ (c & d);
  return k[t / 20] + (t < 20 ? choice : t >= 40 && t < 60 ? majority : parity);
}

/* 6.1.2 */
static void compress_block(uint32_t state[5], const unsigned char block[64])
{
  uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (size_t t = 0; t < 16; t++)
    w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
           (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
  for (size_t t = 16; t < 80; t++)
    w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
  for (unsigned t = 0; t < 80; t++) {
    uint32_t next = rotate(a, 5) + mix(t, b, c, d) + e + w[t];
    e = d;
    d = c;
    c = rotate(b, 30);
    b = a;
    a = next;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
}

void lls_git_blob_begin(struct lls_git_blob *h, uint64_t size)
{
  char head[32];
  *h = (struct lls_git_blob){
      .state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
  int n = snprintf(head, sizeof head, "blob %" PRIu64, size);
  lls_git_blob_add(h, head, (size_t)n + 1);
}

void lls_git_blob_add(struct lls_git_blob *h, const void *data, size_t n)
{
  const unsigned char *from = data;
  for (size_t some; n > 0; from += some, n -= some) {
    size_t used = h->bytes % sizeof h->block, room = sizeof h->block - used;
    some = n < room ? n : room;
    memcpy(h->block + used, from, some);
    h->bytes += some;
    if (some == room)
      compress_block(h->state, h->block);
  }
}

/* 5.1.1: pads with a 1 bit, zeros, and the length in bits. */
void lls_git_blob_end(struct lls_git_blob *h, char hex[LLS_GIT_BLOB_HEX])
{
  static const unsigned char pad[64] = {0x80};
  uint64_t bits = h->bytes * 8;
  size_t used = h->bytes % 64;
  unsigned char length[8];
  for (size_t i = 0; i < 8; i++)
    length[i] = (unsigned char)(bits >> (56 - 8 * i));
  lls_git_blob_add(h, pad, used < 56 ? 56 - used : 120 - used);
  lls_git_blob_add(h, length, sizeof length);
  for (size_t i = 0; i < 5; i++)
    snprintf(hex + 8 * i, 9, "%08" PRIx32, h->state[i]);
}
