/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the end of a JSON value in a text that arrives piece by piece. It follows
 * strings and brackets; the reader of the value must check numbers and words.
 */
#ifndef LLS_TOOLS_JSON_SCAN_H
#define LLS_TOOLS_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#define LLS_JSON_SCAN_DEPTH 256 /* open brackets at once */

enum lls_json_scan_result {
  LLS_JSON_SCAN_MORE, /* the byte belongs to the value, or is white space before it */
  LLS_JSON_SCAN_DONE, /* the byte is the value's last */
  LLS_JSON_SCAN_PAST, /* the byte is the first one after a number or a word */
  LLS_JSON_SCAN_BAD   /* the bytes are not the beginning of a JSON value */
};

/* A zeroed struct is at the beginning of a value. */
struct lls_json_scan {
  bool in_string, escaped, in_word;
  uint16_t depth;
  uint8_t is_array[LLS_JSON_SCAN_DEPTH / 8]; /* one bit per open bracket */
};

enum lls_json_scan_result lls_json_scan(struct lls_json_scan *scan, char byte);

#endif
