/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks blocks of Q2_K, Q3_K, IQ4_NL, IQ4_XS, TQ1_0 and TQ2_0 (quantised_blocks.h). */
#include "core/device/quantised_blocks.h"

const int8_t lls_values_q3_k[16] = {-4, -3, -2, -1, 0, 1, 2, 3};
const int8_t lls_values_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
const int8_t lls_values_tq[16] = {-1, 0, 1, 2}; /* a TQ2_0 code of 3 would be 2 */

/* Returns code i of a block. Each half of 128 codes has 32 bytes; the first 32 codes
 * are the lowest two bits. */
static int two_bits(const uint8_t *p, int i)
{
  return p[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

/* A scale and a minimum of four bits share a byte. */
void lls_read_q2_k(const uint8_t *p, const struct lls_groups *g)
{
  float step = lls_half_at(p + 80), least = lls_half_at(p + 82);
  for (int i = 0; i < 16; i++) {
    g->scale[i] = step * (float)(p[i] & 15);
    g->offset[i] = -(least * (float)(p[i] >> 4));
  }
  for (int i = 0; i < LLS_BLOCK_MAX; i++)
    g->codes[i] = (int8_t)two_bits(p + 16, i);
}

/* The third bits of codes 32 i on are the bits i of 32 bytes. Scales have 6 bits: the
 * low four of i and i + 8 share a byte, the upper two of i, i + 4, i + 8 and i + 12. */
void lls_read_q3_k(const uint8_t *p, const struct lls_groups *g)
{
  const uint8_t *scales = p + 96;
  float step = lls_half_at(p + 108);
  for (int i = 0; i < 16; i++) {
    int low = scales[i % 8] >> (i / 8 * 4) & 15;
    int high = scales[8 + i % 4] >> (i / 4 * 2) & 3;
    g->scale[i] = step * (float)((low | high << 4) - 32);
  }
  for (int i = 0; i < LLS_BLOCK_MAX; i++) {
    int third = p[i % 32] >> (i / 32) & 1;
    g->codes[i] = (int8_t)(two_bits(p + 32, i) + 4 * third - 4);
  }
}

/* Reads 32 numbers of IQ4's list from 16 bytes, the first 16 in the low halves. */
static void listed(const uint8_t *p, int8_t *codes)
{
  for (int i = 0; i < 32; i++)
    codes[i] = lls_values_iq4[p[i % 16] >> (i / 16 * 4) & 15];
}

void lls_read_iq4_nl(const uint8_t *p, const struct lls_groups *g)
{
  g->scale[0] = lls_half_at(p);
  listed(p + 2, g->codes);
}

/* Scales have 6 bits: the upper two are in a word, the low four in nibbles. */
void lls_read_iq4_xs(const uint8_t *p, const struct lls_groups *g)
{
  float step = lls_half_at(p);
  unsigned high = lls_u16_at(p + 2);
  for (int i = 0; i < 8; i++) {
    int low = p[4 + i / 2] >> (i % 2 * 4) & 15;
    g->scale[i] = step * (float)((low | (int)(high >> 2 * i & 3) << 4) - 32);
    listed(p + 8 + i * 16, g->codes + i * 32);
  }
}

static void one_scale(const uint8_t *p, const struct lls_groups *g)
{
  for (int i = 0; i < LLS_BLOCK_MAX / 32; i++)
    g->scale[i] = lls_half_at(p);
}

/* A byte is a fraction of 256 whose digits to base 3 are its numbers: this one is
 * multiplied by 3 `digit` times, and the next digit is what exceeds 256. */
static int8_t ternary(uint8_t byte, int digit)
{
  static const uint8_t powers[5] = {1, 3, 9, 27, 81};
  uint8_t rest = (uint8_t)(byte * powers[digit]);
  return (int8_t)((rest * 3 >> 8) - 1);
}

/* 32 bytes have the first 160 numbers, 16 the next 80, four digits of 4 the last 16. */
void lls_read_tq1_0(const uint8_t *p, const struct lls_groups *g)
{
  for (int i = 0; i < 160; i++)
    g->codes[i] = ternary(p[i % 32], i / 32);
  for (int i = 0; i < 80; i++)
    g->codes[160 + i] = ternary(p[32 + i % 16], i / 16);
  for (int i = 0; i < 16; i++)
    g->codes[240 + i] = ternary(p[48 + i % 4], i / 4);
  one_scale(p + 52, g);
}

void lls_read_tq2_0(const uint8_t *p, const struct lls_groups *g)
{
  for (int i = 0; i < LLS_BLOCK_MAX; i++)
    g->codes[i] = (int8_t)(two_bits(p, i) - 1);
  one_scale(p + 64, g);
}
