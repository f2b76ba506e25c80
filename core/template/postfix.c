/* SPDX-License-Identifier: Apache-2.0 */
/* What follows an expression: .member [index] (arguments) |filter, is test. */
#include "core/template/function.h"
#include "core/template/parser.h"

#include <string.h>

/* Gives an argument its parameter. */
static bool bind(struct lls_parser *parser, const struct lls_function *function,
                 struct lls_node *argument, size_t index)
{
  if (argument->name == NULL) {
    argument->position = index;
    if (index < LLS_PARAMETERS && function->parameters[index] != NULL)
      return true;
    lls_parser_fail(parser, "\"%s\" is not supported with so many arguments",
                    function->name);
    return false;
  }
  for (size_t i = 0; i < LLS_PARAMETERS && function->parameters[i] != NULL; i++) {
    if (strcmp(argument->name, function->parameters[i]) == 0) {
      argument->position = i;
      argument->name = NULL;
      return true;
    }
  }
  if (!function->open)
    lls_parser_fail(parser, "\"%s\" is not supported with the argument \"%s\"",
                    function->name, argument->name);
  return function->open;
}

/* "name = value" or "value" */
static struct lls_node *parse_argument(struct lls_parser *parser)
{
  struct lls_node *argument = lls_parser_node(parser, LLS_NODE_ARGUMENT);
  if (argument == NULL)
    return NULL;
  const struct lls_word *word = parser->word;
  struct lls_parser next = *parser;
  if (lls_parser_accept(&next, LLS_TOKEN_NAME, NULL) &&
      lls_parser_accept_operator(&next, "=")) {
    parser->word = next.word;
    argument->name =
        lls_tree_name(parser->tree, parser->tree->source + word->start, word->length);
  }
  argument->left = lls_parse_expression(parser);
  return argument;
}

/* After "(", up to ")". */
struct lls_node *lls_parse_arguments(struct lls_parser *parser,
                                     const struct lls_function *function)
{
  struct lls_node *first = NULL, **tail = &first;
  bool given[LLS_PARAMETERS] = {false};
  for (size_t i = 0; parser->code == 0 && !lls_parser_is(parser, LLS_TOKEN_OPERATOR, ")");
       i++) {
    struct lls_node *argument = parse_argument(parser);
    if (argument == NULL || !bind(parser, function, argument, i))
      return NULL;
    if (argument->name == NULL)
      given[argument->position] = true;
    *tail = argument;
    tail = &argument->next;
    if (!lls_parser_accept_operator(parser, ","))
      break;
  }
  for (size_t i = 0; i < function->required; i++)
    if (!given[i])
      lls_parser_fail(parser, "\"%s\" needs the argument \"%s\"", function->name,
                      function->parameters[i]);
  lls_parser_expect(parser, LLS_TOKEN_OPERATOR, ")");
  return first;
}

/* One bound of a slice; its expression may be left out. */
static struct lls_node *parse_bound(struct lls_parser *parser)
{
  struct lls_node *bound = lls_parser_node(parser, LLS_NODE_ARGUMENT);
  if (bound != NULL && !lls_parser_is(parser, LLS_TOKEN_OPERATOR, ":") &&
      !lls_parser_is(parser, LLS_TOKEN_OPERATOR, "]"))
    bound->left = lls_parse_expression(parser);
  return bound;
}

/* After "[": an index, or a slice start:stop:step. */
static struct lls_node *parse_subscript(struct lls_parser *parser,
                                        struct lls_node *object)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_INDEX);
  struct lls_node *start = parse_bound(parser);
  if (node == NULL || start == NULL)
    return NULL;
  node->left = object;
  if (lls_parser_is(parser, LLS_TOKEN_OPERATOR, ":")) {
    node->kind = LLS_NODE_SLICE;
    node->body = start;
    struct lls_node *last = start;
    for (int i = 0; i < 2 && last != NULL; i++) {
      lls_parser_accept_operator(parser, ":");
      last->next = parse_bound(parser);
      last = last->next;
    }
  } else if (start->left == NULL) {
    return lls_parser_fail(parser, "expected an index");
  } else {
    node->right = start->left;
  }
  lls_parser_expect(parser, LLS_TOKEN_OPERATOR, "]");
  return node;
}

/* After ".": a member, or a method with its call. */
static struct lls_node *parse_member(struct lls_parser *parser, struct lls_node *object)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_MEMBER);
  if (node == NULL)
    return NULL;
  node->left = object;
  node->name = lls_parser_name(parser);
  if (node->name == NULL || !lls_parser_is(parser, LLS_TOKEN_OPERATOR, "("))
    return node;
  node->kind = LLS_NODE_METHOD;
  node->function = lls_method_find(node->name);
  if (node->function == NULL) {
    parser->word--;
    return lls_parser_fail(parser, "the method \"%s\" is not supported", node->name);
  }
  lls_parser_accept_operator(parser, "(");
  node->body = lls_parse_arguments(parser, node->function);
  return node;
}

struct lls_node *lls_parse_postfix(struct lls_parser *parser, struct lls_node *node)
{
  while (parser->code == 0) {
    if (lls_parser_accept_operator(parser, "."))
      node = parse_member(parser, node);
    else if (lls_parser_accept_operator(parser, "["))
      node = parse_subscript(parser, node);
    else if (lls_parser_is(parser, LLS_TOKEN_OPERATOR, "("))
      return lls_parser_fail(parser, "calling a value is not supported");
    else
      return node;
  }
  return NULL;
}

static struct lls_node *parse_filter(struct lls_parser *parser, struct lls_node *value)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_FILTER);
  const char *name = lls_parser_name(parser);
  if (node == NULL || name == NULL)
    return NULL;
  node->left = value;
  node->function = lls_filter_find(name);
  if (node->function == NULL) {
    parser->word--;
    return lls_parser_fail(parser, "the filter \"%s\" is not supported", name);
  }
  if (lls_parser_accept_operator(parser, "(")) {
    node->body = lls_parse_arguments(parser, node->function);
  } else if (node->function->required > 0) {
    return lls_parser_fail(parser, "\"%s\" needs an argument", name);
  }
  return node;
}

/* Where a test may take one argument without brackets: "is equalto 3". */
static bool begins_argument(const struct lls_parser *parser)
{
  static const char *const words[] = {"else", "or", "and", "is", "if", "in", "not"};
  if (lls_parser_is(parser, LLS_TOKEN_STRING, NULL) ||
      lls_parser_is(parser, LLS_TOKEN_INTEGER, NULL) ||
      lls_parser_is(parser, LLS_TOKEN_OPERATOR, "[") ||
      lls_parser_is(parser, LLS_TOKEN_OPERATOR, "{"))
    return true;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (lls_parser_is(parser, LLS_TOKEN_NAME, words[i]))
      return false;
  return lls_parser_is(parser, LLS_TOKEN_NAME, NULL);
}

static void parse_test_arguments(struct lls_parser *parser, struct lls_node *node)
{
  if (lls_parser_accept_operator(parser, "(")) {
    node->body = lls_parse_arguments(parser, node->function);
  } else if (node->function->required > 0 && begins_argument(parser)) {
    node->body = lls_parser_node(parser, LLS_NODE_ARGUMENT);
    if (node->body != NULL)
      node->body->left = lls_parse_postfix(parser, lls_parse_primary(parser));
  } else if (node->function->required > 0) {
    lls_parser_fail(parser, "the test \"%s\" needs an argument", node->function->name);
  }
}

/* After "is", maybe "not". */
static struct lls_node *parse_test(struct lls_parser *parser, struct lls_node *value)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_TEST);
  bool negated = lls_parser_accept_word(parser, "not");
  const char *name = lls_parser_name(parser);
  if (node == NULL || name == NULL)
    return NULL;
  node->left = value;
  node->function = lls_test_find(name);
  if (node->function == NULL) {
    parser->word--;
    return lls_parser_fail(parser, "the test \"%s\" is not supported", name);
  }
  parse_test_arguments(parser, node);
  if (!negated)
    return node;
  struct lls_node *not = lls_parser_node(parser, LLS_NODE_NOT);
  if (not != NULL)
    not ->left = node;
  return not ;
}

struct lls_node *lls_parse_filters(struct lls_parser *parser, struct lls_node *node)
{
  while (parser->code == 0) {
    if (lls_parser_accept_operator(parser, "|"))
      node = parse_filter(parser, node);
    else if (lls_parser_accept_word(parser, "is"))
      node = parse_test(parser, node);
    else
      return node;
    if (parser->code == 0 && lls_parser_is(parser, LLS_TOKEN_OPERATOR, "."))
      return lls_parser_fail(parser,
                             "a member of a filter's result needs brackets around it");
  }
  return NULL;
}
