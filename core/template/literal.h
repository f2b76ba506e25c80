/* SPDX-License-Identifier: Apache-2.0 */
/* String literals and their escapes, which are Python's. */
#ifndef LLS_TEMPLATE_LITERAL_H
#define LLS_TEMPLATE_LITERAL_H

#include <jansson.h>
#include <stddef.h>

/* A new string: text, then what the quoted literal says; NULL if an escape is
 * not valid. */
json_t *lls_literal_append(const json_t *text, const char *quoted, size_t length);

#endif
