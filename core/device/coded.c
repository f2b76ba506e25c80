/* SPDX-License-Identifier: Apache-2.0 */
/* See coded.h. */
#include "core/device/coded.h"
#include "core/device/numbers.h"

#include <math.h>

#include "core/base/check.h"

#define STEP 32 /* columns per scale in lls_coded_read_codes */

static bool four_bits(const struct lls_coded *c)
{
  return c->layout <= LLS_CODED_PACKED;
}

/* Positions of outputs 0 to 7 in an AWQ word. */
static const uint8_t awq_place[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static uint32_t nibble(uint32_t word, size_t i)
{
  return word >> 4 * i & 15;
}

static uint32_t code4(const struct lls_coded *c, size_t row, size_t column)
{
  const uint32_t *words = c->codes;
  switch (c->layout) {
  case LLS_CODED_GPTQ:
    return nibble(words[column / 8 * c->rows + row], column % 8);
  case LLS_CODED_AWQ:
    return nibble(words[column * (c->rows / 8) + row / 8], awq_place[row % 8]);
  default:
    return nibble(words[row * (c->columns / 8) + column / 8], column % 8);
  }
}

static size_t group_of(const struct lls_coded *c, size_t column)
{
  return c->group_of != NULL ? (size_t)c->group_of[column] : column / c->group;
}

static size_t groups_of(const struct lls_coded *c)
{
  return (c->columns + c->group - 1) / c->group;
}

static uint32_t zero_of(const struct lls_coded *c, size_t row, size_t group)
{
  if (c->zeros == NULL)
    return 8;
  if (c->layout == LLS_CODED_PACKED)
    return nibble(c->zeros[row / 8 * groups_of(c) + group], row % 8);
  size_t place = c->layout == LLS_CODED_AWQ ? awq_place[row % 8] : row % 8;
  return (nibble(c->zeros[group * (c->rows / 8) + row / 8], place) + c->zeros_lack) & 15;
}

static float scale_of(const struct lls_coded *c, size_t row, size_t group)
{
  bool turned = c->layout == LLS_CODED_GPTQ || c->layout == LLS_CODED_AWQ;
  size_t i = turned ? group * c->rows + row : row / c->group_rows * groups_of(c) + group;
  switch (c->scale_type) {
  case LLS_F16:
    return lls_f16_to_f32(((const uint16_t *)c->scales)[i]);
  case LLS_BF16:
    return lls_bf16_to_f32(((const uint16_t *)c->scales)[i]);
  default:
    return ((const float *)c->scales)[i];
  }
}

/* Converts e4m3: four bits of exponent with bias 7, and three of fraction; all ones is
 * NaN. */
static float e4m3(uint8_t x)
{
  int exponent = x >> 3 & 15, fraction = x & 7;
  float size = exponent == 0 ? ldexpf((float)fraction, -9)
                             : ldexpf((float)(8 + fraction), exponent - 10);
  if ((x & 127) == 127)
    size = (float)NAN;
  return x & 128 ? -size : size;
}

bool lls_coded_keeps_codes(const struct lls_coded *c)
{
  return c->group_of == NULL && c->group % STEP == 0 && c->columns % STEP == 0;
}

bool lls_coded_has_offset(const struct lls_coded *c)
{
  return c->zeros != NULL;
}

void lls_coded_read(const struct lls_coded *c, size_t row, size_t first, size_t n,
                    float *out)
{
  size_t known = SIZE_MAX;
  LLS_CHECK(row < c->rows && first + n <= c->columns);
  float scale = 0, zero = 0;
  for (size_t i = 0; i < n; i++) {
    size_t column = first + i, group = group_of(c, column);
    if (group != known) {
      known = group;
      scale = scale_of(c, row, group);
      zero = four_bits(c) ? (float)zero_of(c, row, group) : 0;
    }
    size_t at = row * c->columns + column;
    float code = four_bits(c)                  ? (float)code4(c, row, column)
                 : c->layout == LLS_CODED_INT8 ? (float)((const int8_t *)c->codes)[at]
                                               : e4m3(((const uint8_t *)c->codes)[at]);
    out[i] = scale * (code - zero);
  }
}

static int8_t code_of(const struct lls_coded *c, size_t row, size_t column, int less)
{
  return four_bits(c) ? (int8_t)((int)code4(c, row, column) - less)
                      : ((const int8_t *)c->codes)[row * c->columns + column];
}

/* Returns NaN if one of the e4m3 codes is NaN, which a form of codes may not represent;
 * else 0. */
static float no_number(const struct lls_coded *c, const int8_t *codes)
{
  for (size_t i = 0; c->layout == LLS_CODED_FP8 && i < STEP; i++)
    if ((codes[i] & 127) == 127)
      return (float)NAN;
  return 0;
}

void lls_coded_read_codes(const struct lls_coded *c, size_t row, size_t first, size_t n,
                          int8_t *codes, float *scale, float *offset)
{
  int less = c->zeros == NULL ? 8 : 0;
  LLS_CHECK(lls_coded_keeps_codes(c) && first % STEP == 0 && n % STEP == 0);
  for (size_t i = 0; i < n; i++)
    codes[i] = code_of(c, row, first + i, less);
  for (size_t i = 0; i < n / STEP; i++) {
    size_t group = (first + i * STEP) / c->group;
    scale[i] = scale_of(c, row, group) + no_number(c, codes + i * STEP);
    offset[i] = c->zeros == NULL ? 0 : -scale[i] * (float)zero_of(c, row, group);
  }
}
