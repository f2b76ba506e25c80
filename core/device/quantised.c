/* SPDX-License-Identifier: Apache-2.0 */
/* See quantised.h. Types with four bits or more are unpacked here. */
#include "core/device/quantised.h"
#include "core/device/numbers.h"
#include "core/device/quantised_blocks.h"

#include <string.h>

#include "core/base/check.h"

/* Unpacks 16 bytes: the low halves are the first 16 codes, the high halves the last
 * 16. */
static void nibbles(const uint8_t *p, int8_t *codes, int less)
{
  uint8_t both[16]; /* no store to codes can change them: vectors */
  memcpy(both, p, sizeof both);
  for (int i = 0; i < 16; i++)
    codes[i] = (int8_t)((both[i] & 15) - less);
  for (int i = 0; i < 16; i++)
    codes[16 + i] = (int8_t)((both[i] >> 4) - less);
}

/* Adds the fifth bits of 32 codes. */
static void fifth_bits(const uint8_t *p, int8_t *codes)
{
  for (int i = 0; i < 32; i++)
    codes[i] = (int8_t)(codes[i] + ((p[i / 8] >> i % 8 & 1) << 4));
}

static void read_q4_0(const uint8_t *p, const struct lls_groups *g)
{
  g->scale[0] = lls_half_at(p);
  nibbles(p + 2, g->codes, 8);
}

static void read_q4_1(const uint8_t *p, const struct lls_groups *g)
{
  g->scale[0] = lls_half_at(p);
  g->offset[0] = lls_half_at(p + 2);
  nibbles(p + 4, g->codes, 0);
}

static void read_q5_0(const uint8_t *p, const struct lls_groups *g)
{
  g->scale[0] = lls_half_at(p);
  nibbles(p + 6, g->codes, 16);
  fifth_bits(p + 2, g->codes);
}

static void read_q5_1(const uint8_t *p, const struct lls_groups *g)
{
  g->scale[0] = lls_half_at(p);
  g->offset[0] = lls_half_at(p + 2);
  nibbles(p + 8, g->codes, 0);
  fifth_bits(p + 4, g->codes);
}

static void read_q8_0(const uint8_t *p, const struct lls_groups *g)
{
  g->scale[0] = lls_half_at(p);
  memcpy(g->codes, p + 2, 32);
}

/*
 * Unpacks eight scales and eight minima of 6 bits each from 12 bytes. For groups 0 to 3
 * they are the low bits of bytes 0 to 3 and 4 to 7. For groups 4 to 7 their low four
 * bits are in bytes 8 to 11, and their upper two are the upper bits of bytes 0 to 3 and
 * 4 to 7.
 */
static void scales_of_k(const uint8_t *p, const struct lls_groups *g)
{
  float step = lls_half_at(p), least = lls_half_at(p + 2);
  p += 4;
  for (int i = 0; i < 8; i++) {
    int j = i % 4;
    int scale = i < 4 ? p[j] & 63 : (p[8 + j] & 15) | (p[j] >> 6) << 4;
    int down = i < 4 ? p[4 + j] & 63 : p[8 + j] >> 4 | (p[4 + j] >> 6) << 4;
    g->scale[i] = step * (float)scale;
    g->offset[i] = -(least * (float)down);
  }
}

/* Unpacks 32 bytes, which hold two groups of 32 codes, the first in the low halves. */
static void codes_of_k(const uint8_t *p, int8_t *codes)
{
  for (int i = 0; i < LLS_BLOCK_MAX; i++)
    codes[i] = (int8_t)(p[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15);
}

static void read_q4_k(const uint8_t *p, const struct lls_groups *g)
{
  scales_of_k(p, g);
  codes_of_k(p + 16, g->codes);
}

/* The fifth bits of group j are the bits j of 32 bytes. */
static void read_q5_k(const uint8_t *p, const struct lls_groups *g)
{
  scales_of_k(p, g);
  codes_of_k(p + 48, g->codes);
  for (int i = 0; i < LLS_BLOCK_MAX; i++)
    g->codes[i] = (int8_t)(g->codes[i] + ((p[16 + i % 32] >> i / 32 & 1) << 4));
}

/* Each half of 128 codes has their low four bits in 64 bytes, and the upper two in 32. */
static void read_q6_k(const uint8_t *p, const struct lls_groups *g)
{
  const uint8_t *low = p, *high = p + 128, *scales = p + 192;
  float step = lls_half_at(p + 208);
  for (int i = 0; i < LLS_BLOCK_MAX; i++) {
    int half = i / 128, j = i % 128;
    int code = low[half * 64 + j % 64] >> (j / 64 * 4) & 15;
    code |= (high[half * 32 + j % 32] >> (j / 32 * 2) & 3) << 4;
    g->codes[i] = (int8_t)(code - 32);
  }
  for (int i = 0; i < 16; i++)
    g->scale[i] = step * (float)(int8_t)scales[i];
}

static const int8_t twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Elements are 2^(e - 127) times a number with two bits of exponent and one of
 * fraction; the codes are twice these numbers, which makes them integers. */
static void read_mxfp4(const uint8_t *p, const struct lls_groups *g)
{
  uint32_t e = p[0];
  g->scale[0] = lls_bits_to_f32(e < 2 ? UINT32_C(0x200000) << e : (e - 1) << 23);
  nibbles(p + 1, g->codes, 0);
  for (int i = 0; i < 32; i++)
    g->codes[i] = twice[g->codes[i]];
}

static const struct type {
  const char *name;
  uint16_t block, group, bytes; /* elements, elements, bytes of a block */
  bool offset;
  void (*read)(const uint8_t *, const struct lls_groups *);
  const int8_t *values; /* lls_dtype_values */
  uint8_t step_at;      /* where a block with block scales has its scale */
  float part;           /* lls_block_scales.part; 0: a type without */
} types[] = {
    [LLS_F32] = {.name = "F32", 1, 0, 4},
    [LLS_F16] = {.name = "F16", 1, 0, 2},
    [LLS_BF16] = {.name = "BF16", 1, 0, 2},
    [LLS_I8] = {.name = "I8", 1, 0, 1},
    [LLS_Q4_0] = {"Q4_0", 32, 32, 18, false, read_q4_0, NULL, 0, 0},
    [LLS_Q4_1] = {"Q4_1", 32, 32, 20, true, read_q4_1, NULL, 0, 0},
    [LLS_Q5_0] = {"Q5_0", 32, 32, 22, false, read_q5_0, NULL, 0, 0},
    [LLS_Q5_1] = {"Q5_1", 32, 32, 24, true, read_q5_1, NULL, 0, 0},
    [LLS_Q8_0] = {"Q8_0", 32, 32, 34, false, read_q8_0, NULL, 0, 0},
    [LLS_Q4_K] = {"Q4_K", 256, 32, 144, true, read_q4_k, NULL, 0, 1},
    [LLS_Q5_K] = {"Q5_K", 256, 32, 176, true, read_q5_k, NULL, 0, 1},
    [LLS_Q6_K] = {"Q6_K", 256, 16, 210, false, read_q6_k, NULL, 208, 1},
    [LLS_MXFP4] = {"MXFP4", 32, 32, 17, false, read_mxfp4, twice, 0, 0},
#define SMALL(type, group, bytes, offset, read, values, step_at, part)                   \
  [LLS_##type] = {#type, 256, group, bytes, offset, read, values, step_at, part}
    SMALL(Q2_K, 16, 84, true, lls_read_q2_k, NULL, 80, 1),
    SMALL(Q3_K, 16, 110, false, lls_read_q3_k, lls_values_q3_k, 108, 1),
    [LLS_IQ4_NL] = {"IQ4_NL", 32, 32, 18, false, lls_read_iq4_nl, lls_values_iq4, 0, 0},
    SMALL(IQ4_XS, 32, 136, false, lls_read_iq4_xs, lls_values_iq4, 0, 1),
    SMALL(IQ3_XXS, 32, 98, false, lls_read_iq3_xxs, lls_values_iq3_xxs, 0, 0.25f),
    SMALL(IQ3_S, 32, 110, false, lls_read_iq3_s, lls_values_iq3_s, 0, 1),
    SMALL(IQ2_XXS, 32, 66, false, lls_read_iq2_xxs, lls_values_iq2, 0, 0.125f),
    SMALL(IQ2_XS, 16, 74, false, lls_read_iq2_xs, lls_values_iq2, 0, 0.125f),
    SMALL(IQ2_S, 16, 82, false, lls_read_iq2_s, lls_values_iq2, 0, 0.125f),
    SMALL(IQ1_S, 32, 50, false, lls_read_iq1_s, lls_values_iq1, 0, 0.125f),
    SMALL(IQ1_M, 16, 56, false, lls_read_iq1_m, lls_values_iq1, 0, 0.125f),
    SMALL(TQ1_0, 32, 54, false, lls_read_tq1_0, lls_values_tq, 52, 1),
    SMALL(TQ2_0, 32, 66, false, lls_read_tq2_0, lls_values_tq, 64, 1),
#undef SMALL
    /* Codes of 4 bits, the usual case; they have no blocks to read. */
    [LLS_CODED] = {"codes", 32, 32, 18, true, NULL, NULL, 0, 0},
};

const char *lls_dtype_name(enum lls_dtype t)
{
  return types[t].name;
}

bool lls_dtype_is_quantised(enum lls_dtype t)
{
  return types[t].group != 0;
}

size_t lls_dtype_block(enum lls_dtype t)
{
  return types[t].block;
}

size_t lls_dtype_row_bytes(enum lls_dtype t, size_t n)
{
  return n / types[t].block * types[t].bytes;
}

double lls_dtype_number_bytes(enum lls_dtype t)
{
  return (double)types[t].bytes / types[t].block;
}

double lls_weight_number_bytes(enum lls_weight_format format, enum lls_dtype own)
{
  switch (format) {
  case LLS_WEIGHTS_F32:
    return 4;
  case LLS_WEIGHTS_BF16:
    return 2;
  case LLS_WEIGHTS_INT8: /* codes, and a scale of 16 bits for each 32 */
    return 1 + 2.0 / 32;
  case LLS_WEIGHTS_INT4:
    return 0.5 + 2.0 / 32;
  case LLS_WEIGHTS_AUTO:
    break;
  }
  return lls_dtype_number_bytes(own);
}

size_t lls_dtype_group(enum lls_dtype t)
{
  return types[t].group;
}

bool lls_dtype_has_offset(enum lls_dtype t)
{
  return types[t].offset;
}

void lls_quantised_read_codes(enum lls_dtype t, const void *data, size_t n, int8_t *codes,
                              float *scale, float *offset)
{
  const struct type *type = &types[t];
  const uint8_t *p = data;
  size_t groups = type->block / type->group;
  LLS_CHECK(n % type->block == 0);
  memset(offset, 0, n / type->group * sizeof *offset);
  for (size_t i = 0; i < n / type->block; i++, p += type->bytes) {
    const struct lls_groups g = {codes + i * type->block, scale + i * groups,
                                 offset + i * groups};
    type->read(p, &g);
  }
}

const int8_t *lls_dtype_values(enum lls_dtype t)
{
  return types[t].values;
}

bool lls_dtype_has_block_scales(enum lls_dtype t)
{
  return types[t].part != 0;
}

struct lls_block_scales lls_quantised_block_scales(enum lls_dtype t, const void *data,
                                                   size_t i)
{
  const uint8_t *p = (const uint8_t *)data + i * types[t].bytes;
  const uint8_t *step = p + types[t].step_at;
  return (struct lls_block_scales){
      .scale = t == LLS_IQ1_M ? lls_iq1_m_scale(p) : lls_half_at(step),
      .offset = types[t].offset ? -lls_half_at(step + 2) : 0,
      .part = types[t].part,
  };
}

void lls_quantised_read(enum lls_dtype t, const void *data, size_t n, float *out)
{
  const struct type *type = &types[t];
  const uint8_t *p = data;
  int8_t codes[LLS_BLOCK_MAX];
  float scale[LLS_BLOCK_MAX / LLS_BLOCK_GROUP_MIN];
  float offset[LLS_BLOCK_MAX / LLS_BLOCK_GROUP_MIN] = {0};
  const struct lls_groups g = {codes, scale, offset};
  LLS_CHECK(n % type->block == 0 && type->block <= LLS_BLOCK_MAX);
  for (size_t i = 0; i < n / type->block; i++, p += type->bytes) {
    type->read(p, &g);
    for (size_t k = 0; k < type->block; k++)
      *out++ = scale[k / type->group] * (float)codes[k] + offset[k / type->group];
  }
}
