/* SPDX-License-Identifier: Apache-2.0 */
/* The terminals of Lark's library `common`, as regular expressions. */
#ifndef LLS_GRAMMAR_LARK_COMMON_H
#define LLS_GRAMMAR_LARK_COMMON_H

#include <stddef.h>

/* Returns NULL if the library has no terminal of this name. */
const char *lls_lark_common(const char *name, size_t length);

#endif
