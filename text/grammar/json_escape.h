/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code points of JSON strings in every spelling: as themselves, as a short escape (\n),
 * or as four hex digits (\u00e9; two groups of four above U+FFFF).
 *
 * A model that has written a backslash cannot take it back. So wherever a backslash is
 * allowed, every code point of the class may follow it, also as \uXXXX: otherwise a
 * model that means \u00e9 would be led to \u0000, which is valid but wrong. If no code
 * point of a class needs an escape, no backslash is allowed, and each text has one
 * spelling.
 */
#ifndef LLS_GRAMMAR_JSON_ESCAPE_H
#define LLS_GRAMMAR_JSON_ESCAPE_H

#include "text/grammar/grammar_tree.h"

/* Classes with more ranges are spelt without \uXXXX, since each range takes several
 * nodes. */
#define LLS_JSON_ESCAPED_RANGES 128

/* Returns true if one of these code points must be escaped in a JSON string. */
bool lls_json_needs_escape(const struct lls_grammar_range *ranges, uint32_t n);

/* One of these code points, as it is spelt inside a string. */
uint32_t lls_json_class(struct lls_grammar_tree *tree,
                        const struct lls_grammar_range *ranges, uint32_t n);
/* Like lls_json_class, for a class that is an alternative to `other`: if `other` allows
 * a backslash, so does this one. */
uint32_t lls_json_class_beside(struct lls_grammar_tree *tree,
                               const struct lls_grammar_range *ranges, uint32_t n,
                               bool backslash);
/* One code point outside of these ranges. */
uint32_t lls_json_class_but(struct lls_grammar_tree *tree,
                            const struct lls_grammar_range *ranges, uint32_t n);

#endif
