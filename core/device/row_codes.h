/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of weights as codes of 4 to 8 bits, for devices that multiply codes: the codes
 * of a file, or codes quantised here. An element is scale * value + offset:
 *
 *   form            code              value              columns per scale
 *   CODES4          0..15             code - 8           32
 *   CODES4_FLOAT    e2m1              twice the float    32
 *   CODES4_LIST     0..15             the type's list    the type's
 *   CODES4_OFFSET   0..15             code               32, 16 of Q2_K
 *   CODES5_OFFSET   0..31             code               32
 *   CODES6          0..63             code - 32          16
 *   CODES8          0..255            code - 128         32
 *   CODES8_FLOAT    e4m3              the float          32
 *
 * The offset is 0 except in the forms named OFFSET.
 */
#ifndef LLS_DEVICE_ROW_CODES_H
#define LLS_DEVICE_ROW_CODES_H

#include "core/device/device.h"

enum lls_codes_form {
  LLS_NO_CODES, /* elements of 16 or 32 bits */
  LLS_CODES4,
  LLS_CODES4_FLOAT,
  LLS_CODES4_OFFSET,
  LLS_CODES5_OFFSET,
  LLS_CODES6,
  LLS_CODES8,
  LLS_CODES8_FLOAT,
  LLS_CODES4_LIST,
};

#define LLS_CODES_GROUP 32 /* columns quantised with one scale */

/* Returns the form that keeps the codes of a view's file, for devices without lists,
 * where codes take more bits than in the file; NO_CODES if none does. Random elements of
 * a quantised type are quantised like plain ones. */
enum lls_codes_form lls_codes_form_of(const struct lls_tensor_view *);
/* Returns the list of 16 numbers which the codes of a view stand for; NULL if there is
 * none. */
const int8_t *lls_codes_values(const struct lls_tensor_view *);
/* The same as lls_codes_form_of, for devices with lists (lls_codes_values) and groups of
 * 16 with offsets. */
enum lls_codes_form lls_codes_form_listed(const struct lls_tensor_view *);

/* A row in the caller's scratch memory, which was sized for `columns`. */
struct lls_row_codes {
  size_t columns;
  uint8_t *code;         /* (columns) those beyond the view's columns are 0 */
  float *scale, *offset; /* (groups) */
  float *numbers;        /* (columns) elements to quantise */
  size_t groups;         /* groups of 32 for the view's columns */
};

/* Returns the bytes for a row of `columns`, a multiple of 32; and the row in that
 * memory. */
size_t lls_row_codes_scratch(size_t columns);
struct lls_row_codes lls_row_codes_in(void *scratch, size_t columns);

/* Reads row `row` of the view in that form: one of the two above, CODES4 or CODES8. */
void lls_row_codes_read(struct lls_row_codes *, const struct lls_tensor_view *,
                        size_t row, enum lls_codes_form);

/* Returns the power of two by which scales and offsets must be divided so that the
 * largest is in [2^14, 2^15): a file's scales in f16, or in powers of two, are then
 * exact in f16. */
int lls_row_codes_exponent(const struct lls_row_codes *);

#endif
