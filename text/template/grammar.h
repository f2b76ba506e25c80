/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From words to a tree; recursive descent, one function per rule of Jinja's grammar.
 *
 *   statement.c  lls_parse, which calls
 *   expression.c lls_parse_expression and its kin, which call
 *   constant.c   lls_parse_constant, which calls
 *   cursor.c     what moves over the words
 */
#ifndef LLS_TEMPLATE_GRAMMAR_H
#define LLS_TEMPLATE_GRAMMAR_H

#include "text/template/lexer.h"
#include "text/template/tree.h"

/* Parses tree->source into tree->root. */
int lls_parse(struct lls_tree *tree, struct lls_error *err);

/* The rest is between these files. */

#define LLS_PARSE_DEPTH 200 /* nesting of blocks and expressions together */

struct lls_parser {
  struct lls_tree *tree;
  const struct lls_word *word; /* the current one */
  unsigned depth;
  unsigned loops;   /* how many for statements are open */
  uint8_t specials; /* enum lls_special: which of these names have been read */
  int code;         /* the first failure */
  struct lls_error *err;
};

/* ---- cursor.c ---------------------------------------------------------------------- */

bool lls_parser_is(const struct lls_parser *parser, enum lls_token_kind kind,
                   const char *text);
bool lls_parser_is_operator(const struct lls_parser *parser, const char *text);
/* Goes on if the current word is that one. */
bool lls_parser_accept(struct lls_parser *parser, enum lls_token_kind kind,
                       const char *text);
bool lls_parser_accept_operator(struct lls_parser *parser, const char *text);
bool lls_parser_accept_word(struct lls_parser *parser, const char *text);
bool lls_parser_expect(struct lls_parser *parser, enum lls_token_kind kind,
                       const char *text);
/* One level deeper; false, and a failure, if that is too deep. Undone by depth--. */
bool lls_parser_enter(struct lls_parser *parser);
/* Records a failure at the current word; returns NULL. */
void *lls_parser_fail(struct lls_parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Notes that what is at offset will fail when it is reached. */
void lls_parser_note_unknown(struct lls_parser *parser, size_t offset, const char *what,
                             struct lls_value name);
/* A node at the current word; NULL, and a failure, without memory. */
struct lls_node *lls_parser_node(struct lls_parser *parser, enum lls_node_kind kind);
/* The current word as a name, and goes on; false, and a failure, if it is none. */
bool lls_parser_name(struct lls_parser *parser, struct lls_value *name);
/* Filters and tests may be called "a.b". */
bool lls_parser_dotted_name(struct lls_parser *parser, struct lls_value *name);

/* ---- constant.c -------------------------------------------------------------------- */

/* A literal; NULL, and no failure, where none stands. */
struct lls_node *lls_parse_constant(struct lls_parser *parser);

/* ---- expression.c ------------------------------------------------------------------ */

struct lls_node *lls_parse_expression(struct lls_parser *parser);
/* Without "a if b else c", as after "in". */
struct lls_node *lls_parse_simple_expression(struct lls_parser *parser);
/* The same with "a, b", which makes a tuple. */
struct lls_node *lls_parse_tuple(struct lls_parser *parser);
struct lls_node *lls_parse_simple_tuple(struct lls_parser *parser);
/* The target of an assignment: a name, ns.name (where allowed), or several of them. */
struct lls_node *lls_parse_target(struct lls_parser *parser, bool members);
/* From the name of a filter on, all that are applied to value. */
struct lls_node *lls_parse_filter_chain(struct lls_parser *parser,
                                        struct lls_node *value);
/* A name with what follows it: what {% call %} calls. */
struct lls_node *lls_parse_callee(struct lls_parser *parser);

#endif
