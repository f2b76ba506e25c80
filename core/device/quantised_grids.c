/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks blocks of IQ1, IQ2 and IQ3 types (quantised_blocks.h). IQ2 and IQ3 store
 * magnitudes, and signs apart: either eight bits for eight numbers, or seven, with the
 * eighth such that an even number of them is set.
 *
 * Codes are whole numbers: IQ1's are eight times -1, 0 or 1, plus or minus one, and
 * scales of IQ1, IQ2 and IQ3_XXS have the fraction.
 */
#include "core/device/quantised_blocks.h"

const int8_t lls_values_iq1[16] = {-9, -7, -1, 1, 7, 9};
const int8_t lls_values_iq2[16] = {-43, -25, -8, 8, 25, 43};
const int8_t lls_values_iq3_xxs[16] = {-62, -52, -44, -36, -28, -20, -12, -4,
                                       4,   12,  20,  28,  36,  44,  52,  62};
const int8_t lls_values_iq3_s[16] = {-15, -13, -11, -9, -7, -5, -3, -1,
                                     1,   3,   5,   7,  9,  11, 13, 15};

/* Returns all eight signs. */
static unsigned eighth_sign(unsigned signs)
{
  signs &= 127;
  return signs | (unsigned)__builtin_parity(signs) << 7;
}

static int8_t with_sign(int8_t magnitude, unsigned signs, int i)
{
  return (int8_t)(signs >> i & 1 ? -magnitude : magnitude);
}

/* ---- IQ2 ------------------------------------------------------------------------- */

static void eight_of_iq2(uint16_t entry, unsigned signs, int8_t *codes)
{
  for (int i = 0; i < 8; i++)
    codes[i] = with_sign(lls_values_iq2[3 + (entry >> 2 * i & 3)], signs, i);
}

static float scale_of_iq2(float step, unsigned scale)
{
  return step * (0.5f + (float)scale) * 0.25f;
}

/* A group is four numbers of entries, four times seven signs, and a scale. */
void lls_read_iq2_xxs(const uint8_t *p, const struct lls_groups *g)
{
  float step = lls_half_at(p);
  p += 2;
  for (int i = 0; i < 8; i++, p += 8) {
    uint32_t rest = lls_u32_at(p + 4);
    g->scale[i] = scale_of_iq2(step, rest >> 28);
    for (int j = 0; j < 4; j++)
      eight_of_iq2(lls_grid_iq2_xxs[p[j]], eighth_sign(rest >> 7 * j),
                   g->codes + i * 32 + j * 8);
  }
}

/* Words have nine bits of an entry's number, then seven signs. */
void lls_read_iq2_xs(const uint8_t *p, const struct lls_groups *g)
{
  float step = lls_half_at(p);
  const uint8_t *scales = p + 66;
  for (int i = 0; i < 16; i++)
    g->scale[i] = scale_of_iq2(step, scales[i / 2] >> (i % 2 * 4) & 15);
  for (int i = 0; i < 32; i++) {
    unsigned word = lls_u16_at(p + 2 + 2 * i);
    eight_of_iq2(lls_grid_iq2_xs[word & 511], eighth_sign(word >> 9), g->codes + i * 8);
  }
}

/* The upper two of ten bits are apart. */
void lls_read_iq2_s(const uint8_t *p, const struct lls_groups *g)
{
  const uint8_t *low = p + 2, *signs = p + 34, *high = p + 66, *scales = p + 74;
  float step = lls_half_at(p);
  for (int i = 0; i < 16; i++)
    g->scale[i] = scale_of_iq2(step, scales[i / 2] >> (i % 2 * 4) & 15);
  for (int i = 0; i < 32; i++) {
    int entry = low[i] | (high[i / 4] >> (i % 4 * 2) & 3) << 8;
    eight_of_iq2(lls_grid_iq2_s[entry], signs[i], g->codes + i * 8);
  }
}

/* ---- IQ3 ------------------------------------------------------------------------- */

static void four_of_iq3(uint16_t entry, const int8_t *values, unsigned signs,
                        int8_t *codes)
{
  for (int i = 0; i < 4; i++)
    codes[i] = with_sign(values[8 + (entry >> 4 * i & 7)], signs, i);
}

/* The numbers of entries come first, then for each group signs and a scale. */
void lls_read_iq3_xxs(const uint8_t *p, const struct lls_groups *g)
{
  float step = lls_half_at(p);
  for (int i = 0; i < 8; i++) {
    uint32_t rest = lls_u32_at(p + 66 + 4 * i);
    g->scale[i] = step * (0.5f + (float)(rest >> 28)) * 0.5f;
    for (int j = 0; j < 8; j++)
      four_of_iq3(lls_grid_iq3_xxs[p[2 + i * 8 + j]], lls_values_iq3_xxs,
                  eighth_sign(rest >> j / 2 * 7) >> j % 2 * 4, g->codes + i * 32 + j * 4);
  }
}

/* The ninth bit is apart. */
void lls_read_iq3_s(const uint8_t *p, const struct lls_groups *g)
{
  const uint8_t *low = p + 2, *high = p + 66, *signs = p + 74, *scales = p + 106;
  float step = lls_half_at(p);
  for (int i = 0; i < 8; i++)
    g->scale[i] = step * (float)(1 + 2 * (scales[i / 2] >> (i % 2 * 4) & 15));
  for (int i = 0; i < 64; i++) {
    int entry = low[i] | (high[i / 8] >> i % 8 & 1) << 8;
    four_of_iq3(lls_grid_iq3_s[entry], lls_values_iq3_s,
                (unsigned)signs[i / 2] >> i % 2 * 4, g->codes + i * 4);
  }
}

/* ---- IQ1 ------------------------------------------------------------------------- */

static void eight_of_iq1(uint16_t entry, bool down, int8_t *codes)
{
  for (int i = 0; i < 8; i++)
    codes[i] = (int8_t)(8 * ((entry >> 2 * i & 3) - 1) + (down ? -1 : 1));
}

static float scale_of_iq1(float step, unsigned scale)
{
  return step * (float)(2 * (scale & 7) + 1) * 0.125f;
}

/* A group's word has three upper bits of four entries' numbers, the scale, and whether
 * its numbers are moved down. */
void lls_read_iq1_s(const uint8_t *p, const struct lls_groups *g)
{
  float step = lls_half_at(p);
  for (int i = 0; i < 8; i++) {
    unsigned word = lls_u16_at(p + 34 + 2 * i);
    g->scale[i] = scale_of_iq1(step, word >> 12);
    for (int j = 0; j < 4; j++) {
      unsigned entry = p[2 + i * 4 + j] | (word >> 3 * j & 7) << 8;
      eight_of_iq1(lls_grid_iq1[entry], word >> 15, g->codes + i * 32 + j * 8);
    }
  }
}

/* Each of four words has four bits of it above four scales. */
float lls_iq1_m_scale(const uint8_t *p)
{
  unsigned half = 0;
  for (int i = 0; i < 4; i++)
    half |= (unsigned)(lls_u16_at(p + 48 + 2 * i) >> 12) << 4 * i;
  return lls_f16_to_f32((uint16_t)half);
}

/* A nibble has three upper bits of an entry's number, and whether its numbers are moved
 * down. */
void lls_read_iq1_m(const uint8_t *p, const struct lls_groups *g)
{
  float step = lls_iq1_m_scale(p);
  for (int i = 0; i < 16; i++)
    g->scale[i] =
        scale_of_iq1(step, (unsigned)lls_u16_at(p + 48 + i / 4 * 2) >> i % 4 * 3);
  for (int i = 0; i < 32; i++) {
    unsigned nibble = (unsigned)p[32 + i / 2] >> (i % 2 * 4) & 15;
    eight_of_iq1(lls_grid_iq1[p[i] | (nibble & 7) << 8], nibble >> 3, g->codes + i * 8);
  }
}
