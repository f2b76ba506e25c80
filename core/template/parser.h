/* SPDX-License-Identifier: Apache-2.0 */
/* From words to a tree; recursive descent, one function per rule of Jinja's grammar. */
#ifndef LLS_TEMPLATE_PARSER_H
#define LLS_TEMPLATE_PARSER_H

#include "core/template/lexer.h"
#include "core/template/tree.h"

/* Parses tree->source into tree->root. */
int lls_parse(struct lls_tree *tree, struct lls_error *err);

/* The rest is between parser.c (statements), expression.c, postfix.c and primary.c. */

#define LLS_PARSE_DEPTH 100 /* nesting of blocks and expressions together */

struct lls_parser {
  struct lls_tree *tree;
  const struct lls_word *word; /* the current one */
  unsigned depth;
  unsigned loops; /* how many for statements are open */
  int code;       /* the first failure */
  struct lls_error *err;
};

bool lls_parser_is(const struct lls_parser *parser, enum lls_token_kind kind,
                   const char *text);
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
/* A node at the current word; NULL, and a failure, without memory. */
struct lls_node *lls_parser_node(struct lls_parser *parser, enum lls_node_kind kind);
/* The current word as a name, and goes on; NULL, and a failure, if it is none. */
const char *lls_parser_name(struct lls_parser *parser);

/* Parses an expression; the second form leaves out "a if b else c", as after "in". */
struct lls_node *lls_parse_expression(struct lls_parser *parser);
struct lls_node *lls_parse_simple_expression(struct lls_parser *parser);
/* The same with "a, b", which makes a list. */
struct lls_node *lls_parse_tuple(struct lls_parser *parser);
struct lls_node *lls_parse_primary(struct lls_parser *parser);
/* Members, indices and slices of what has been parsed. */
struct lls_node *lls_parse_postfix(struct lls_parser *parser, struct lls_node *node);
/* Filters and tests of it. */
struct lls_node *lls_parse_filters(struct lls_parser *parser, struct lls_node *node);
/* After "(", up to ")": arguments that the function takes. */
struct lls_node *lls_parse_arguments(struct lls_parser *parser,
                                     const struct lls_function *function);

#endif
