/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a tensor into panels of codes (codes.h): those that a file has keep their bits,
 * rows of 16 or 32 bits are quantised in groups of 32 inputs.
 *
 *   8 bits  scale = largest magnitude / 127
 *   4 bits  -8..7: of some scales around the one that makes the largest magnitude -8 the
 *           one with the least squared error, which for given codes q of numbers x is
 *           sum x q / sum q q
 */
#include "kernels/cpu/codes.h"
#include "core/device/coded.h"
#include "core/device/numbers.h"
#include "core/device/quantised.h"
#include "core/device/tensor.h"
#include "kernels/cpu/codes_pack.h"

#include <math.h>
#include <string.h>

/* How a type's codes are stored: code + bias in `packed`. */
struct kind {
  enum lls_packed packed;
  int bias;
};

static struct kind kind_of_coded(const struct lls_coded *c)
{
  if (!lls_coded_keeps_codes(c))
    return (struct kind){LLS_PACKED_BF16, 0};
  if (c->layout == LLS_CODED_INT8)
    return (struct kind){LLS_PACKED_CODES8, 128};
  return lls_coded_has_offset(c) ? (struct kind){LLS_PACKED_CODES4_OFFSET, 0}
                                 : (struct kind){LLS_PACKED_CODES4, 8};
}

static struct kind kind_of(const struct lls_tensor_view *v)
{
  switch (v->dtype) {
  case LLS_CODED:
    return kind_of_coded(v->data);
  case LLS_Q4_0:
    return (struct kind){LLS_PACKED_CODES4, 8};
  case LLS_MXFP4:
    return (struct kind){LLS_PACKED_CODES4, 0};
  case LLS_Q4_1:
  case LLS_Q4_K:
    return (struct kind){LLS_PACKED_CODES4_OFFSET, 0};
  case LLS_Q5_0: /* the offset is -16 scales */
    return (struct kind){LLS_PACKED_CODES5_OFFSET, 16};
  case LLS_Q5_1:
  case LLS_Q5_K:
    return (struct kind){LLS_PACKED_CODES5_OFFSET, 0};
  case LLS_Q6_K:
    return (struct kind){LLS_PACKED_CODES6, 32};
  default:
    return (struct kind){LLS_PACKED_CODES8, 128};
  }
}

enum lls_packed lls_codes_packed(const struct lls_tensor_view *v)
{
  if (v->data != NULL)
    return kind_of(v).packed;
  /* Random numbers, which are quantised as others are. */
  return v->dtype == LLS_Q8_0 ? LLS_PACKED_CODES8 : LLS_PACKED_CODES4;
}

void lls_codes_table(enum lls_dtype type, uint8_t table[16])
{
  static const int8_t mxfp4[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                   0, -1, -2, -3, -4, -6, -8, -12};
  for (int i = 0; i < 16; i++)
    table[i] = (uint8_t)(128 + (type == LLS_MXFP4 ? mxfp4[i] : i - 8));
}

size_t lls_codes_scratch(size_t columns)
{
  size_t inputs = (columns + LLS_CODES_STEP - 1) / LLS_CODES_STEP * LLS_CODES_STEP;
  return inputs * (sizeof(float) + 1) + inputs / LLS_BLOCK_GROUP_MIN * 2 * sizeof(float);
}

/* ---- a row's codes --------------------------------------------------------------- */

/* A row of codes in a thread's scratch. */
struct row {
  float *numbers; /* (inputs) */
  float *scale, *offset;
  uint8_t *code; /* (inputs) as stored */
};

static struct row row_in(void *scratch, size_t inputs)
{
  float *f = scratch;
  size_t groups = inputs / LLS_BLOCK_GROUP_MIN;
  return (struct row){.numbers = f,
                      .scale = f + inputs,
                      .offset = f + inputs + groups,
                      .code = (uint8_t *)(f + inputs + 2 * groups)};
}

/* The table's place of each number: of its 16 codes MXFP4 has 0 twice. */
static uint8_t place_in_mxfp4(int code)
{
  static const uint8_t places[13] = {0, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7};
  return code < 0 ? (uint8_t)(8 + places[-code]) : places[code];
}

static void read_codes(const struct lls_tensor_view *v, size_t row, struct row *out)
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
  int bias = kind_of(v).bias;
  for (size_t k = 0; k < n; k++)
    out->code[k] =
        v->dtype == LLS_MXFP4 ? place_in_mxfp4(code[k]) : (uint8_t)(code[k] + bias);
  size_t groups = n / lls_dtype_group(v->dtype);
  for (size_t g = 0; v->dtype == LLS_Q5_0 && g < groups; g++)
    out->offset[g] = -16 * out->scale[g];
}

/* To 11 bits of significand, as f16 has them at any size. */
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

/* Adding 1.5 2^23 leaves the nearest whole number in the lowest bits. */
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

static void quantise(enum lls_packed packed, size_t inputs, struct row *row)
{
  for (size_t k = 0; k < inputs; k += LLS_CODES_GROUP) {
    size_t g = k / LLS_CODES_GROUP;
    row->offset[g] = 0;
    row->scale[g] = packed == LLS_PACKED_CODES8
                        ? quantise8(row->numbers + k, row->code + k)
                        : quantise4(row->numbers + k, row->code + k);
  }
}

/* ---- into the panel -------------------------------------------------------------- */

static uint32_t quad_at(const uint8_t *code)
{
  uint32_t quad;
  memcpy(&quad, code, sizeof quad);
  return quad;
}

/* One output's 64 codes; every operation stays within its byte. */
static void pack_codes(uint8_t *record, unsigned bits, size_t o, const uint8_t *code)
{
  unsigned wide = bits - 4, shared = wide == 1 ? 8 : 4;
  uint32_t high = 0;
  for (size_t q = 0; q < LLS_CODES_STEP / 4; q++) {
    uint32_t quad = quad_at(code + 4 * q);
    uint8_t *to = record + (bits == 8 ? q : q / 2) * LLS_CODES_QUAD + o * 4;
    if (bits == 8) {
      memcpy(to, &quad, sizeof quad);
      continue;
    }
    if (q % 2 == 0) {
      uint32_t both = (quad & 0x0f0f0f0f) | (quad_at(code + 4 * q + 4) & 0x0f0f0f0f) << 4;
      memcpy(to, &both, sizeof both);
    }
    high |= (quad >> 4 & (wide == 1 ? 0x01010101u : 0x03030303u)) << q % shared * wide;
    if (wide > 0 && q % shared == shared - 1) {
      memcpy(record + 512 + q / shared * LLS_CODES_QUAD + o * 4, &high, sizeof high);
      high = 0;
    }
  }
}

/* The power of two that makes the largest scale or offset at least 2^14. */
static int exponent_of(const struct row *row, size_t groups)
{
  float largest = 0;
  int exponent = 0;
  for (size_t g = 0; g < groups; g++)
    largest = fmaxf(largest, fmaxf(fabsf(row->scale[g]), fabsf(row->offset[g])));
  if (largest > 0 && isfinite(largest))
    frexpf(largest, &exponent);
  return exponent - 15;
}

static void pack_row(struct lls_weight *w, size_t output, const struct row *row,
                     size_t groups)
{
  const struct lls_codes_layout layout = lls_codes_layout(w->packed);
  size_t record = lls_codes_record(w->packed), o = output % LLS_PANEL;
  uint8_t *panel = (uint8_t *)w->data + output / LLS_PANEL * w->panel_bytes;
  int exponent = exponent_of(row, groups);
  w->scale[output] = ldexpf(1, exponent);
  for (size_t k = 0; k < w->inputs; k += LLS_CODES_STEP, panel += record) {
    pack_codes(panel, layout.bits, o, row->code + k);
    uint16_t *scale = (uint16_t *)(panel + lls_codes_bytes(w->packed));
    uint16_t *offset = scale + layout.groups * LLS_PANEL;
    for (size_t g = 0; g < layout.groups; g++) {
      size_t from = k / LLS_CODES_STEP * layout.groups + g;
      if (from >= groups)
        continue; /* zeros, as all of the panel was */
      scale[g * LLS_PANEL + o] = lls_f32_to_f16(ldexpf(row->scale[from], -exponent));
      if (layout.offset)
        offset[g * LLS_PANEL + o] = lls_f32_to_f16(ldexpf(row->offset[from], -exponent));
    }
  }
}

void lls_codes_pack(struct lls_weight *w, size_t output, const struct lls_tensor_view *v,
                    size_t row, void *scratch)
{
  struct row r = row_in(scratch, w->inputs);
  size_t groups = (v->columns + LLS_CODES_GROUP - 1) / LLS_CODES_GROUP;
  memset(r.code, 0, w->inputs);
  if (v->data != NULL && lls_dtype_is_quantised(v->dtype) &&
      lls_codes_packed(v) == w->packed) {
    groups = v->columns / lls_dtype_group(v->dtype);
    read_codes(v, row, &r);
  } else {
    memset(r.numbers, 0, w->inputs * sizeof *r.numbers);
    lls_tensor_read_row(v, row, r.numbers);
    quantise(w->packed, groups * LLS_CODES_GROUP, &r);
  }
  pack_row(w, output, &r, groups);
}
