/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads rows as codes, see row_codes.h. Codes of a file are kept bit by bit; rows of 16
 * or 32 bits are quantised in groups of 32 columns.
 *
 *   8 bits  scale = largest magnitude / 127
 *   4 bits  -8..7: among some scales near the one that maps the largest magnitude to -8,
 *           the one with the least squared error, which for codes q of elements x is
 *           sum x q / sum q q
 */
#include "core/device/row_codes.h"
#include "core/device/coded.h"
#include "core/device/numbers.h"
#include "core/device/quantised.h"
#include "core/device/tensor.h"

#include <math.h>
#include <string.h>

static enum lls_codes_form form_of_coded(const struct lls_coded *c)
{
  if (!lls_coded_keeps_codes(c))
    return LLS_NO_CODES;
  if (c->layout == LLS_CODED_FP8)
    return LLS_CODES8_FLOAT;
  if (c->layout == LLS_CODED_FP4)
    return LLS_CODES4_FLOAT;
  if (!lls_coded_has_offset(c))
    return c->bits <= 4 ? LLS_CODES4 : LLS_CODES8;
  return c->bits <= 4   ? LLS_CODES4_OFFSET
         : c->bits == 5 ? LLS_CODES5_OFFSET
                        : LLS_NO_CODES;
}

enum lls_codes_form lls_codes_form_of(const struct lls_tensor_view *v)
{
  if (!lls_dtype_is_quantised(v->dtype))
    return LLS_NO_CODES;
  if (v->data == NULL)
    return v->dtype == LLS_Q8_0 ? LLS_CODES8 : LLS_CODES4;
  switch (v->dtype) {
  case LLS_CODED:
    return form_of_coded(v->data);
  case LLS_Q4_0:
    return LLS_CODES4;
  case LLS_MXFP4:
    return LLS_CODES4_FLOAT;
  case LLS_Q4_1:
  case LLS_Q4_K:
    return LLS_CODES4_OFFSET;
  case LLS_Q5_0: /* the offset is -16 scales */
  case LLS_Q5_1:
  case LLS_Q5_K:
    return LLS_CODES5_OFFSET;
  case LLS_Q2_K: /* 16 columns share an offset */
  case LLS_IQ2_XS:
  case LLS_IQ2_S: /* 16 share a scale, and -43 to 43 take more than 6 bits */
    return LLS_NO_CODES;
  default:
    return lls_dtype_group(v->dtype) == 16 ? LLS_CODES6 : LLS_CODES8;
  }
}

const int8_t *lls_codes_values(const struct lls_tensor_view *v)
{
  if (v->data != NULL && v->dtype == LLS_CODED &&
      form_of_coded(v->data) == LLS_CODES4_FLOAT)
    return lls_dtype_values(LLS_MXFP4);
  return v->data != NULL ? lls_dtype_values(v->dtype) : NULL;
}

enum lls_codes_form lls_codes_form_listed(const struct lls_tensor_view *v)
{
  if (lls_codes_values(v) != NULL)
    return LLS_CODES4_LIST;
  return v->data != NULL && v->dtype == LLS_Q2_K ? LLS_CODES4_OFFSET
                                                 : lls_codes_form_of(v);
}

size_t lls_row_codes_scratch(size_t columns)
{
  return columns * (sizeof(float) + 1) +
         columns / LLS_BLOCK_GROUP_MIN * 2 * sizeof(float);
}

struct lls_row_codes lls_row_codes_in(void *scratch, size_t columns)
{
  float *f = scratch;
  size_t groups = columns / LLS_BLOCK_GROUP_MIN;
  return (struct lls_row_codes){.columns = columns,
                                .numbers = f,
                                .scale = f + columns,
                                .offset = f + columns + groups,
                                .code = (uint8_t *)(f + columns + 2 * groups)};
}

/* ---- codes of a file -------------------------------------------------------------- */

/* Returns the e2m1 number whose double is `twice`. */
static uint8_t e2m1(int twice)
{
  static const uint8_t places[13] = {0, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7};
  return twice < 0 ? (uint8_t)(8 + places[-twice]) : places[twice];
}

/* Returns the number to add to a type's codes to get the form's codes. */
static int bias_of(const struct lls_tensor_view *v, enum lls_codes_form form)
{
  if (v->dtype == LLS_Q5_0)
    return 16;
  return form == LLS_CODES4 ? 8 : form == LLS_CODES6 ? 32 : form == LLS_CODES8 ? 128 : 0;
}

/* Makes numbers of a list the codes that stand for them. */
static void look_up(const int8_t *values, uint8_t *codes, size_t n)
{
  uint8_t code_of[256] = {0};
  for (uint8_t i = 16; i-- > 0;)
    code_of[(uint8_t)values[i]] = i;
  for (size_t k = 0; k < n; k++)
    codes[k] = code_of[codes[k]];
}

/* Adds to n codes, 16 at a time: a length that the compiler knows lets it use vectors. */
static void add_to_codes(uint8_t *codes, size_t n, uint8_t bias)
{
  size_t k = 0;
  for (; k + 16 <= n; k += 16)
    for (size_t i = 0; i < 16; i++)
      codes[k + i] = (uint8_t)(codes[k + i] + bias);
  for (; k < n; k++)
    codes[k] = (uint8_t)(codes[k] + bias);
}

static void read_codes(struct lls_row_codes *out, const struct lls_tensor_view *v,
                       size_t row, enum lls_codes_form form)
{
  int8_t *code = (int8_t *)out->code;
  size_t n = v->columns;
  if (v->dtype == LLS_CODED)
    lls_coded_read_codes(v->data, v->first_row + row, v->first_column, n, code,
                         out->scale, out->offset);
  else
    lls_quantised_read_codes(v->dtype,
                             (const char *)v->data +
                                 lls_dtype_row_bytes(v->dtype, row * v->row_stride),
                             n, code, out->scale, out->offset);
  out->groups = n / lls_dtype_group(v->dtype);
  if (form == LLS_CODES4_LIST)
    look_up(lls_codes_values(v), out->code, n);
  for (size_t k = 0; form == LLS_CODES4_FLOAT && k < n; k++)
    out->code[k] = e2m1(code[k]);
  if (form != LLS_CODES4_FLOAT)
    add_to_codes(out->code, n, (uint8_t)bias_of(v, form));
  for (size_t g = 0; v->dtype == LLS_Q5_0 && g < out->groups; g++)
    out->offset[g] = -16 * out->scale[g];
}

/* ---- quantising ------------------------------------------------------------------- */

/* Rounds to 11 bits of significand, as in f16, at any magnitude. */
static float rounded(float x)
{
  uint32_t bits = lls_f32_to_bits(x);
  return lls_bits_to_f32((bits + 0xfff + (bits >> 13 & 1)) & ~UINT32_C(0x1fff));
}

static float largest_of(const float *x, size_t n)
{
  float largest = 0;
  for (size_t i = 0; i < n; i++)
    largest = fabsf(x[i]) > fabsf(largest) ? x[i] : largest;
  return largest;
}

/* Rounds to the nearest integer: adding 1.5 2^23 leaves it in the lowest bits. */
static float nearest(float x)
{
  float shifted = x + 12582912.0f;
  return shifted - 12582912.0f;
}

static float quantise8(const float *x, uint8_t *code)
{
  float scale = rounded(fabsf(largest_of(x, LLS_CODES_GROUP)) / 127);
  float inverse = scale > 0 ? 1 / scale : 0;
  for (size_t i = 0; i < LLS_CODES_GROUP; i++)
    code[i] = (uint8_t)(128 + (int)fmaxf(-127, fminf(127, nearest(x[i] * inverse))));
  return scale;
}

static float clamped4(float q)
{
  q = nearest(q);
  q = q < -8 ? -8 : q;
  return q > 7 ? 7 : q;
}

static float quantise4(const float *x, uint8_t *code)
{
  static const float levels[] = {7, 7.3f, 7.6f, 7.9f, 8.2f, 8.5f, 8.8f};
  float largest = largest_of(x, LLS_CODES_GROUP), best = -1, chosen = 0, scale = 0;
  for (size_t c = 0; largest != 0 && c < sizeof levels / sizeof *levels; c++) {
    float inverse = -levels[c] / largest, xq = 0, qq = 0;
    for (size_t i = 0; i < LLS_CODES_GROUP; i++) {
      float q = clamped4(x[i] * inverse);
      xq += x[i] * q;
      qq += q * q;
    }
    if (qq > 0 && xq * xq > best * qq) {
      best = xq * xq / qq;
      chosen = inverse;
      scale = rounded(xq / qq);
    }
  }
  for (size_t i = 0; i < LLS_CODES_GROUP; i++)
    code[i] = (uint8_t)(8 + (int)clamped4(x[i] * chosen));
  return scale;
}

static void quantise(struct lls_row_codes *out, const struct lls_tensor_view *v,
                     size_t row, enum lls_codes_form form)
{
  memset(out->numbers, 0, out->columns * sizeof *out->numbers);
  lls_tensor_read_row(v, row, out->numbers);
  out->groups = (v->columns + LLS_CODES_GROUP - 1) / LLS_CODES_GROUP;
  for (size_t g = 0; g < out->groups; g++) {
    size_t k = g * LLS_CODES_GROUP;
    out->offset[g] = 0;
    out->scale[g] = form == LLS_CODES8 ? quantise8(out->numbers + k, out->code + k)
                                       : quantise4(out->numbers + k, out->code + k);
  }
}

void lls_row_codes_read(struct lls_row_codes *out, const struct lls_tensor_view *v,
                        size_t row, enum lls_codes_form form)
{
  memset(out->code, 0, out->columns);
  bool own = lls_codes_form_of(v) == form || lls_codes_form_listed(v) == form;
  if (v->data != NULL && own)
    read_codes(out, v, row, form);
  else
    quantise(out, v, row, form);
}

int lls_row_codes_exponent(const struct lls_row_codes *row)
{
  float largest = 0;
  int exponent = 0;
  for (size_t g = 0; g < row->groups; g++) { /* NaN is never the largest */
    largest = fabsf(row->scale[g]) > largest ? fabsf(row->scale[g]) : largest;
    largest = fabsf(row->offset[g]) > largest ? fabsf(row->offset[g]) : largest;
  }
  if (largest > 0 && isfinite(largest))
    frexpf(largest, &exponent);
  return exponent - 15;
}
