/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON's own syntax as nodes of a grammar.
 *
 * White space is bounded, so that a model cannot write it without end: after { [ , and
 * : and before } and ] there may be one space, or a line break and at most
 * LLS_JSON_INDENT spaces and tabs. json_escape.h has the characters of strings.
 */
#ifndef LLS_GRAMMAR_JSON_SYNTAX_H
#define LLS_GRAMMAR_JSON_SYNTAX_H

#include "text/grammar/grammar_tree.h"

#include <jansson.h>

#define LLS_JSON_INDENT 40
/* Before a number's point and after it, as many as 2^64 has. */
#define LLS_JSON_DIGITS   20
#define LLS_JSON_EXPONENT 3
/* Bytes of a property name that other names are excluded from. */
#define LLS_JSON_NAME_MAX 1024

/* Nodes that schemas share, made once per tree. */
struct lls_json_syntax {
  struct lls_grammar_tree *tree;
  uint32_t space;     /* optional white space between tokens */
  uint32_t quote;     /* " */
  uint32_t digit;     /* 0 to 9 */
  uint32_t digits;    /* fewer than LLS_JSON_DIGITS digits, or none */
  uint32_t character; /* one code point of a string, in any spelling */
  uint32_t string, integer, number, boolean, null;
  uint32_t object, array, value; /* any object, array or value */
  uint32_t nothing;              /* matches no text */
  uint32_t empty;                /* matches the empty text */
};

void lls_json_syntax_init(struct lls_json_syntax *json, struct lls_grammar_tree *tree);

/* A sequence of parts; json->nothing if a part matches nothing. */
uint32_t lls_json_row(struct lls_json_syntax *json, const uint32_t *parts, uint32_t n);
#define LLS_JSON_ROW(JSON, ...)                                                          \
  lls_json_row((JSON), (const uint32_t[]){__VA_ARGS__},                                  \
               (uint32_t)(sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)))
/* A choice of the parts, except those that match nothing. */
uint32_t lls_json_one_of(struct lls_json_syntax *json, const uint32_t *parts, uint32_t n);
uint32_t lls_json_maybe(struct lls_json_syntax *json, uint32_t part);

/* A literal; `bytes` ends in 0. */
uint32_t lls_json_bytes(struct lls_json_syntax *json, const char *bytes);
/* The JSON text of a value, with optional white space. */
uint32_t lls_json_constant(struct lls_json_syntax *json, const json_t *value);
/* The beginning of a property: the name as JSON, a colon and white space. */
uint32_t lls_json_name(struct lls_json_syntax *json, const char *name);

/* A string, with its quotes, that equals none of these texts. */
uint32_t lls_json_string_but(struct lls_json_syntax *json, const char *const *texts,
                             uint32_t n);
/* A list of min to max parts (or LLS_GRAMMAR_UNBOUNDED), separated by commas. */
uint32_t lls_json_list(struct lls_json_syntax *json, uint32_t part, uint32_t min,
                       uint32_t max);

#endif
