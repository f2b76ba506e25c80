/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of weights as codes of 4 to 8 bits, for devices that multiply those: as a file has
 * them, or quantised here. A number is scale * value + offset, where
 *
 *   form            code              value              a scale for
 *   CODES4          0..15             code - 8           32 columns
 *   CODES4_FLOAT    e2m1              twice the float    32
 *   CODES4_OFFSET   0..15             code               32
 *   CODES5_OFFSET   0..31             code               32
 *   CODES6          0..63             code - 32          16
 *   CODES8          0..255            code - 128         32
 *   CODES8_FLOAT    e4m3              the float          32
 *
 * and the offset is 0 but in those that are named for it.
 */
#ifndef LLS_DEVICE_ROW_CODES_H
#define LLS_DEVICE_ROW_CODES_H

#include "core/device/device.h"

enum lls_codes_form {
  LLS_NO_CODES, /* numbers of 16 or 32 bits */
  LLS_CODES4,
  LLS_CODES4_FLOAT,
  LLS_CODES4_OFFSET,
  LLS_CODES5_OFFSET,
  LLS_CODES6,
  LLS_CODES8,
  LLS_CODES8_FLOAT,
};

#define LLS_CODES_GROUP 32 /* columns that are quantised with one scale */

/* The form that keeps what the file has of a view, NO_CODES where there is none. Random
 * numbers of a quantised type are quantised as others are. */
enum lls_codes_form lls_codes_form_of(const struct lls_tensor_view *);

/* A row in somebody's scratch; `columns` is what it was made for. */
struct lls_row_codes {
  size_t columns;
  uint8_t *code;         /* (columns) those beyond the view's are 0 */
  float *scale, *offset; /* (groups) */
  float *numbers;        /* (columns) that are quantised */
  size_t groups;         /* of the view's columns */
};

/* Bytes for a row of that many columns, a multiple of 32; what is in them. */
size_t lls_row_codes_scratch(size_t columns);
struct lls_row_codes lls_row_codes_in(void *scratch, size_t columns);

/* Row `row` of the view in that form: the view's own, CODES4 or CODES8. */
void lls_row_codes_read(struct lls_row_codes *, const struct lls_tensor_view *,
                        size_t row, enum lls_codes_form);

/* The power of two by which scales and offsets have to be divided so that the largest is
 * in [2^14, 2^15): what a file has in f16, or in powers of two, then is exact in f16. */
int lls_row_codes_exponent(const struct lls_row_codes *);

#endif
