/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2's byte alphabet: each of the 256 bytes has a printable character, so that a BPE
 * over characters is a BPE over bytes. Printable Latin-1 characters represent their own
 * byte, the other bytes have U+0100 onwards in order (Radford et al., 2019, section
 * 2.2).
 */
#ifndef LLS_TOKENIZER_BYTELEVEL_H
#define LLS_TOKENIZER_BYTELEVEL_H

#include "text/base/buffer.h"

/* Appends the characters that represent the bytes of text. */
void lls_bytelevel_encode(const char *text, size_t length, struct lls_bytes *out);
/* Appends the bytes that the characters represent; text unchanged if one of its
 * characters represents no byte. */
void lls_bytelevel_decode(const char *text, size_t length, struct lls_bytes *out);

#endif
