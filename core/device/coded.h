/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrices whose codes, scales and zeros are separate tensors, as in quantised Hugging
 * Face folders. A view of type LLS_CODED points to one, and selects rows and columns.
 *
 *   layout   codes                            scales          zeros
 *   GPTQ     (words of inputs, outputs)       (groups, out)   (groups, words of out)
 *   AWQ      (inputs, outputs / 8) 8 x 4 bit  (groups, out)   (groups, out / 8)
 *            each word with outputs in the order 0 2 4 6 1 3 5 7
 *   PACKED   (outputs, words of inputs)       (out, groups)   (words of out, groups)
 *   INT8     (outputs, inputs) int8_t         (out, groups)   none
 *   FP8      (outputs, inputs) e4m3           (out / group_rows, groups)
 *   FP4      (outputs, inputs / 2) e2m1, the first in the low bits; as FP8
 *   LIST     (outputs * inputs / 2) 4 bit, the first in the high bits; one scale for
 *            `group` elements, which may be of two outputs
 *
 * "Words of n" are the words of 32 bits which n codes of `bits` bits fill without a gap,
 * the first in the lowest bits. An element is scale * factor / divisor * (code - zero),
 * in LIST list[code] in place of the code; a group is `group` inputs of `group_rows`
 * outputs.
 */
#ifndef LLS_DEVICE_CODED_H
#define LLS_DEVICE_CODED_H

#include "core/device/device.h"

enum lls_coded_layout {
  LLS_CODED_GPTQ,
  LLS_CODED_AWQ,
  LLS_CODED_PACKED,
  LLS_CODED_INT8,
  LLS_CODED_FP8,
  LLS_CODED_FP4,
  LLS_CODED_LIST,
};

enum lls_coded_scale {
  LLS_CODED_SCALE_F32,
  LLS_CODED_SCALE_F16,
  LLS_CODED_SCALE_BF16,
  LLS_CODED_SCALE_E4M3,
  LLS_CODED_SCALE_E8M0,  /* 2^(x - 127); 255 is NaN */
  LLS_CODED_SCALE_LISTED /* a byte: list[x] * scale + offset, of bitsandbytes */
};

/* Scales that are bytes themselves. */
struct lls_coded_scale_list {
  const float *list;   /* (256) */
  const float *scales; /* one for `group` scales */
  size_t group;
  float offset;
};

struct lls_coded {
  enum lls_coded_layout layout;
  uint32_t bits; /* of a code */
  size_t rows, columns;
  size_t group, group_rows;
  const void *codes;
  const void *scales;
  enum lls_coded_scale scale_type;
  struct lls_coded_scale_list listed; /* if the scales are LISTED */
  float factor, divisor;              /* for all scales; 1 if there is none */
  const uint32_t *zeros;              /* NULL: 2^(bits - 1) for codes in words, else 0 */
  uint32_t zeros_lack;                /* added to each zero: 1 in GPTQ's first version */
  const int32_t *group_of;            /* (columns) GPTQ's g_idx; NULL: column / group */
  const float *list;                  /* (16) LIST: the numbers of the codes */
  bool int8_inputs;                   /* INT8: quantised for int8 activations (W8A8) */
};

/* Returns the words of 32 bits for n codes of `bits` bits. */
static inline size_t lls_coded_words(size_t n, uint32_t bits)
{
  return (n * bits + 31) / 32;
}

/* Returns the zero of a group of codes in words. */
uint32_t lls_coded_zero(const struct lls_coded *, size_t row, size_t group);

/* Returns true if a device can use the codes directly: they are whole numbers or e2m1 or
 * e4m3, and each 32 columns share one scale. */
bool lls_coded_keeps_codes(const struct lls_coded *);
bool lls_coded_has_offset(const struct lls_coded *);

/* Reads columns [first, first + n) of a row as f32. */
void lls_coded_read(const struct lls_coded *, size_t row, size_t first, size_t n,
                    float *out);
/* Reads the same columns as codes, if lls_coded_keeps_codes: codes (n), scale and
 * offset (n / 32). Codes in words are 0 to 2^bits - 1 with offsets, else that less
 * 2^(bits - 1); FP4's are the doubles of its numbers; FP8's are its bytes, and a scale is
 * NaN if one of its codes is. */
void lls_coded_read_codes(const struct lls_coded *, size_t row, size_t first, size_t n,
                          int8_t *codes, float *scale, float *offset);

#endif
