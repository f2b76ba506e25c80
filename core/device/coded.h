/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrices whose codes, scales and zeros are separate tensors, as in quantised Hugging
 * Face folders. A view of type LLS_CODED points to one, and selects rows and columns.
 *
 *   layout   codes                            scales          zeros
 *   GPTQ     (inputs / 8, outputs) 8 x 4 bit  (groups, out)   (groups, out / 8) 8 x 4 bit
 *   AWQ      as GPTQ, each word with outputs in the order 0 2 4 6 1 3 5 7
 *            (inputs, outputs / 8) 8 x 4 bit  (groups, out)   (groups, out / 8)
 *   PACKED   (outputs, inputs / 8) 8 x 4 bit  (out, groups)   (out / 8, groups)
 *   INT8     (outputs, inputs) int8_t         (out, groups)   none
 *   FP8      (outputs, inputs) e4m3           (out / group_rows, groups)
 *
 * An element is scale * (code - zero); a group is `group` inputs of `group_rows`
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
};

struct lls_coded {
  enum lls_coded_layout layout;
  size_t rows, columns;
  size_t group, group_rows;
  const void *codes;
  const void *scales;
  enum lls_dtype scale_type; /* F32, F16 or BF16 */
  const uint32_t *zeros;     /* NULL: 8 for codes of 4 bits, else 0 */
  uint32_t zeros_lack;       /* added to each zero: 1 in GPTQ's first version */
  const int32_t *group_of;   /* (columns) GPTQ's g_idx; NULL: column / group */
  bool int8_inputs;          /* INT8: quantised for int8 activations (W8A8) */
};

/* Returns true if a device can use the codes directly: each 32 columns share one
 * scale. */
bool lls_coded_keeps_codes(const struct lls_coded *);
bool lls_coded_has_offset(const struct lls_coded *);

/* Reads columns [first, first + n) of a row as f32. */
void lls_coded_read(const struct lls_coded *, size_t row, size_t first, size_t n,
                    float *out);
/* Reads the same columns as codes, if lls_coded_keeps_codes: codes (n), scale and
 * offset (n / 32). Codes of 4 bits are 0 to 15 with offsets, else -8 to 7; FP8's are
 * its bytes, and a scale is NaN if one of its codes is. */
void lls_coded_read_codes(const struct lls_coded *, size_t row, size_t first, size_t n,
                          int8_t *codes, float *scale, float *offset);

#endif
