/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a JSON value in a text that comes piece by piece. It follows strings and
 * brackets; whether a number or a word in it is one of JSON is left to who reads the
 * value.
 */
#ifndef LLS_TOOLS_JSON_SCAN_H
#define LLS_TOOLS_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#define LLS_JSON_SCAN_DEPTH 256 /* brackets open at once */

enum lls_json_scan_result {
  LLS_JSON_SCAN_MORE, /* the byte is in the value, or white space before it */
  LLS_JSON_SCAN_DONE, /* the byte is the value's last */
  LLS_JSON_SCAN_PAST, /* the byte is the first after a number or a word */
  LLS_JSON_SCAN_BAD   /* no JSON value goes on like this */
};

/* A zeroed one is at the beginning of a value. */
struct lls_json_scan {
  bool in_string, escaped, in_word;
  uint16_t depth;
  uint8_t is_array[LLS_JSON_SCAN_DEPTH / 8]; /* a bit for each open bracket */
};

enum lls_json_scan_result lls_json_scan(struct lls_json_scan *scan, char byte);

#endif
