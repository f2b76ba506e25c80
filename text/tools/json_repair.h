/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes JSON of what models write for it, byte by byte: line ends and other control
 * characters within strings, escapes that there are not, a comma before a closing
 * bracket, Python's True, False and None, strings in single quotes. JSON stays as it is.
 * It does not matter in which pieces the text comes.
 */
#ifndef LLS_TOOLS_JSON_REPAIR_H
#define LLS_TOOLS_JSON_REPAIR_H

#include "core/base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct lls_json_repair {
  uint32_t depth;           /* of open brackets */
  char quote;               /* of the string that is open, or 0 */
  bool escaped;             /* a backslash was the last byte of it */
  bool comma;               /* one is held back, and the white space after it */
  bool begun, broken;       /* there was a value; brackets do not match */
  uint8_t n_spaces, n_word; /* held back */
  char spaces[64], word[6];
};

/* Zeroed is at the beginning. Appends to out. */
void lls_json_repair(struct lls_json_repair *repair, const char *bytes, size_t n,
                     struct lls_text *out);
/* Appends the word that is held back: the text is over. */
void lls_json_repair_end(struct lls_json_repair *repair, struct lls_text *out);
/* True if the text so far is one whole object or array. */
bool lls_json_repair_is_whole(const struct lls_json_repair *repair);

#endif
