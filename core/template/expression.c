/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions, loosest binding first, as Jinja's grammar has them:
 *
 *   a if b else c;  or;  and;  not;  == != < <= > >= in, not in;  + -;  ~;  * // %;
 *   unary -;  and what postfix.c and primary.c parse
 */
#include "core/template/parser.h"

static struct lls_node *parse_unary(struct lls_parser *parser, bool with_filter)
{
  struct lls_node *node;
  if (!lls_parser_enter(parser))
    return NULL;
  if (lls_parser_accept_operator(parser, "-")) {
    node = lls_parser_node(parser, LLS_NODE_NEGATE);
    if (node != NULL)
      node->left = parse_unary(parser, false);
  } else {
    node = lls_parse_primary(parser);
  }
  node = lls_parse_postfix(parser, node);
  if (with_filter)
    node = lls_parse_filters(parser, node);
  parser->depth--;
  return node;
}

/* An operator's level in the grammar: what it is written as, and what it does. */
struct binary {
  const char *text;
  enum lls_operation operation;
};

static const struct binary products[] = {
    {"*", LLS_OP_MULTIPLY}, {"//", LLS_OP_DIVIDE_FLOOR}, {"%", LLS_OP_MODULO}, {0}};
static const struct binary concatenations[] = {{"~", LLS_OP_CONCATENATE}, {0}};
static const struct binary sums[] = {{"+", LLS_OP_ADD}, {"-", LLS_OP_SUBTRACT}, {0}};
static const struct binary *const levels[] = {sums, concatenations, products};

static const struct binary *accept_one(struct lls_parser *parser,
                                       const struct binary *level)
{
  for (; level->text != NULL; level++)
    if (lls_parser_accept_operator(parser, level->text))
      return level;
  return NULL;
}

static struct lls_node *parse_level(struct lls_parser *parser, size_t level)
{
  if (level == sizeof levels / sizeof *levels)
    return parse_unary(parser, true);
  struct lls_node *left = parse_level(parser, level + 1);
  const struct binary *found;
  while (parser->code == 0 && (found = accept_one(parser, levels[level])) != NULL) {
    struct lls_node *node = lls_parser_node(parser, LLS_NODE_BINARY);
    if (node == NULL)
      return NULL;
    node->operation = found->operation;
    node->left = left;
    node->right = parse_level(parser, level + 1);
    left = node;
  }
  if (lls_parser_is(parser, LLS_TOKEN_OPERATOR, "/") ||
      lls_parser_is(parser, LLS_TOKEN_OPERATOR, "**"))
    return lls_parser_fail(parser, "this operator is not supported");
  return left;
}

static bool accept_comparison(struct lls_parser *parser, enum lls_operation *operation)
{
  static const struct binary comparisons[] = {{"==", LLS_OP_EQUAL},
                                              {"!=", LLS_OP_NOT_EQUAL},
                                              {"<", LLS_OP_LESS},
                                              {">", LLS_OP_GREATER},
                                              {"<=", LLS_OP_LESS_EQUAL},
                                              {">=", LLS_OP_GREATER_EQUAL},
                                              {0}};
  const struct binary *found = accept_one(parser, comparisons);
  struct lls_parser next = *parser;
  if (found != NULL) {
    *operation = found->operation;
    return true;
  }
  *operation = LLS_OP_IN;
  if (lls_parser_accept_word(parser, "in"))
    return true;
  *operation = LLS_OP_NOT_IN;
  if (!lls_parser_accept_word(&next, "not") || !lls_parser_accept_word(&next, "in"))
    return false;
  parser->word = next.word;
  return true;
}

static struct lls_node *parse_compare(struct lls_parser *parser)
{
  struct lls_node *left = parse_level(parser, 0);
  struct lls_node *node = NULL, **tail = NULL;
  enum lls_operation operation;
  while (parser->code == 0 && accept_comparison(parser, &operation)) {
    if (node == NULL) {
      if ((node = lls_parser_node(parser, LLS_NODE_COMPARE)) == NULL)
        return NULL;
      node->left = left;
      tail = &node->body;
    }
    struct lls_node *term = lls_parser_node(parser, LLS_NODE_ARGUMENT);
    if (term == NULL)
      return NULL;
    term->operation = operation;
    term->left = parse_level(parser, 0);
    *tail = term;
    tail = &term->next;
  }
  return node != NULL ? node : left;
}

static struct lls_node *parse_not(struct lls_parser *parser)
{
  if (!lls_parser_accept_word(parser, "not"))
    return parse_compare(parser);
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_NOT);
  if (node == NULL || !lls_parser_enter(parser))
    return NULL;
  node->left = parse_not(parser);
  parser->depth--;
  return node;
}

static struct lls_node *join(struct lls_parser *parser, enum lls_node_kind kind,
                             struct lls_node *left, struct lls_node *right)
{
  struct lls_node *node = lls_parser_node(parser, kind);
  if (node == NULL)
    return NULL;
  node->left = left;
  node->right = right;
  return node;
}

static struct lls_node *parse_and(struct lls_parser *parser)
{
  struct lls_node *left = parse_not(parser);
  while (lls_parser_accept_word(parser, "and"))
    left = join(parser, LLS_NODE_AND, left, parse_not(parser));
  return left;
}

struct lls_node *lls_parse_simple_expression(struct lls_parser *parser)
{
  struct lls_node *left = parse_and(parser);
  while (lls_parser_accept_word(parser, "or"))
    left = join(parser, LLS_NODE_OR, left, parse_and(parser));
  return left;
}

struct lls_node *lls_parse_expression(struct lls_parser *parser)
{
  struct lls_node *value = lls_parse_simple_expression(parser);
  while (lls_parser_accept_word(parser, "if")) {
    struct lls_node *choice = lls_parser_node(parser, LLS_NODE_CHOICE);
    if (choice == NULL || !lls_parser_enter(parser))
      return NULL;
    choice->right = value;
    choice->left = lls_parse_simple_expression(parser);
    if (lls_parser_accept_word(parser, "else"))
      choice->third = lls_parse_expression(parser);
    value = choice;
    parser->depth--;
  }
  return value;
}

struct lls_node *lls_parse_tuple(struct lls_parser *parser)
{
  struct lls_node *first = lls_parse_expression(parser);
  if (!lls_parser_is(parser, LLS_TOKEN_OPERATOR, ","))
    return first;
  struct lls_node *list = lls_parser_node(parser, LLS_NODE_LIST);
  struct lls_node *item = lls_parser_node(parser, LLS_NODE_ARGUMENT);
  if (list == NULL || item == NULL)
    return NULL;
  item->left = first;
  list->body = item;
  while (lls_parser_accept_operator(parser, ",")) {
    if (lls_parser_is(parser, LLS_TOKEN_OPERATOR, ")") ||
        lls_parser_is(parser, LLS_TOKEN_PRINT_END, NULL) ||
        lls_parser_is(parser, LLS_TOKEN_STATEMENT_END, NULL))
      break;
    item->next = lls_parser_node(parser, LLS_NODE_ARGUMENT);
    if ((item = item->next) == NULL)
      return NULL;
    item->left = lls_parse_expression(parser);
  }
  return list;
}
