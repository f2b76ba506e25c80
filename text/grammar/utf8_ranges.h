/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of code points as sequences of ranges of bytes, as UTF-8 writes them. */
#ifndef LLS_GRAMMAR_UTF8_RANGES_H
#define LLS_GRAMMAR_UTF8_RANGES_H

#include <stdint.h>

struct lls_utf8_sequence {
  uint8_t n;
  uint8_t lo[4], hi[4]; /* (n) */
};

#define LLS_UTF8_SEQUENCES 24 /* that one range takes at most */

/* Writes them into out, which has room for LLS_UTF8_SEQUENCES; how many. */
uint32_t lls_utf8_ranges(uint32_t first, uint32_t last, struct lls_utf8_sequence *out);

#endif
