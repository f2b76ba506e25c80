/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode normalisation forms and case, over utf8proc's tables. */
#ifndef LLS_TEXT_UNICODE_H
#define LLS_TEXT_UNICODE_H

#include "text/base/buffer.h"

enum lls_unicode_form {
  LLS_NFC,
  LLS_NFD,
  LLS_NFKC,
  LLS_NFKD,
};

/* Appends text (valid UTF-8) in a normalisation form. Returns 0 or -ENOMEM. */
int lls_unicode_normalize(enum lls_unicode_form form, const char *text, size_t length,
                          struct lls_bytes *out);
/* Appends text with every character in lower case, independent of its neighbours. */
void lls_unicode_lowercase(const char *text, size_t length, struct lls_bytes *out);
/* Like lls_unicode_lowercase, but in upper case, except characters whose upper case has
 * several characters. */
void lls_unicode_uppercase(const char *text, size_t length, struct lls_bytes *out);
/* Appends text as BERT cleans it: without control characters, and with ' ' for white
 * space. */
void lls_unicode_clean(const char *text, size_t length, struct lls_bytes *out);
/* Appends text with spaces around Chinese characters, since BERT makes each a word. */
void lls_unicode_space_chinese(const char *text, size_t length, struct lls_bytes *out);
/* Appends text without its nonspacing marks, which is how BERT strips accents. */
void lls_unicode_strip_nonspacing(const char *text, size_t length, struct lls_bytes *out);
/* Returns the length in bytes of the first extended grapheme cluster (UAX #29) of a
 * text that is not empty. */
size_t lls_unicode_grapheme(const char *text, size_t length);
/* Appends text without its combining marks. */
void lls_unicode_strip_accents(const char *text, size_t length, struct lls_bytes *out);

#endif
