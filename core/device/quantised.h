/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised tensors of GGUF files: a row is a sequence of blocks, a block a few groups,
 * and every element of a group is scale * code + offset, where codes are small
 * integers. Rows consist of whole blocks; blocks need not be aligned.
 *
 *   type           elements of a block  of a group   bytes of a block   offset
 *   Q4_0 Q5_0 Q8_0         32               32           18 22 34         no
 *   Q4_1 Q5_1              32               32           20 24            yes
 *   Q4_K Q5_K             256               32          144 176           yes
 *   Q6_K                  256               16          210               no
 *   MXFP4                  32               32           17               no
 *   IQ4_NL                 32               32           18               no
 *   IQ4_XS                256               32          136               no
 *   Q2_K                  256               16           84               yes
 *   Q3_K                  256               16          110               no
 *   IQ3_XXS IQ3_S         256               32           98 110           no
 *   IQ2_XXS IQ1_S         256               32           66  50           no
 *   IQ2_XS IQ2_S IQ1_M    256               16           74  82 56        no
 *   TQ1_0 TQ2_0           256               32           54  66           no
 *
 * A plain type has blocks of one element here.
 */
#ifndef LLS_DEVICE_QUANTISED_H
#define LLS_DEVICE_QUANTISED_H

#include "core/device/device.h"

#define LLS_BLOCK_MAX       256 /* most elements of a block */
#define LLS_BLOCK_GROUP_MIN 16  /* fewest elements of a group */

/* Returns a name such as "Q4_K". */
const char *lls_dtype_name(enum lls_dtype);
bool lls_dtype_is_quantised(enum lls_dtype);
/* Returns the elements of a block. A tensor's columns are a multiple of it, and it can
 * only be cut at multiples of it. */
size_t lls_dtype_block(enum lls_dtype);
/* Returns the bytes of n elements in a row; n is a multiple of the block. */
size_t lls_dtype_row_bytes(enum lls_dtype, size_t n);
/* Returns the bytes per element, including a block's scales. */
double lls_dtype_number_bytes(enum lls_dtype);

/* Returns the bytes of a weight in that format; AUTO: in the model's own type. */
double lls_weight_number_bytes(enum lls_weight_format, enum lls_dtype own);

/* Returns the number of elements that share a scale; 0 for a plain type. */
size_t lls_dtype_group(enum lls_dtype);
bool lls_dtype_has_offset(enum lls_dtype);

/*
 * Reads n elements of a quantised type, a multiple of its block, from `data` on: codes
 * (n), scale and offset (n / group each; offset 0 if the type has none).
 */
void lls_quantised_read_codes(enum lls_dtype, const void *data, size_t n, int8_t *codes,
                              float *scale, float *offset);
/* Returns the numbers that a type's codes are chosen from, 16 with unused places 0; NULL
 * if its codes are all integers of some bits. */
const int8_t *lls_dtype_values(enum lls_dtype);
/* In blocks of 256 elements, scales and offsets of the groups are 8-bit integers times
 * these two numbers, which are f16, times `part`, a power of two. */
struct lls_block_scales {
  float scale, offset, part;
};
bool lls_dtype_has_block_scales(enum lls_dtype);
/* Returns them for block i from `data` on. */
struct lls_block_scales lls_quantised_block_scales(enum lls_dtype, const void *data,
                                                   size_t i);
/* Reads the same elements as f32, exactly: out (n). */
void lls_quantised_read(enum lls_dtype, const void *data, size_t n, float *out);

#endif
