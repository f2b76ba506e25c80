/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code points of JSON strings, in every spelling: themselves, a short escape (\n), or
 * four hex digits (\u00e9; two of them above U+FFFF).
 *
 * A model that has written a backslash can't take it back. So wherever one may stand,
 * each code point of a class may follow it, as \uXXXX too: a model that means \u00e9
 * would else be led to \u0000, which is valid and wrong. Where no code point needs an
 * escape, there is no backslash at all, and each text has one spelling.
 */
#ifndef LLS_GRAMMAR_JSON_ESCAPE_H
#define LLS_GRAMMAR_JSON_ESCAPE_H

#include "text/grammar/grammar_tree.h"

/* More ranges than this are spelt without \uXXXX: each takes some nodes. */
#define LLS_JSON_ESCAPED_RANGES 128

/* True if one of these code points can't stand for itself. */
bool lls_json_needs_escape(const struct lls_grammar_range *ranges, uint32_t n);

/* One code point of these, as it is spelt inside a string. */
uint32_t lls_json_class(struct lls_grammar_tree *tree,
                        const struct lls_grammar_range *ranges, uint32_t n);
/* The same beside another class, which may have a backslash: then so may this one. */
uint32_t lls_json_class_beside(struct lls_grammar_tree *tree,
                               const struct lls_grammar_range *ranges, uint32_t n,
                               bool backslash);
/* One code point that is none of these. */
uint32_t lls_json_class_but(struct lls_grammar_tree *tree,
                            const struct lls_grammar_range *ranges, uint32_t n);

#endif
