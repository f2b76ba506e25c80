/* SPDX-License-Identifier: Apache-2.0 */
/* See coded.h. */
#include "core/device/coded.h"
#include "core/device/numbers.h"

#include <math.h>

#include "core/base/check.h"

#define STEP 32 /* columns per scale in lls_coded_read_codes */

static bool in_words(const struct lls_coded *c)
{
  return c->layout <= LLS_CODED_PACKED;
}

/* Positions of outputs 0 to 7 in an AWQ word. */
static const uint8_t awq_place[8] = {0, 4, 1, 5, 2, 6, 3, 7};

/* Returns code i of those in words that are `stride` apart. */
static uint32_t code_at(const uint32_t *words, size_t stride, size_t i, uint32_t bits)
{
  size_t at = i * bits;
  unsigned shift = at % 32;
  uint32_t code = words[at / 32 * stride] >> shift;
  if (shift + bits > 32)
    code |= words[(at / 32 + 1) * stride] << (32 - shift);
  return code & ((UINT32_C(1) << bits) - 1);
}

static size_t in_awq(size_t row)
{
  return row / 8 * 8 + awq_place[row % 8];
}

static uint32_t word_code(const struct lls_coded *c, size_t row, size_t column)
{
  const uint32_t *words = c->codes;
  switch (c->layout) {
  case LLS_CODED_GPTQ:
    return code_at(words + row, c->rows, column, c->bits);
  case LLS_CODED_AWQ:
    return code_at(words + column * (c->rows / 8), 1, in_awq(row), c->bits);
  default:
    return code_at(words + row * lls_coded_words(c->columns, c->bits), 1, column,
                   c->bits);
  }
}

static size_t group_of(const struct lls_coded *c, size_t row, size_t column)
{
  if (c->layout == LLS_CODED_LIST)
    return (row * c->columns + column) / c->group;
  return c->group_of != NULL ? (size_t)c->group_of[column] : column / c->group;
}

static size_t groups_of(const struct lls_coded *c)
{
  return (c->columns + c->group - 1) / c->group;
}

uint32_t lls_coded_zero(const struct lls_coded *c, size_t row, size_t group)
{
  if (c->zeros == NULL)
    return UINT32_C(1) << (c->bits - 1);
  if (c->layout == LLS_CODED_PACKED)
    return code_at(c->zeros + group, groups_of(c), row, c->bits);
  size_t place = c->layout == LLS_CODED_AWQ ? in_awq(row) : row;
  const uint32_t *words = c->zeros + group * lls_coded_words(c->rows, c->bits);
  return (code_at(words, 1, place, c->bits) + c->zeros_lack) &
         ((UINT32_C(1) << c->bits) - 1);
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

static float e8m0(uint8_t x)
{
  return x == 255 ? (float)NAN : ldexpf(1, x - 127);
}

static float listed(const struct lls_coded *c, size_t i)
{
  const struct lls_coded_scale_list *l = &c->listed;
  float scale = l->list[((const uint8_t *)c->scales)[i]] * l->scales[i / l->group];
  return scale + l->offset;
}

static float stored_scale(const struct lls_coded *c, size_t i)
{
  switch (c->scale_type) {
  case LLS_CODED_SCALE_F16:
    return lls_f16_to_f32(((const uint16_t *)c->scales)[i]);
  case LLS_CODED_SCALE_BF16:
    return lls_bf16_to_f32(((const uint16_t *)c->scales)[i]);
  case LLS_CODED_SCALE_E4M3:
    return e4m3(((const uint8_t *)c->scales)[i]);
  case LLS_CODED_SCALE_E8M0:
    return e8m0(((const uint8_t *)c->scales)[i]);
  case LLS_CODED_SCALE_LISTED:
    return listed(c, i);
  default:
    return ((const float *)c->scales)[i];
  }
}

static float scale_of(const struct lls_coded *c, size_t row, size_t group)
{
  bool turned = c->layout == LLS_CODED_GPTQ || c->layout == LLS_CODED_AWQ;
  size_t i = turned                        ? group * c->rows + row
             : c->layout == LLS_CODED_LIST ? group
                                           : row / c->group_rows * groups_of(c) + group;
  return stored_scale(c, i) * c->factor / c->divisor;
}

bool lls_coded_keeps_codes(const struct lls_coded *c)
{
  return c->layout != LLS_CODED_LIST && c->group_of == NULL && c->group % STEP == 0 &&
         c->columns % STEP == 0;
}

bool lls_coded_has_offset(const struct lls_coded *c)
{
  return c->zeros != NULL;
}

/* Returns the e2m1 number of a code, doubled. */
static int doubled(uint8_t code)
{
  static const int8_t sizes[8] = {0, 1, 2, 3, 4, 6, 8, 12};
  return code & 8 ? -sizes[code & 7] : sizes[code & 7];
}

/* Returns code i of the pairs in bytes, the first in the low bits or in the high ones. */
static uint8_t of_pair(const struct lls_coded *c, size_t i, bool low_first)
{
  uint8_t pair = ((const uint8_t *)c->codes)[i / 2];
  return (i % 2 == 0) == low_first ? pair & 15 : pair >> 4;
}

static float number_of(const struct lls_coded *c, size_t row, size_t column)
{
  size_t at = row * c->columns + column;
  switch (c->layout) {
  case LLS_CODED_INT8:
    return (float)((const int8_t *)c->codes)[at];
  case LLS_CODED_FP8:
    return e4m3(((const uint8_t *)c->codes)[at]);
  case LLS_CODED_FP4:
    return (float)doubled(of_pair(c, at, true)) / 2;
  case LLS_CODED_LIST:
    return c->list[of_pair(c, at, false)];
  default:
    return (float)word_code(c, row, column);
  }
}

void lls_coded_read(const struct lls_coded *c, size_t row, size_t first, size_t n,
                    float *out)
{
  size_t known = SIZE_MAX;
  LLS_CHECK(row < c->rows && first + n <= c->columns);
  float scale = 0, zero = 0;
  for (size_t i = 0; i < n; i++) {
    size_t group = group_of(c, row, first + i);
    if (group != known) {
      known = group;
      scale = scale_of(c, row, group);
      zero = in_words(c) ? (float)lls_coded_zero(c, row, group) : 0;
    }
    out[i] = scale * (number_of(c, row, first + i) - zero);
  }
}

static int8_t code_of(const struct lls_coded *c, size_t row, size_t column, int less)
{
  size_t at = row * c->columns + column;
  if (c->layout == LLS_CODED_FP4)
    return (int8_t)doubled(of_pair(c, at, true));
  return in_words(c) ? (int8_t)((int)word_code(c, row, column) - less)
                     : ((const int8_t *)c->codes)[at];
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
  int less = c->zeros == NULL ? 1 << (c->bits - 1) : 0;
  float of_doubles = c->layout == LLS_CODED_FP4 ? 0.5f : 1;
  LLS_CHECK(lls_coded_keeps_codes(c) && first % STEP == 0 && n % STEP == 0);
  for (size_t i = 0; i < n; i++)
    codes[i] = code_of(c, row, first + i, less);
  for (size_t i = 0; i < n / STEP; i++) {
    size_t group = (first + i * STEP) / c->group;
    scale[i] = scale_of(c, row, group) * of_doubles + no_number(c, codes + i * STEP);
    offset[i] = c->zeros == NULL ? 0 : -scale[i] * (float)lls_coded_zero(c, row, group);
  }
}
