/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 at the edges: repairing incoming text, and cutting outgoing bytes at character
 * boundaries. Between the edges all text is valid UTF-8, on which pattern.c relies.
 */
#ifndef LLS_TEXT_UTF8_H
#define LLS_TEXT_UTF8_H

#include "text/base/buffer.h"

#define LLS_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

enum lls_utf8 {
  LLS_UTF8_COMPLETE,  /* a complete character */
  LLS_UTF8_CUT_SHORT, /* the text ends within a character */
  LLS_UTF8_BROKEN,    /* bytes that begin no character */
};

/*
 * Classifies the first bytes of text (length > 0); *taken is their number. A broken
 * sequence is the "maximal subpart" of Unicode 3.9, to be replaced by one U+FFFD.
 */
enum lls_utf8 lls_utf8_first(const char *text, size_t length, size_t *taken);

/* Appends text with each broken sequence replaced by one U+FFFD. Returns whether there
 * was any. */
bool lls_utf8_repair(const char *text, size_t length, struct lls_bytes *out);
bool lls_utf8_is_valid(const char *text, size_t length);
bool lls_utf8_is_ascii(const char *text, size_t length);

/* Returns the length of the character at text, which is valid UTF-8 and not at its
 * end. */
static inline size_t lls_utf8_length(const char *text)
{
  unsigned char lead = (unsigned char)*text;
  return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* Returns the character at text, which is valid UTF-8 and not at its end. */
int32_t lls_utf8_char(const char *text);
/* Returns the character that ends at text + length (length > 0, valid UTF-8). */
int32_t lls_utf8_last(const char *text, size_t length, size_t *size);

/* Unicode's White_Space property, letters, and the word characters of regular
 * expressions. */
bool lls_char_is_space(int32_t codepoint);
bool lls_char_is_letter(int32_t codepoint);
bool lls_char_is_word(int32_t codepoint);

#endif
