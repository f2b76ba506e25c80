/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks in int8 ([cache] disk_element): 17/16 of a byte a number, about half of bf16.
 *
 * The numbers of a block are taken in the order of memory, in pieces of 64: a token's row
 * of a head, part of it, or some of them. A piece has one scale, the largest magnitude in
 * it divided by 127, as the blocks of Q8_0 in GGUF (with 32). Whatever the device means
 * by the order, a number changes by half a scale at most, and by the rounding of its
 * type.
 */
#ifndef LLS_DISK_BLOCK_INT8_H
#define LLS_DISK_BLOCK_INT8_H

#include <stdbool.h>
#include <stddef.h>

#include "core/device/pool_shape.h"

/* Returns the bytes of n numbers in int8, with their scales. */
size_t lls_int8_bytes(size_t n);
/* Converts n numbers, F32 or BF16. Returns false if one is NaN, or 2^127 or more: int8
 * cannot have it. */
bool lls_int8_pack(enum lls_dtype, size_t n, const void *numbers, void *packed);
void lls_int8_unpack(enum lls_dtype, size_t n, const void *packed, void *numbers);

#endif
