/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codes (codes.h) on aarch64, included by codes_neon.c and codes_i8mm.c, which provide
 * the product of half a record. Here are the loop around it, the unpacking of codes and
 * scales, and the quantising of x. A panel's 16 outputs are four registers of floats, and
 * a quad of codes four registers of (4 outputs, 4 inputs), which is what SDOT multiplies.
 *
 * SDOT and SMMLA multiply signed bytes: codes with a zero of 128 become numbers by one
 * exclusive or, the others are below 128. Integers are exact, so both levels give the
 * same bits as AVX-VNNI and AVX-512.
 */
#ifndef LLS_CPU_CODES_NEON_H
#define LLS_CPU_CODES_NEON_H

#include "kernels/cpu/codes.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#define MAX_ROWS 4
#define VECTORS  (LLS_PANEL / LANES)
#define AHEAD    2048 /* bytes prefetched ahead where the weights stream by */

/* ---- a record's codes ------------------------------------------------------------ */

INLINE uint8x16_t load(const char *p)
{
  return vld1q_u8((const uint8_t *)p);
}

/* Shifts bytes left, or right if n < 0. */
INLINE uint8x16_t moved(uint8x16_t v, const int n)
{
  return n >= 0 ? v << (n >= 0 ? n : 0) : v >> (n < 0 ? -n : 0);
}

/* Returns quad i of half a record of two or three bits, outputs 4 v to 4 v + 3. */
INLINE uint8x16_t load_few(const char *record, const int half, const int i, const int v,
                           const bool three)
{
  uint8x16_t four = load(record + (half * 2 + i / 4) * LLS_CODES_QUAD + v * 16);
  uint8x16_t code = vandq_u8(moved(four, -(i % 4 * 2)), vdupq_n_u8(3));
  if (!three)
    return code;
  uint8x16_t third = load(record + lls_codes_high(3) + half * LLS_CODES_QUAD + v * 16);
  return vorrq_u8(code, vandq_u8(moved(third, 2 - i), vdupq_n_u8(4)));
}

/* Quad i of the record's `half`, outputs 4 v to 4 v + 3: unpacked, still with the
 * zero. */
INLINE uint8x16_t load_stored(const char *record, const int half, const int i,
                              const int v, enum lls_packed packed, uint8x16_t table)
{
  const int bits = lls_codes_layout(packed).bits;
  if (bits == 8)
    return load(record + (half * 8 + i) * LLS_CODES_QUAD + v * 16);
  if (bits < 4) {
    uint8x16_t few = load_few(record, half, i, v, bits == 3);
    return lls_codes_listed(packed) ? vqtbl1q_u8(table, few) : few;
  }
  uint8x16_t two = load(record + (half * 4 + i / 2) * LLS_CODES_QUAD + v * 16);
  uint8x16_t code = i % 2 == 0 ? vandq_u8(two, vdupq_n_u8(15)) : vshrq_n_u8(two, 4);
  if (lls_codes_listed(packed))
    return vqtbl1q_u8(table, code);
  if (bits == 4)
    return code;
  const int wide = bits - 4, shared = 8 / wide; /* quads that share 64 bytes */
  uint8x16_t high = load(record + lls_codes_high((unsigned)bits) +
                         (half * wide + i / shared) * LLS_CODES_QUAD + v * 16);
  high = moved(high, 4 - i % shared * wide);
  return vorrq_u8(code, vandq_u8(high, vdupq_n_u8(wide == 1 ? 16 : 48)));
}

/* The same as numbers that are multiplied: codes with a zero of 128 without it. */
INLINE int8x16_t load_number(const char *record, const int half, const int i, const int v,
                             enum lls_packed packed, uint8x16_t table)
{
  uint8x16_t code = load_stored(record, half, i, v, packed, table);
  if (lls_codes_layout(packed).zero == 128 && !lls_codes_listed(packed))
    code = veorq_u8(code, vdupq_n_u8(128));
  return vreinterpretq_s8_u8(code);
}

/* The table, with numbers instead of codes. */
INLINE uint8x16_t load_table(const uint8_t *table)
{
  return veorq_u8(vld1q_u8(table), vdupq_n_u8(128));
}

/* Returns a group's scales or offsets, outputs 4 v on; BLOCK formats store multiples of
 * `block`. */
INLINE vf load_scales(const char *p, const int v, enum lls_packed packed, vf block)
{
  p += (size_t)v * lls_codes_group_bytes(packed) / VECTORS;
  if (lls_codes_layout(packed).scales == LLS_SCALES_HALF)
    return vload_f16((const uint16_t *)p);
  if (lls_codes_layout(packed).scales == LLS_SCALES_FLOAT)
    return vload((const float *)p);
  uint32_t whole;
  memcpy(&whole, p, sizeof whole);
  int16x8_t wide = vmovl_s8(vcreate_s8(whole));
  return vmul(vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), block);
}

/* Returns a block's scale (i = 0) or offset, of formats that have them. */
INLINE vf load_block(const char *tail, const int i, const int v, enum lls_packed packed)
{
  if (lls_codes_tail(packed) == 0)
    return vzero();
  return vload_f16((const uint16_t *)tail + i * LLS_PANEL + v * LANES);
}

/* The scale (offset = 0) or the offset (1) of a scale group in half a record; outputs
 * 4 v on. */
INLINE vf load_scale(const char *record, const char *tail, const int half, const int part,
                     const int v, enum lls_packed packed, const int offset)
{
  const int parts = lls_codes_layout(packed).groups / 2;
  const char *at = record + lls_codes_bytes(packed) +
                   (size_t)offset * lls_codes_scale_bytes(packed) +
                   (size_t)(half * parts + part) * lls_codes_group_bytes(packed);
  return load_scales(at, v, packed, load_block(tail, offset, v, packed));
}

/* ---- products -------------------------------------------------------------------- */

/* Provided by the including file: whole (rows) = what the sums of part `part` start with,
 * plus the products of its quads with outputs 4 v on. */
INLINE void multiply_part(const char *record, int half, int part,
                          const struct lls_codes_x *x, int v, int rows,
                          enum lls_packed packed, uint8x16_t table, int32x4_t *whole);

/* Returns what the sums of a row start with: the share of a zero that load_number
 * leaves. */
INLINE int32x4_t start_of(const struct lls_codes_x *x, const int part,
                          enum lls_packed packed)
{
  const int zero = lls_codes_layout(packed).zero;
  return vdupq_n_s32(zero == 0 || zero == 128 ? 0 : x->start[part]);
}

/* The sum of a row's inputs that share an offset. */
INLINE vf sum_of_part(const struct lls_codes_x *x, const int part, enum lls_packed packed)
{
  return vset(lls_codes_layout(packed).groups == 2 ? x->sum
                                                   : x->scale * (float)x->start[part]);
}

/* Adds half a record times the rows, scaled, to their sums (rows, VECTORS). */
INLINE void add_half(const char *record, const char *tail, const int half,
                     const struct lls_codes_x *x, const int rows, enum lls_packed packed,
                     uint8x16_t table, vf *sum)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  UNROLL
  for (int v = 0; v < VECTORS; v++) {
    UNROLL
    for (int part = 0; part < layout.groups / 2; part++) {
      int32x4_t whole[MAX_ROWS];
      multiply_part(record, half, part, x, v, rows, packed, table, whole);
      vf scale = load_scale(record, tail, half, part, v, packed, 0);
      UNROLL
      for (int r = 0; r < rows; r++)
        sum[r * VECTORS + v] = vfma(vcvtq_f32_s32(whole[r]),
                                    vmul(scale, vset(x[r].scale)), sum[r * VECTORS + v]);
    }
    if (!layout.offset)
      continue;
    UNROLL
    for (int part = 0; part < layout.groups / 2; part++) {
      vf offset = load_scale(record, tail, half, part, v, packed, 1);
      UNROLL
      for (int r = 0; r < rows; r++)
        sum[r * VECTORS + v] =
            vfma(offset, sum_of_part(&x[r], part, packed), sum[r * VECTORS + v]);
    }
  }
}

/* Multiplies one panel; prefetches as many bytes from `ahead` on, if it is not NULL. */
INLINE void multiply(const struct lls_tile *t, const char *record, const char *ahead,
                     float *sums, const int rows, enum lls_packed packed)
{
  const size_t bytes = lls_codes_record(packed), records = lls_codes_records(packed);
  const struct lls_codes_x *x = t->x;
  uint8x16_t table = lls_codes_listed(packed) ? load_table(t->table) : vdupq_n_u8(0);
  vf sum[VECTORS * MAX_ROWS];
  UNROLL
  for (int i = 0; i < VECTORS * rows; i++)
    sum[i] = t->more ? vload(sums + i * LANES) : vzero();
  for (size_t k = 0; k < t->inputs; k += records * LLS_CODES_STEP) {
    const char *first = record, *tail = record + records * bytes;
    for (; record < tail; record += bytes, x += 2 * rows) {
      for (size_t line = 0; ahead != NULL && line < bytes; line += 64)
        prefetch_l1(ahead + (record - first) + line);
      add_half(record, tail, 0, x, rows, packed, table, sum);
      add_half(record, tail, 1, x + rows, rows, packed, table, sum);
    }
    record += lls_codes_tail(packed);
    ahead += ahead != NULL ? record - first : 0;
  }
  UNROLL
  for (int i = 0; i < VECTORS * rows; i++)
    vstore(sums + i * LANES, sum[i]);
}

/* Panels follow each other in memory, so a panel prefetches the next one. */
INLINE void run(const struct lls_tile *t, const int rows, enum lls_packed packed)
{
  for (size_t p = 0; p < t->panels; p++) {
    const char *panel = t->weight + p * t->panel_bytes;
    const char *ahead = t->lead == 0          ? NULL
                        : t->lead < t->inputs ? panel + AHEAD
                                              : panel + t->panels * t->panel_bytes;
    multiply(t, panel, ahead, t->sums + p * t->sum_stride, rows, packed);
  }
}

INLINE void tile(const struct lls_tile *t, enum lls_packed packed)
{
  switch (t->rows) {
  case 1:
    return run(t, 1, packed);
  case 2:
    return run(t, 2, packed);
  case 3:
    return run(t, 3, packed);
  default:
    return run(t, 4, packed);
  }
}

/* ---- x --------------------------------------------------------------------------- */

/* Returns the largest of 32 magnitudes; infinite or NaN if any value is: as integers
 * their bits are the largest. */
INLINE float largest_of(const vf x[8])
{
  uint32x4_t bits = vdupq_n_u32(0);
  UNROLL
  for (int i = 0; i < 8; i++)
    bits = vmaxq_u32(bits, vreinterpretq_u32_f32(vabs(x[i])));
  uint32_t most = vmaxvq_u32(bits);
  float largest;
  memcpy(&largest, &most, sizeof largest);
  return largest;
}

INLINE void quantise(const vf x[8], enum lls_packed packed, struct lls_codes_x *out)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  float largest = largest_of(x);
  vf inverse = vset(largest > 1e-30f ? 127 / largest : 0);
  /* Codes of values that are not finite are arbitrary, but their sums can't overflow. */
  int32_t half[2];
  UNROLL
  for (int h = 0; h < 2; h++) {
    int16x4_t code[4];
    UNROLL
    for (int i = 0; i < 4; i++)
      code[i] = vqmovn_s32(vcvtnq_s32_f32(vmul(x[4 * h + i], inverse)));
    int8x16_t bytes = vcombine_s8(vqmovn_s16(vcombine_s16(code[0], code[1])),
                                  vqmovn_s16(vcombine_s16(code[2], code[3])));
    vst1q_s8(out->code + 16 * h, bytes);
    half[h] = vaddlvq_s8(bytes);
  }
  out->scale = largest - largest == 0 ? largest / 127 : largest - largest;
  out->sum = out->scale * (float)(half[0] + half[1]);
  int32_t of_first = layout.groups == 2 ? half[0] + half[1] : half[0];
  out->start[0] = (int32_t)(lls_codes_start(layout) * (uint32_t)of_first);
  out->start[1] = (int32_t)(lls_codes_start(layout) * (uint32_t)half[1]);
}

/* (inputs / 32, n_rows) */
INLINE void quantise_rows(const float *x, size_t stride, size_t n_rows, size_t columns,
                          size_t inputs, enum lls_packed packed, struct lls_codes_x *out)
{
  for (size_t k = 0; k < inputs; k += LLS_CODES_GROUP) {
    for (size_t row = 0; row < n_rows; row++) {
      const float *from = x + row * stride + k;
      vf of[8];
      UNROLL
      for (size_t i = 0; i < 8; i++)
        of[i] = columns > k + i * LANES ? vget(from + i * LANES, columns - k - i * LANES)
                                        : vzero();
      quantise(of, packed, out++);
    }
  }
}

/* ---- bytes for many rows --------------------------------------------------------- */

/* A record's scales, and offsets, in the expanded format. */
INLINE void expand_scales(const char *record, const char *tail, enum lls_packed packed,
                          enum lls_packed many, char *out)
{
  const struct lls_codes_layout layout = lls_codes_layout(packed);
  const char *scales = record + lls_codes_bytes(packed);
  if (lls_codes_layout(many).scales == LLS_SCALES_HALF) {
    memcpy(out, scales, lls_codes_record(packed) - lls_codes_bytes(packed));
    return;
  }
  for (int i = 0; i < layout.groups * (1 + layout.offset); i++) {
    UNROLL
    for (int v = 0; v < VECTORS; v++) {
      vf block = load_block(tail, i >= layout.groups, v, packed);
      const char *from = scales + (size_t)i * lls_codes_group_bytes(packed);
      vstore((float *)out + i * LLS_PANEL + v * LANES,
             load_scales(from, v, packed, block));
    }
  }
}

INLINE void expand(const char *record, size_t inputs, const uint8_t *table_bytes,
                   const char *next, char *out, enum lls_packed packed,
                   enum lls_packed many)
{
  const size_t bytes = lls_codes_record(packed), records = lls_codes_records(packed);
  uint8x16_t table = lls_codes_listed(packed) ? vld1q_u8(table_bytes) : vdupq_n_u8(0);
  for (size_t k = 0; k < inputs; k += records * LLS_CODES_STEP) {
    const char *tail = record + records * bytes;
    for (; record < tail; record += bytes, next += bytes, out += lls_codes_record(many)) {
      for (size_t line = 0; line < bytes; line += 64)
        prefetch_l2(next + line);
      for (int half = 0; half < 2; half++) {
        UNROLL
        for (int i = 0; i < 8 * VECTORS; i++)
          vst1q_u8((uint8_t *)out + (half * 8 * VECTORS + i) * 16,
                   load_stored(record, half, i / VECTORS, i % VECTORS, packed, table));
      }
      expand_scales(record, tail, packed, many, out + LLS_CODES_CODES);
    }
    record += lls_codes_tail(packed);
    next += lls_codes_tail(packed);
  }
}

/* ---- the table ------------------------------------------------------------------- */

#define FORMAT(name, packed, many)                                                       \
  static void tile_##name(const struct lls_tile *t)                                      \
  {                                                                                      \
    tile(t, packed);                                                                     \
  }
LLS_CODES_FORMATS(FORMAT)

#endif
