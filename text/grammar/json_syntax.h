/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON's own texts as nodes of a grammar.
 *
 * White space is bounded, so that a model cannot go on with it for ever: after { [ , and
 * : and before } and ] there may be one space, or a line's end and at most
 * LLS_JSON_INDENT spaces and tabs. Characters of strings: json_escape.h.
 */
#ifndef LLS_GRAMMAR_JSON_SYNTAX_H
#define LLS_GRAMMAR_JSON_SYNTAX_H

#include "text/grammar/grammar_tree.h"

#include <jansson.h>

#define LLS_JSON_INDENT   40
#define LLS_JSON_DIGITS   20 /* before a number's point and behind it, as 2^64 has */
#define LLS_JSON_EXPONENT 3
#define LLS_JSON_NAME_MAX 1024 /* bytes of a name that others are told apart from */

/* The nodes that schemas share; made once a tree. */
struct lls_json_syntax {
  struct lls_grammar_tree *tree;
  uint32_t space;     /* that may be between tokens, or nothing */
  uint32_t quote;     /* " */
  uint32_t digit;     /* 0 to 9 */
  uint32_t digits;    /* less than LLS_JSON_DIGITS of them, also none */
  uint32_t character; /* one code point of a string, in any spelling */
  uint32_t string, integer, number, boolean, null;
  uint32_t object, array, value; /* any of them */
  uint32_t nothing;              /* matches no text */
  uint32_t empty;                /* matches the empty text */
};

void lls_json_syntax_init(struct lls_json_syntax *json, struct lls_grammar_tree *tree);

/* Parts in a row; a row with a part that matches nothing is json->nothing. */
uint32_t lls_json_row(struct lls_json_syntax *json, const uint32_t *parts, uint32_t n);
#define LLS_JSON_ROW(JSON, ...)                                                          \
  lls_json_row((JSON), (const uint32_t[]){__VA_ARGS__},                                  \
               (uint32_t)(sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)))
/* One of the parts, less those that match nothing. */
uint32_t lls_json_one_of(struct lls_json_syntax *json, const uint32_t *parts, uint32_t n);
uint32_t lls_json_maybe(struct lls_json_syntax *json, uint32_t part);

/* These bytes, which end in 0. */
uint32_t lls_json_bytes(struct lls_json_syntax *json, const char *bytes);
/* The JSON of a value: a text, with space where there may be some. */
uint32_t lls_json_constant(struct lls_json_syntax *json, const json_t *value);
/* How a property of this name begins: the name's JSON, a colon and space. */
uint32_t lls_json_name(struct lls_json_syntax *json, const char *name);

/* A string, with its quotes, that is none of these. */
uint32_t lls_json_string_but(struct lls_json_syntax *json, const char *const *texts,
                             uint32_t n);
/* From min to max parts (or LLS_GRAMMAR_UNBOUNDED), with a comma between them. */
uint32_t lls_json_list(struct lls_json_syntax *json, uint32_t part, uint32_t min,
                       uint32_t max);

#endif
