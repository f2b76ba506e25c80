/* SPDX-License-Identifier: Apache-2.0 */
/* Packs rows of codes (core/device/row_codes.h) into panels (codes.h). */
#include "kernels/cpu/codes.h"
#include "core/device/numbers.h"
#include "core/device/quantised.h"
#include "core/device/row_codes.h"
#include "kernels/cpu/codes_pack.h"

#include <math.h>
#include <string.h>

/* 8-bit floats are multiplied as bf16. */
static const enum lls_packed packed_as[] = {
    [LLS_NO_CODES] = LLS_PACKED_BF16,
    [LLS_CODES4] = LLS_PACKED_CODES4,
    [LLS_CODES4_FLOAT] = LLS_PACKED_CODES4,
    [LLS_CODES4_OFFSET] = LLS_PACKED_CODES4_OFFSET,
    [LLS_CODES5_OFFSET] = LLS_PACKED_CODES5_OFFSET,
    [LLS_CODES6] = LLS_PACKED_CODES6,
    [LLS_CODES8] = LLS_PACKED_CODES8,
    [LLS_CODES8_FLOAT] = LLS_PACKED_BF16,
    [LLS_CODES4_LIST] = LLS_PACKED_CODES4,
};

/* Returns the same for types with lists; the last number of lists of up to 8 is 0. */
static enum lls_packed packed_list(enum lls_dtype type)
{
  if (!lls_dtype_has_block_scales(type))
    return LLS_PACKED_CODES4;
  if (lls_dtype_values(type)[15] != 0)
    return LLS_PACKED_LIST4_BLOCK;
  return lls_dtype_group(type) == 16 ? LLS_PACKED_LIST3_SHORT : LLS_PACKED_LIST3_BLOCK;
}

enum lls_packed lls_codes_packed(const struct lls_tensor_view *v)
{
  enum lls_codes_form form = lls_codes_form_listed(v);
  enum lls_packed packed = packed_as[form];
  if (form == LLS_CODES4_LIST)
    return packed_list(v->dtype);
  if (v->data != NULL && v->dtype == LLS_Q2_K)
    return LLS_PACKED_CODES2_SHORT;
  if (!lls_dtype_has_block_scales(v->dtype))
    return packed;
  return packed == LLS_PACKED_CODES4_OFFSET   ? LLS_PACKED_CODES4_BLOCK
         : packed == LLS_PACKED_CODES5_OFFSET ? LLS_PACKED_CODES5_BLOCK
                                              : packed;
}

void lls_codes_table(const struct lls_tensor_view *v, enum lls_packed packed,
                     uint8_t table[16])
{
  const int8_t *values = lls_codes_packed(v) == packed ? lls_codes_values(v) : NULL;
  for (int i = 0; i < 16; i++)
    table[i] = (uint8_t)(128 + (values != NULL ? values[i] : i - 8));
}

size_t lls_codes_scratch(size_t columns)
{
  return lls_row_codes_scratch((columns + LLS_CODES_STEP - 1) / LLS_CODES_STEP *
                               LLS_CODES_STEP);
}

/* ---- into the panel -------------------------------------------------------------- */

static uint32_t quad_at(const uint8_t *code)
{
  uint32_t quad;
  memcpy(&quad, code, sizeof quad);
  return quad;
}

/* Packs one output's 64 codes; each operation touches only the output's own bytes. */
static inline __attribute__((always_inline)) void
pack_bits(uint8_t *record, const unsigned bits, size_t o, const uint8_t *code)
{
  const unsigned low = lls_codes_low(bits), in = 8 / low, wide = bits - low;
  const unsigned shared = wide == 1 ? 8 : 4;
  const uint32_t each = 0x01010101, low_mask = each * ((1u << low) - 1),
                 high_mask = each * ((1u << wide) - 1);
  uint32_t lows = 0, highs = 0;
#pragma GCC unroll 16
  for (size_t q = 0; q < LLS_CODES_STEP / 4; q++) {
    uint32_t quad = quad_at(code + 4 * q);
    if (bits == 8) {
      memcpy(record + q * LLS_CODES_QUAD + o * 4, &quad, sizeof quad);
      continue;
    }
    lows |= (quad & low_mask) << q % in * low;
    if (q % in == in - 1) {
      memcpy(record + q / in * LLS_CODES_QUAD + o * 4, &lows, sizeof lows);
      lows = 0;
    }
    highs |= (quad >> low & high_mask) << q % shared * wide;
    if (wide > 0 && q % shared == shared - 1) {
      uint8_t *to = record + lls_codes_high(bits) + q / shared * LLS_CODES_QUAD;
      memcpy(to + o * 4, &highs, sizeof highs);
      highs = 0;
    }
  }
}

/* Bits are constant in each case, so that no quad takes a division. */
static void pack_codes(uint8_t *record, unsigned bits, size_t o, const uint8_t *code)
{
  switch (bits) {
  case 2:
    return pack_bits(record, 2, o, code);
  case 3:
    return pack_bits(record, 3, o, code);
  case 4:
    return pack_bits(record, 4, o, code);
  case 5:
    return pack_bits(record, 5, o, code);
  case 6:
    return pack_bits(record, 6, o, code);
  default:
    return pack_bits(record, 8, o, code);
  }
}

/* Packs a row's scales as f16, multiplied by a power of two so that they fit. */
static void pack_halves(struct lls_weight *w, size_t output,
                        const struct lls_row_codes *row)
{
  const struct lls_codes_layout layout = lls_codes_layout(w->packed);
  const size_t record = lls_codes_record(w->packed), groups = layout.groups;
  char *at = w->data + output / LLS_PANEL * w->panel_bytes + lls_codes_bytes(w->packed);
  size_t o = output % LLS_PANEL;
  int exponent = lls_row_codes_exponent(row);
  w->scale[output] = ldexpf(1, exponent);
  /* As doubles the products are exact, whatever the exponent. */
  const double factor = ldexp(1, -exponent);
  for (size_t i = 0; i < row->groups; i += groups, at += record) {
    uint16_t *scale = (uint16_t *)at + o, *offset = scale + groups * LLS_PANEL;
    for (size_t g = 0; g < groups && i + g < row->groups; g++) {
      scale[g * LLS_PANEL] = lls_f32_to_f16((float)((double)row->scale[i + g] * factor));
      if (layout.offset)
        offset[g * LLS_PANEL] =
            lls_f32_to_f16((float)((double)row->offset[i + g] * factor));
    }
  }
}

/* Returns x / of, a whole number; 1 if both are 0 or both infinite. */
static int8_t multiple(float x, float of)
{
  float whole = x / of;
  return whole >= -128 && whole <= 127 ? (int8_t)whole : 1;
}

/* Packs the scales of a row stored in blocks, as in Q4_K files; its blocks are at
 * `blocks`. The output's own scale is the part of types that have one. */
static void pack_blocks(struct lls_weight *w, size_t output,
                        const struct lls_row_codes *row, enum lls_dtype type,
                        const void *blocks)
{
  const struct lls_codes_layout layout = lls_codes_layout(w->packed);
  const size_t groups = LLS_CODES_BLOCK_RECORDS * (size_t)layout.groups;
  char *panel = w->data + output / LLS_PANEL * w->panel_bytes;
  size_t o = output % LLS_PANEL;
  w->scale[output] = lls_quantised_block_scales(type, blocks, 0).part;
  for (size_t i = 0; i < row->groups; i++) {
    const struct lls_block_scales of =
        lls_quantised_block_scales(type, blocks, i / groups);
    size_t record = i / layout.groups, block = i / groups, g = i % layout.groups;
    int8_t *scale = (int8_t *)(panel + lls_codes_at(w->packed, record * LLS_CODES_STEP) +
                               lls_codes_bytes(w->packed));
    int8_t *offset = scale + layout.groups * LLS_PANEL;
    scale[g * LLS_PANEL + o] = multiple(row->scale[i], of.scale * of.part);
    if (layout.offset)
      offset[g * LLS_PANEL + o] = multiple(row->offset[i], of.offset);
    size_t past = (block + 1) * LLS_CODES_BLOCK_RECORDS * LLS_CODES_STEP;
    uint16_t *half =
        (uint16_t *)(panel + lls_codes_at(w->packed, past) - LLS_CODES_BLOCK_SCALES);
    half[o] = lls_f32_to_f16(of.scale);
    half[LLS_PANEL + o] = lls_f32_to_f16(of.offset);
  }
}

static void pack_row_codes(struct lls_weight *w, size_t output,
                           const struct lls_row_codes *row)
{
  const size_t bytes = lls_codes_record(w->packed), tail = lls_codes_tail(w->packed);
  const size_t block = lls_codes_records(w->packed) * LLS_CODES_STEP;
  const unsigned bits = lls_codes_layout(w->packed).bits;
  uint8_t *record = (uint8_t *)w->data + output / LLS_PANEL * w->panel_bytes;
  for (size_t k = 0; k < w->inputs; k += LLS_CODES_STEP, record += bytes) {
    record += k > 0 && k % block == 0 ? tail : 0;
    pack_codes(record, bits, output % LLS_PANEL, row->code + k);
  }
}

void lls_codes_pack(struct lls_weight *w, size_t output, const struct lls_tensor_view *v,
                    size_t row, void *scratch)
{
  struct lls_row_codes r = lls_row_codes_in(scratch, w->inputs);
  enum lls_codes_form own = lls_codes_form_listed(v);
  bool as_it_is = lls_codes_packed(v) == w->packed;
  lls_row_codes_read(&r, v, row,
                     as_it_is                         ? own
                     : w->packed == LLS_PACKED_CODES8 ? LLS_CODES8
                                                      : LLS_CODES4);
  pack_row_codes(w, output, &r);
  if (lls_codes_layout(w->packed).scales == LLS_SCALES_HALF)
    pack_halves(w, output, &r);
  else
    pack_blocks(w, output, &r, v->dtype,
                (const char *)v->data +
                    lls_dtype_row_bytes(v->dtype, row * v->row_stride));
}
