/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes in some 40 kinds, so that those of a whole subtree of the vocabulary are one
 * word: letters and digits are alike to most grammars, marks are not. Bytes of longer
 * characters are told apart by where in a character of UTF-8 they may come.
 */
#ifndef LLS_GRAMMAR_BYTE_KINDS_H
#define LLS_GRAMMAR_BYTE_KINDS_H

#include <stdint.h>

#define LLS_KIND_LONG (UINT64_C(1) << 63) /* a byte above 0x7F */

/* The bit of an ASCII byte's kind. */
uint64_t lls_byte_kind(uint8_t byte);

/* States of a character: 0 is between two. */
enum { LLS_UTF8_STATES = 8, LLS_UTF8_BROKEN = 8 };
uint8_t lls_utf8_next(uint8_t state, uint8_t byte);

#endif
