/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of codes in device memory, for the host files that write them
 * (weight_codes.c) and the kernels that read them (codes.cuh).
 *
 * An output's row is a sequence of *pieces*: 64 bytes that have 128 codes of 4 bits, or
 * the low four bits of wider ones, or 64 codes of 8 bits; then 16 bytes of fifth bits
 * (CODES5), or 32 bytes of fifth and sixth (CODES6). Columns beyond the matrix are 0.
 *
 * The order suits the tensor cores. mma.m16n8k16 multiplies 16 columns; of them lane 4g
 * + t has four, of outputs g and g + 8. Which columns those are is free as long as x
 * has the same order, so a lane's are chosen to lie together: bytes 16 t to 16 t + 15
 * of a piece are lane t's, and every 32 columns are 8 codes of each lane, two
 * instructions' worth:
 *
 *   code i of lane t of the 32 columns from k on     column
 *   groups of 32                                     k + 8 t + i
 *   groups of 16 (CODES6)                            k + 16 (i / 4) + 4 t + i % 4
 *
 * so that both instructions have columns of one scale, which therefore is applied to
 * their sum. Codes come in pairs 2 i, 2 i + 1, which shifts and masks turn into two
 * bf16:
 *
 *   4 bits   a word has 8: bits 4 i and 16 + 4 i on
 *   8 bits   a word has 4: bytes 0 and 2 the first pair, 1 and 3 the second
 *   fifth bit, of the lane's pair p of 16: bits p and 16 + p of its word; fifth and
 * sixth: bits 2 (p % 8) and 16 + 2 (p % 8) on of word p / 8
 *
 * Scales are f16 times a factor for each output (lls_row_codes_exponent); where the form
 * has offsets each is followed by its own.
 *
 * NO_CODES means plain bf16: a piece is 32 columns of a row, without scales, and the
 * last piece may be shorter.
 */
#ifndef LLS_CUDA_CODES_H
#define LLS_CUDA_CODES_H

#include "core/device/row_codes.h"

#define LLS_CUDA_LANE_BYTES  16
#define LLS_CUDA_PIECE_BYTES 64 /* without the bits above the low four */

#ifdef __CUDACC__
#define LLS_CUDA_CONSTANT static __host__ __device__ constexpr
#elif defined(__cplusplus)
#define LLS_CUDA_CONSTANT static constexpr
#else
#define LLS_CUDA_CONSTANT static inline
#endif

LLS_CUDA_CONSTANT uint32_t lls_cuda_code_bits(enum lls_codes_form f)
{
  return f == LLS_NO_CODES        ? 16
         : f >= LLS_CODES8        ? 8
         : f == LLS_CODES6        ? 6
         : f == LLS_CODES5_OFFSET ? 5
                                  : 4;
}

LLS_CUDA_CONSTANT bool lls_cuda_codes_offset(enum lls_codes_form f)
{
  return f == LLS_CODES4_OFFSET || f == LLS_CODES5_OFFSET;
}

LLS_CUDA_CONSTANT uint32_t lls_cuda_codes_group(enum lls_codes_form f)
{
  return f == LLS_CODES6 ? 16 : LLS_CODES_GROUP;
}

/* Columns of a piece, its bytes, and its number of scales (and offsets). */
LLS_CUDA_CONSTANT uint32_t lls_cuda_piece_columns(enum lls_codes_form f)
{
  return lls_cuda_code_bits(f) < 8 ? 128 : 512 / lls_cuda_code_bits(f);
}

LLS_CUDA_CONSTANT uint32_t lls_cuda_piece_bytes(enum lls_codes_form f)
{
  uint32_t bits = lls_cuda_code_bits(f);
  return LLS_CUDA_PIECE_BYTES + (bits >= 8 ? 0 : (bits - 4) * LLS_CUDA_LANE_BYTES);
}

LLS_CUDA_CONSTANT uint32_t lls_cuda_piece_scales(enum lls_codes_form f)
{
  return f == LLS_NO_CODES ? 0
                           : lls_cuda_piece_columns(f) / lls_cuda_codes_group(f) *
                                 (lls_cuda_codes_offset(f) ? 2 : 1);
}

#endif
