/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest expressions: literals, names, calls of functions, brackets. */
#include "core/template/function.h"
#include "core/template/literal.h"
#include "core/template/parser.h"

static struct lls_node *literal(struct lls_parser *parser, json_t *value)
{
  struct lls_node *node =
      value != NULL ? lls_parser_node(parser, LLS_NODE_LITERAL) : NULL;
  if (node == NULL) {
    json_decref(value);
    return lls_parser_fail(parser,
                           "this literal is not valid, or there is no memory for it");
  }
  node->value = value;
  return node;
}

/* Strings that stand side by side are one. */
static struct lls_node *parse_string(struct lls_parser *parser)
{
  json_t *value = json_string("");
  struct lls_node *node = literal(parser, value);
  while (node != NULL && lls_parser_is(parser, LLS_TOKEN_STRING, NULL)) {
    json_t *joined = lls_literal_append(
        node->value, parser->tree->source + parser->word->start, parser->word->length);
    if (joined == NULL)
      return lls_parser_fail(parser, "this string has an escape that is not valid");
    json_decref(node->value);
    node->value = joined;
    parser->word++;
  }
  return node;
}

static struct lls_node *parse_integer(struct lls_parser *parser)
{
  const struct lls_word *word = parser->word;
  json_int_t value = 0;
  if (word->length > 18)
    return lls_parser_fail(parser, "this number is too large");
  for (size_t i = 0; i < word->length; i++)
    value = value * 10 + (parser->tree->source[word->start + i] - '0');
  struct lls_node *node = literal(parser, json_integer(value));
  parser->word++;
  return node;
}

/* Items up to a closing bracket, the opening one being passed. */
static struct lls_node *parse_items(struct lls_parser *parser, const char *close)
{
  struct lls_node *first = NULL, **tail = &first;
  while (parser->code == 0 && !lls_parser_is(parser, LLS_TOKEN_OPERATOR, close)) {
    struct lls_node *item = lls_parser_node(parser, LLS_NODE_ARGUMENT);
    if (item == NULL)
      return NULL;
    item->left = lls_parse_expression(parser);
    *tail = item;
    tail = &item->next;
    if (!lls_parser_accept_operator(parser, ","))
      break;
  }
  lls_parser_expect(parser, LLS_TOKEN_OPERATOR, close);
  return first;
}

static struct lls_node *parse_list(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_LIST);
  if (node != NULL)
    node->body = parse_items(parser, "]");
  return node;
}

static struct lls_node *parse_dict(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_DICT);
  if (node == NULL)
    return NULL;
  struct lls_node **tail = &node->body;
  while (parser->code == 0 && !lls_parser_is(parser, LLS_TOKEN_OPERATOR, "}")) {
    struct lls_node *item = lls_parser_node(parser, LLS_NODE_ARGUMENT);
    if (item == NULL)
      return NULL;
    item->left = lls_parse_expression(parser);
    lls_parser_expect(parser, LLS_TOKEN_OPERATOR, ":");
    item->right = lls_parse_expression(parser);
    *tail = item;
    tail = &item->next;
    if (!lls_parser_accept_operator(parser, ","))
      break;
  }
  lls_parser_expect(parser, LLS_TOKEN_OPERATOR, "}");
  return node;
}

/* After "(": an expression in brackets, or a tuple, which is taken for a list. */
static struct lls_node *parse_brackets(struct lls_parser *parser)
{
  struct lls_node *node;
  if (lls_parser_is(parser, LLS_TOKEN_OPERATOR, ")"))
    node = lls_parser_node(parser, LLS_NODE_LIST);
  else
    node = lls_parse_tuple(parser);
  lls_parser_expect(parser, LLS_TOKEN_OPERATOR, ")");
  return node;
}

static struct lls_node *parse_call(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_CALL);
  const char *name = lls_parser_name(parser);
  if (node == NULL || name == NULL)
    return NULL;
  node->function = lls_function_find(name);
  if (node->function == NULL) {
    parser->word--;
    return lls_parser_fail(parser, "the function \"%s\" is not supported", name);
  }
  lls_parser_accept_operator(parser, "(");
  node->body = lls_parse_arguments(parser, node->function);
  return node;
}

static struct lls_node *parse_name(struct lls_parser *parser)
{
  static const struct {
    const char *word;
    json_t *(*make)(void);
  } constants[] = {
      {"true", json_true},   {"True", json_true}, {"false", json_false},
      {"False", json_false}, {"none", json_null}, {"None", json_null},
  };
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    if (lls_parser_accept_word(parser, constants[i].word))
      return literal(parser, constants[i].make());
  struct lls_parser next = *parser;
  next.word++;
  if (lls_parser_is(&next, LLS_TOKEN_OPERATOR, "("))
    return parse_call(parser);
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_NAME);
  if (node != NULL)
    node->name = lls_parser_name(parser);
  return node;
}

struct lls_node *lls_parse_primary(struct lls_parser *parser)
{
  if (lls_parser_is(parser, LLS_TOKEN_NAME, NULL))
    return parse_name(parser);
  if (lls_parser_is(parser, LLS_TOKEN_STRING, NULL))
    return parse_string(parser);
  if (lls_parser_is(parser, LLS_TOKEN_INTEGER, NULL))
    return parse_integer(parser);
  if (lls_parser_accept_operator(parser, "("))
    return parse_brackets(parser);
  if (lls_parser_accept_operator(parser, "["))
    return parse_list(parser);
  if (lls_parser_accept_operator(parser, "{"))
    return parse_dict(parser);
  return lls_parser_fail(parser, "expected an expression instead of \"%.*s\"",
                         (int)parser->word->length,
                         parser->tree->source + parser->word->start);
}
