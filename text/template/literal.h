/* SPDX-License-Identifier: Apache-2.0 */
/* Literals: strings with Python's escapes, and numbers. */
#ifndef LLS_TEMPLATE_LITERAL_H
#define LLS_TEMPLATE_LITERAL_H

#include "text/template/value.h"
#include "text/base/buffer.h"

/* Appends the text of a quoted literal. Returns false if an escape is not valid. */
bool lls_literal_string(const char *quoted, size_t length, struct lls_bytes *out);

/* Reads an integer (also 0x1f, 0b1, 0o7, 1_000), or a number with a fraction or
 * exponent. Returns false if it is malformed or out of range. */
bool lls_literal_number(const char *text, size_t length, bool real,
                        struct lls_value *out);

#endif
