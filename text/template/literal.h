/* SPDX-License-Identifier: Apache-2.0 */
/* Literals: strings with Python's escapes, and numbers. */
#ifndef LLS_TEMPLATE_LITERAL_H
#define LLS_TEMPLATE_LITERAL_H

#include "text/template/value.h"
#include "text/base/buffer.h"

/* Appends what a quoted literal says; false if an escape is not valid. */
bool lls_literal_string(const char *quoted, size_t length, struct lls_bytes *out);

/* An integer, also as 0x1f, 0b1, 0o7 and 1_000, or a number with a fraction or an
 * exponent; false if it is none that fits. */
bool lls_literal_number(const char *text, size_t length, bool real,
                        struct lls_value *out);

#endif
