/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repairs, byte by byte, the JSON that models write: line breaks and other control
 * characters within strings, unknown escapes, a comma before a closing bracket,
 * Python's True, False and None, strings in single quotes. Valid JSON stays unchanged.
 * The result does not depend on the pieces in which the text arrives.
 */
#ifndef LLS_TOOLS_JSON_REPAIR_H
#define LLS_TOOLS_JSON_REPAIR_H

#include "core/base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct lls_json_repair {
  uint32_t depth;           /* open brackets */
  char quote;               /* the open string's quote, or 0 */
  bool escaped;             /* the last byte in the string was a backslash */
  bool comma;               /* a comma, with the white space after it, is held back */
  bool begun, broken;       /* a value began; brackets do not match */
  uint8_t n_spaces, n_word; /* numbers of bytes held back */
  char spaces[64], word[6];
};

/* Repairs n bytes and appends them to out. A zeroed struct is at the beginning of a
 * text. */
void lls_json_repair(struct lls_json_repair *repair, const char *bytes, size_t n,
                     struct lls_text *out);
/* Ends the text: appends the word held back. */
void lls_json_repair_end(struct lls_json_repair *repair, struct lls_text *out);
/* Returns true if the text so far is one complete object or array. */
bool lls_json_repair_is_whole(const struct lls_json_repair *repair);

#endif
