/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses words into a tree, by recursive descent, with one function per rule of Jinja's
 * grammar.
 *
 *   statement.c  lls_parse, which calls
 *   expression.c lls_parse_expression and related functions, which call
 *   constant.c   lls_parse_constant; all of them use
 *   cursor.c     moving over the words
 */
#ifndef LLS_TEMPLATE_GRAMMAR_H
#define LLS_TEMPLATE_GRAMMAR_H

#include "text/template/lexer.h"
#include "text/template/tree.h"

/* Parses tree->source into tree->root. */
int lls_parse(struct lls_tree *tree, struct lls_error *err);

/* The declarations below are internal to these files. */

#define LLS_PARSE_DEPTH 200 /* nesting of blocks and expressions together */

struct lls_parser {
  struct lls_tree *tree;
  const struct lls_word *word; /* the current one */
  unsigned depth;
  unsigned loops;   /* number of open for statements */
  uint8_t specials; /* enum lls_special: the names among these that were read */
  int code;         /* the first failure */
  struct lls_error *err;
};

/* ---- cursor.c ---------------------------------------------------------------------- */

bool lls_parser_is(const struct lls_parser *parser, enum lls_token_kind kind,
                   const char *text);
bool lls_parser_is_operator(const struct lls_parser *parser, const char *text);
/* Advances if the current word is the given one. */
bool lls_parser_accept(struct lls_parser *parser, enum lls_token_kind kind,
                       const char *text);
bool lls_parser_accept_operator(struct lls_parser *parser, const char *text);
bool lls_parser_accept_word(struct lls_parser *parser, const char *text);
bool lls_parser_expect(struct lls_parser *parser, enum lls_token_kind kind,
                       const char *text);
/* Enters one more level of nesting, left by depth--. Returns false, and fails, if it is
 * too deep. */
bool lls_parser_enter(struct lls_parser *parser);
/* Records a failure at the current word; returns NULL. */
void *lls_parser_fail(struct lls_parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Records that the construct at offset will fail when it is executed. */
void lls_parser_note_unknown(struct lls_parser *parser, size_t offset, const char *what,
                             struct lls_value name);
/* Returns a new node at the current word; NULL, and a failure, if out of memory. */
struct lls_node *lls_parser_node(struct lls_parser *parser, enum lls_node_kind kind);
/* Takes the current word as a name and advances. Returns false, and fails, if it is not
 * a name. */
bool lls_parser_name(struct lls_parser *parser, struct lls_value *name);
/* Like lls_parser_name, for names of filters and tests, which may be dotted: "a.b". */
bool lls_parser_dotted_name(struct lls_parser *parser, struct lls_value *name);

/* ---- constant.c -------------------------------------------------------------------- */

/* Parses a literal. Returns NULL without a failure if there is none. */
struct lls_node *lls_parse_constant(struct lls_parser *parser);

/* ---- expression.c ------------------------------------------------------------------ */

struct lls_node *lls_parse_expression(struct lls_parser *parser);
/* Parse an expression, or several separated by commas, which make a tuple; the second
 * one without a condition (a if b). */
struct lls_node *lls_parse_tuple(struct lls_parser *parser);
struct lls_node *lls_parse_simple_tuple(struct lls_parser *parser);
/* The target of an assignment: a name, ns.name (where allowed), or several of them. */
struct lls_node *lls_parse_target(struct lls_parser *parser, bool members);
/* Parses all filters applied to value, from the first filter's name on. */
struct lls_node *lls_parse_filter_chain(struct lls_parser *parser,
                                        struct lls_node *value);
/* Parses a name and its members: the callee of {% call %}. */
struct lls_node *lls_parse_callee(struct lls_parser *parser);

#endif
