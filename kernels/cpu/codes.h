/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of panels (linear.h) of 4 to 8-bit weights, and of x for them.
 *
 * A weight is scale * (code - zero), or scale * code + offset, with one scale (and
 * offset) for 32 inputs of an output, 16 in CODES6 and SHORT formats. x is quantised as
 * it is packed: 32 inputs of a row have one scale, their largest magnitude / 127. So a
 * group's product is an integer, exact in 32 bits, and only the groups' products are
 * added in f32, in order. Levels with the same kind of instruction give the same results,
 * however rows are grouped.
 *
 * A panel is a sequence of *records*, 64 inputs of its 16 outputs:
 *
 *   codes    16 quads, each (16 outputs, 4 inputs) a byte: what one instruction of
 *            AVX512-VNNI multiplies. With less than 8 bits the low four of two quads
 *            share 64 bytes, the low halves are the even quad's; with less than 4
 *            bits the low two of four quads do.
 *   high     CODES5, LIST3: the last bits of 8 quads in 64 bytes; CODES6: two bits of 4
 * quads scales   (groups, 16) offsets  the same, of formats that have them
 *
 * Next to the codes, scales and offsets are most of the bytes read, so each is stored
 * in the smallest form that is exact:
 *
 *   HALF   f16, times a power of two of each output, which `finish` multiplies by: the
 *          largest of an output is in [2^14, 2^15), and what a file has in f16 or in
 *          powers of two stays exactly that
 *   BLOCK  whole numbers of 8 bits, those of Q4_K and its kind. What they multiply
 *          follows every fourth record, in 64 bytes: (scale, offset; 16) f16. Products of
 *          11 and 8 bits are exact in f32.
 *   FLOAT  f32: those products, for many rows, and HALF's that have offsets
 */
#ifndef LLS_CPU_CODES_H
#define LLS_CPU_CODES_H

#include "core/device/row_codes.h" /* LLS_CODES_GROUP: inputs of x that share a scale */
#include "kernels/cpu/linear.h"

#define LLS_CODES_STEP  64 /* inputs of a record */
#define LLS_CODES_QUAD  64 /* bytes: 4 inputs of 16 outputs */
#define LLS_CODES_CODES 1024

/* 32 inputs of a row. A group of rows is (inputs / 32, rows) of these. */
struct lls_codes_x {
  int8_t code[LLS_CODES_GROUP];
  float scale, sum; /* sum = sum of the codes * scale, for offsets */
  /* -zero * sum of the codes: of all, or of each half of 16; groups of 16 with offsets:
   * the sums themselves */
  int32_t start[2];
};

#define LLS_CODES_BLOCK_RECORDS 4
#define LLS_CODES_BLOCK_SCALES  64 /* bytes */

enum lls_codes_scales { LLS_SCALES_HALF, LLS_SCALES_BLOCK, LLS_SCALES_FLOAT };

struct lls_codes_layout {
  uint8_t bits;
  uint8_t zero;
  uint8_t groups; /* scale groups of a record */
  bool offset;
  enum lls_codes_scales scales;
};
/* With more than 8 bytes gcc unrolls loops before it knows their bounds, and products of
 * many rows on AVX-512 take 8 times as long. */
_Static_assert(sizeof(struct lls_codes_layout) <= 8, "the layout is returned in memory");

static inline bool lls_packed_codes(enum lls_packed p)
{
  return p >= LLS_PACKED_CODES8;
}

static inline struct lls_codes_layout lls_codes_layout(enum lls_packed p)
{
  switch (p) {
  case LLS_PACKED_CODES4:
    return (struct lls_codes_layout){4, 128, 2, false, LLS_SCALES_HALF};
  case LLS_PACKED_LIST4_BLOCK:
    return (struct lls_codes_layout){4, 128, 2, false, LLS_SCALES_BLOCK};
  case LLS_PACKED_LIST3_BLOCK:
    return (struct lls_codes_layout){3, 128, 2, false, LLS_SCALES_BLOCK};
  case LLS_PACKED_LIST3_SHORT:
    return (struct lls_codes_layout){3, 128, 4, false, LLS_SCALES_BLOCK};
  case LLS_PACKED_CODES2_SHORT:
    return (struct lls_codes_layout){2, 0, 4, true, LLS_SCALES_BLOCK};
  case LLS_PACKED_WIDE8:
    return (struct lls_codes_layout){8, 128, 2, false, LLS_SCALES_FLOAT};
  case LLS_PACKED_WIDE8_SHORT:
    return (struct lls_codes_layout){8, 128, 4, false, LLS_SCALES_FLOAT};
  case LLS_PACKED_SIGNED8_WIDE:
    return (struct lls_codes_layout){8, 0, 2, false, LLS_SCALES_FLOAT};
  case LLS_PACKED_CODES4_OFFSET:
    return (struct lls_codes_layout){4, 0, 2, true, LLS_SCALES_HALF};
  case LLS_PACKED_CODES5_OFFSET:
    return (struct lls_codes_layout){5, 0, 2, true, LLS_SCALES_HALF};
  case LLS_PACKED_CODES4_BLOCK:
    return (struct lls_codes_layout){4, 0, 2, true, LLS_SCALES_BLOCK};
  case LLS_PACKED_CODES5_BLOCK:
    return (struct lls_codes_layout){5, 0, 2, true, LLS_SCALES_BLOCK};
  case LLS_PACKED_CODES6:
    return (struct lls_codes_layout){6, 32, 4, false, LLS_SCALES_BLOCK};
  case LLS_PACKED_CODES8_OFFSET:
    return (struct lls_codes_layout){8, 0, 2, true, LLS_SCALES_FLOAT};
  case LLS_PACKED_CODES8_SHORT:
    return (struct lls_codes_layout){8, 32, 4, false, LLS_SCALES_FLOAT};
  case LLS_PACKED_SIGNED8:
    return (struct lls_codes_layout){8, 0, 2, false, LLS_SCALES_HALF};
  case LLS_PACKED_SIGNED8_OFFSET:
    return (struct lls_codes_layout){8, 0, 2, true, LLS_SCALES_FLOAT};
  case LLS_PACKED_SIGNED8_SHORT:
    return (struct lls_codes_layout){8, 0, 4, false, LLS_SCALES_FLOAT};
  default:
    return (struct lls_codes_layout){8, 128, 2, false, LLS_SCALES_HALF};
  }
}

/* Does the table make a code a CODES8 code? It is no member, see the layout's size. */
static inline bool lls_codes_listed(enum lls_packed p)
{
  return p == LLS_PACKED_CODES4 || p == LLS_PACKED_LIST4_BLOCK ||
         p == LLS_PACKED_LIST3_BLOCK || p == LLS_PACKED_LIST3_SHORT;
}

/* Returns the factor, modulo 2^32, that makes a sum of codes its `start`. */
static inline uint32_t lls_codes_start(struct lls_codes_layout layout)
{
  return layout.offset && layout.groups == 4 ? 1 : 0u - layout.zero;
}

/* Lists the formats: F(name, packed, the format it is expanded to for many rows). AMX
 * has its own expanded formats; AVX2 has none. */
#define LLS_CODES_FORMATS(F)                                                             \
  F(codes8, LLS_PACKED_CODES8, LLS_PACKED_CODES8)                                        \
  F(codes4, LLS_PACKED_CODES4, LLS_PACKED_CODES8)                                        \
  F(codes4_offset, LLS_PACKED_CODES4_OFFSET, LLS_PACKED_CODES8_OFFSET)                   \
  F(codes5_offset, LLS_PACKED_CODES5_OFFSET, LLS_PACKED_CODES8_OFFSET)                   \
  F(codes4_block, LLS_PACKED_CODES4_BLOCK, LLS_PACKED_CODES8_OFFSET)                     \
  F(codes5_block, LLS_PACKED_CODES5_BLOCK, LLS_PACKED_CODES8_OFFSET)                     \
  F(codes6, LLS_PACKED_CODES6, LLS_PACKED_CODES8_SHORT)                                  \
  F(codes2_short, LLS_PACKED_CODES2_SHORT, LLS_PACKED_CODES2_SHORT)                      \
  F(list4_block, LLS_PACKED_LIST4_BLOCK, LLS_PACKED_WIDE8)                               \
  F(list3_block, LLS_PACKED_LIST3_BLOCK, LLS_PACKED_WIDE8)                               \
  F(list3_short, LLS_PACKED_LIST3_SHORT, LLS_PACKED_WIDE8_SHORT)                         \
  F(wide8, LLS_PACKED_WIDE8, LLS_PACKED_WIDE8)                                           \
  F(wide8_short, LLS_PACKED_WIDE8_SHORT, LLS_PACKED_WIDE8_SHORT)                         \
  F(codes8_offset, LLS_PACKED_CODES8_OFFSET, LLS_PACKED_CODES8_OFFSET)                   \
  F(codes8_short, LLS_PACKED_CODES8_SHORT, LLS_PACKED_CODES8_SHORT)

/* lls_codes_bytes: bytes of a record's codes; lls_codes_group_bytes: of one group's
 * scales; lls_codes_scale_bytes: of all scales (or offsets); lls_codes_record: of the
 * whole record. */
static inline size_t lls_codes_bytes(enum lls_packed p)
{
  return (size_t)LLS_CODES_CODES / 8 * lls_codes_layout(p).bits;
}
static inline size_t lls_codes_group_bytes(enum lls_packed p)
{
  enum lls_codes_scales scales = lls_codes_layout(p).scales;
  return LLS_PANEL * (scales == LLS_SCALES_BLOCK  ? sizeof(int8_t)
                      : scales == LLS_SCALES_HALF ? sizeof(uint16_t)
                                                  : sizeof(float));
}
static inline size_t lls_codes_scale_bytes(enum lls_packed p)
{
  return (size_t)lls_codes_layout(p).groups * lls_codes_group_bytes(p);
}
static inline size_t lls_codes_record(enum lls_packed p)
{
  return lls_codes_bytes(p) + lls_codes_scale_bytes(p) * (1 + lls_codes_layout(p).offset);
}

/* lls_codes_records: records that share a block's scales; lls_codes_tail: bytes of
 * these scales, which follow the records. */
static inline size_t lls_codes_records(enum lls_packed p)
{
  return lls_codes_layout(p).scales == LLS_SCALES_BLOCK ? LLS_CODES_BLOCK_RECORDS : 1;
}
static inline size_t lls_codes_tail(enum lls_packed p)
{
  return lls_codes_layout(p).scales == LLS_SCALES_BLOCK ? LLS_CODES_BLOCK_SCALES : 0;
}
/* Returns the bytes of a panel before input k, a multiple of LLS_CODES_STEP. */
static inline size_t lls_codes_at(enum lls_packed p, size_t k)
{
  size_t records = k / LLS_CODES_STEP;
  return records * lls_codes_record(p) +
         records / lls_codes_records(p) * lls_codes_tail(p);
}

/* lls_codes_low returns how many bits of a code are not stored apart; lls_codes_high the
 * byte of a record from which on the others are. */
static inline unsigned lls_codes_low(unsigned bits)
{
  return bits < 4 ? 2 : bits == 8 ? 8 : 4;
}
static inline size_t lls_codes_high(unsigned bits)
{
  return (size_t)LLS_CODES_CODES / 8 * lls_codes_low(bits);
}

/* The place of the bits of input k of output o: the low ones in byte low[at], the high
 * ones in byte high[high_at], shifted left by `high_shift`. */
struct lls_codes_place {
  size_t at, high_at;
  unsigned shift, high_shift;
};

static inline struct lls_codes_place lls_codes_place(unsigned bits, size_t k, size_t o)
{
  size_t quad = k / 4, byte = o * 4 + k % 4;
  unsigned low = lls_codes_low(bits), in = 8 / low;       /* quads in 64 bytes */
  unsigned wide = bits - low, shared = wide <= 1 ? 8 : 4; /* in 64 bytes of `high` */
  return (struct lls_codes_place){
      .at = quad / in * LLS_CODES_QUAD + byte,
      .shift = (unsigned)(quad % in) * low,
      .high_at = lls_codes_high(bits) + quad / shared * LLS_CODES_QUAD + byte,
      .high_shift = (unsigned)(quad % shared) * wide,
  };
}

/* Returns the code of input k (of 64) of output o. */
static inline unsigned lls_codes_get(const uint8_t *record, unsigned bits, size_t k,
                                     size_t o)
{
  struct lls_codes_place p = lls_codes_place(bits, k, o);
  if (bits == 8)
    return record[p.at];
  unsigned low = lls_codes_low(bits);
  unsigned code = record[p.at] >> p.shift & ((1u << low) - 1);
  if (bits > low)
    code |= (record[p.high_at] >> p.high_shift & ((1u << (bits - low)) - 1)) << low;
  return code;
}

/* Stores the code of input k (of 64) of output o, whose bits are all 0 so far. */
static inline void lls_codes_set(uint8_t *record, unsigned bits, size_t k, size_t o,
                                 unsigned code)
{
  struct lls_codes_place p = lls_codes_place(bits, k, o);
  if (bits == 8) {
    record[p.at] = (uint8_t)code;
    return;
  }
  unsigned low = lls_codes_low(bits);
  record[p.at] |= (uint8_t)((code & ((1u << low) - 1)) << p.shift);
  if (bits > low)
    record[p.high_at] |= (uint8_t)(code >> low << p.high_shift);
}

#endif
