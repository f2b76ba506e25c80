/* SPDX-License-Identifier: Apache-2.0 */
/* Splits ranges of code points into sequences of byte ranges, as UTF-8 encodes them. */
#ifndef LLS_GRAMMAR_UTF8_RANGES_H
#define LLS_GRAMMAR_UTF8_RANGES_H

#include <stdint.h>

struct lls_utf8_sequence {
  uint8_t n;
  uint8_t lo[4], hi[4]; /* (n) */
};

#define LLS_UTF8_SEQUENCES 24 /* most sequences for one range */

/* Writes the sequences to out, which has room for LLS_UTF8_SEQUENCES. Returns their
 * number. */
uint32_t lls_utf8_ranges(uint32_t first, uint32_t last, struct lls_utf8_sequence *out);

#endif
