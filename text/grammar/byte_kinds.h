/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups bytes into some 40 kinds, so that the kinds of all bytes below a node of the
 * vocabulary's trie fit into one word: most grammars treat all letters alike and all
 * digits alike, but not the punctuation marks. Bytes above 0x7F are validated by the
 * state of the UTF-8 character that they belong to.
 */
#ifndef LLS_GRAMMAR_BYTE_KINDS_H
#define LLS_GRAMMAR_BYTE_KINDS_H

#include <stdint.h>

#define LLS_KIND_LONG (UINT64_C(1) << 63) /* a byte above 0x7F */

/* Returns the bit of an ASCII byte's kind. */
uint64_t lls_byte_kind(uint8_t byte);

/* States within a UTF-8 character: 0 lies between two characters. */
enum { LLS_UTF8_STATES = 8, LLS_UTF8_BROKEN = 8 };
uint8_t lls_utf8_next(uint8_t state, uint8_t byte);

#endif
