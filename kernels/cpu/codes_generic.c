/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference products of codes (codes.h), the same code for every format: groups in
 * integers, their sum in double. Also quantises x as each level's instructions need it.
 */
#include "core/device/numbers.h"
#include "kernels/cpu/codes.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* If any input is not finite, the scale is NaN, and so is every product that uses this
 * group. */
static void quantise(const float *x, size_t n, const struct lls_codes_layout *layout,
                     struct lls_codes_x *out)
{
  float largest = 0;
  bool finite = true;
  int sum[2] = {0, 0};
  for (size_t i = 0; i < n; i++) {
    largest = fmaxf(largest, fabsf(x[i]));
    finite = finite && isfinite(x[i]);
  }
  float inverse = largest > 1e-30f ? 127 / largest : 0;
  for (size_t i = 0; i < LLS_CODES_GROUP; i++) {
    float code = i < n ? rintf(x[i] * inverse) : 0;
    out->code[i] = (int8_t)(isfinite(code) ? code : 0);
    sum[i / 16] += out->code[i];
  }
  out->scale = finite ? largest / 127 : (float)NAN;
  out->sum = out->scale * (float)(sum[0] + sum[1]);
  int32_t factor = (int32_t)lls_codes_start(*layout);
  out->start[0] = factor * (layout->groups == 2 ? sum[0] + sum[1] : sum[0]);
  out->start[1] = factor * sum[1];
}

static void pack(const float *x, size_t stride, size_t n_rows, size_t columns,
                 size_t inputs, void *out, enum lls_packed packed)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  struct lls_codes_x *to = out;
  for (size_t k = 0; k < inputs; k += LLS_CODES_GROUP) {
    size_t n = columns <= k ? 0 : columns - k;
    for (size_t row = 0; row < n_rows; row++)
      quantise(x + row * stride + (n > 0 ? k : 0),
               n < LLS_CODES_GROUP ? n : LLS_CODES_GROUP, &layout, to++);
  }
}

static size_t skip(size_t n_rows, size_t k)
{
  return k / LLS_CODES_GROUP * n_rows * sizeof(struct lls_codes_x);
}

/* Returns the product of `n` inputs from the record's k-th on, with the zero
 * subtracted. */
static int32_t product(const uint8_t *record, enum lls_packed packed,
                       const uint8_t *table, size_t k, size_t n, size_t o,
                       const struct lls_codes_x *x)
{
  unsigned bits = lls_codes_layout(packed).bits;
  bool list = lls_codes_listed(packed);
  int32_t sum = 0;
  for (size_t i = k; i < k + n; i++) {
    unsigned code = lls_codes_get(record, bits, i, o);
    code = list ? table[code] : code;
    sum += (int32_t)code * x[0].code[i % LLS_CODES_GROUP];
  }
  return sum;
}

/* Returns the i-th scale or offset; BLOCK formats store multiples of `block`. */
static double scale_at(const uint8_t *scales, enum lls_packed packed, size_t i,
                       uint16_t block)
{
  switch (lls_codes_layout(packed).scales) {
  case LLS_SCALES_HALF:
    return (double)lls_f16_to_f32(((const uint16_t *)scales)[i]);
  case LLS_SCALES_FLOAT:
    return (double)((const float *)scales)[i];
  default:
    return (double)lls_f16_to_f32(block) * ((const int8_t *)scales)[i];
  }
}

/* One row times one output of the panel's k-th record; x: the record's two groups,
 * `rows` apart. */
static double record_sum(const uint8_t *panel, size_t k, const struct lls_tile *t,
                         enum lls_packed packed, size_t o, const struct lls_codes_x *x)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const size_t past = (k / LLS_CODES_BLOCK_RECORDS + 1) * LLS_CODES_BLOCK_RECORDS;
  const uint8_t *record = panel + lls_codes_at(packed, k * LLS_CODES_STEP);
  const uint8_t *scales = record + lls_codes_bytes(packed);
  const uint8_t *offsets = scales + lls_codes_scale_bytes(packed);
  uint16_t block[2] = {0};
  for (size_t i = 0; i < 2 && lls_codes_tail(packed) > 0; i++) {
    const uint8_t *tail = panel + lls_codes_at(packed, past * LLS_CODES_STEP);
    block[i] = ((const uint16_t *)(tail - LLS_CODES_BLOCK_SCALES))[i * LLS_PANEL + o];
  }
  size_t n = LLS_CODES_STEP / layout.groups;
  double sum = 0;
  for (size_t g = 0; g < layout.groups; g++) {
    const struct lls_codes_x *of = x + g * n / LLS_CODES_GROUP * t->rows;
    int32_t whole = product(record, packed, t->table, g * n, n, o, of);
    int32_t start = of->start[layout.groups == 4 ? g % 2 : 0];
    whole += layout.zero == 0 ? 0 : start;
    double step = scale_at(scales, packed, g * LLS_PANEL + o, block[0]);
    sum += step * (double)of->scale * whole;
    double all = layout.groups == 4 ? (double)of->scale * start : (double)of->sum;
    if (layout.offset)
      sum += scale_at(offsets, packed, g * LLS_PANEL + o, block[1]) * all;
  }
  return sum;
}

static void tile(const struct lls_tile *t, enum lls_packed packed)
{
  for (size_t p = 0; p < t->panels; p++) {
    const uint8_t *panel = (const uint8_t *)t->weight + p * t->panel_bytes;
    for (size_t i = 0; i < t->rows * LLS_PANEL; i++) {
      float *to = t->sums + p * t->sum_stride + i;
      const struct lls_codes_x *x = (const struct lls_codes_x *)t->x + i / LLS_PANEL;
      double sum = t->more ? (double)*to : 0;
      for (size_t k = 0; k < t->inputs / LLS_CODES_STEP; k++)
        sum += record_sum(panel, k, t, packed, i % LLS_PANEL, x + 2 * k * t->rows);
      *to = (float)sum;
    }
  }
}

#define FORMAT(name, packed, many)                                                       \
  static void tile_##name(const struct lls_tile *t)                                      \
  {                                                                                      \
    tile(t, packed);                                                                     \
  }                                                                                      \
  static void pack_##name(const float *x, size_t stride, size_t n_rows, size_t columns,  \
                          size_t inputs, void *out)                                      \
  {                                                                                      \
    pack(x, stride, n_rows, columns, inputs, out, packed);                               \
  }
LLS_CODES_FORMATS(FORMAT)

void lls_cpu_codes_generic(struct lls_cpu_linear_kernels *k)
{
#define ENTER(name, packed, many)                                                        \
  k->of[packed].tile = tile_##name;                                                      \
  k->of[packed].pack = pack_##name;
  LLS_CODES_FORMATS(ENTER)
  for (int i = LLS_PACKED_CODES8; i < LLS_N_PACKED; i++) {
    k->of[i].x_bytes = 1;
    k->of[i].skip = skip;
  }
}
