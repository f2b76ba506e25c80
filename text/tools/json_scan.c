/* SPDX-License-Identifier: Apache-2.0 */
/* Scans one byte at a time; see json_scan.h. */
#include "text/tools/json_scan.h"

#include <string.h>

static enum lls_json_scan_result in_string(struct lls_json_scan *scan, char byte)
{
  if (scan->escaped) {
    scan->escaped = false;
    return LLS_JSON_SCAN_MORE;
  }
  scan->escaped = byte == '\\';
  scan->in_string = byte != '"';
  bool whole = !scan->in_string && scan->depth == 0;
  return whole ? LLS_JSON_SCAN_DONE : LLS_JSON_SCAN_MORE;
}

static enum lls_json_scan_result open_bracket(struct lls_json_scan *scan, bool array)
{
  if (scan->depth == LLS_JSON_SCAN_DEPTH)
    return LLS_JSON_SCAN_BAD;
  uint8_t bit = (uint8_t)(1U << scan->depth % 8),
          *bits = &scan->is_array[scan->depth / 8];
  *bits = array ? *bits | bit : *bits & (uint8_t)~bit;
  scan->depth++;
  return LLS_JSON_SCAN_MORE;
}

static enum lls_json_scan_result close_bracket(struct lls_json_scan *scan, bool array)
{
  if (scan->depth == 0)
    return LLS_JSON_SCAN_BAD;
  scan->depth--;
  bool was = (scan->is_array[scan->depth / 8] >> scan->depth % 8 & 1) != 0;
  if (was != array)
    return LLS_JSON_SCAN_BAD;
  return scan->depth == 0 ? LLS_JSON_SCAN_DONE : LLS_JSON_SCAN_MORE;
}

static bool is_word(char byte)
{
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '+' || byte == '.';
}

enum lls_json_scan_result lls_json_scan(struct lls_json_scan *scan, char byte)
{
  if (scan->in_string)
    return in_string(scan, byte);
  if (is_word(byte)) {
    scan->in_word = true;
    return LLS_JSON_SCAN_MORE;
  }
  if (scan->in_word && scan->depth == 0)
    return LLS_JSON_SCAN_PAST;
  scan->in_word = false;
  if (byte == '{' || byte == '[')
    return open_bracket(scan, byte == '[');
  if (byte == '}' || byte == ']')
    return close_bracket(scan, byte == ']');
  scan->in_string = byte == '"';
  bool fits = byte == '"' || (byte != '\0' && strchr(" \t\r\n", byte) != NULL) ||
              ((byte == ',' || byte == ':') && scan->depth > 0);
  return fits ? LLS_JSON_SCAN_MORE : LLS_JSON_SCAN_BAD;
}
