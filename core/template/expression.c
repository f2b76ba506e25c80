/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions, loosest binding first, as Jinja's grammar has them:
 *
 *   a if b else c;  or;  and;  not;  == != < <= > >= in, not in;  + -;  ~;  * // %;
 *   unary -;  .name [index] (call);  |filter  is test
 */
#include "core/template/function.h"
#include "core/template/literal.h"
#include "core/template/parser.h"

#include <string.h>

static bool accept_operator(struct lls_parser *parser, const char *text)
{
  return lls_parser_accept(parser, LLS_TOKEN_OPERATOR, text);
}

static bool accept_word(struct lls_parser *parser, const char *text)
{
  return lls_parser_accept(parser, LLS_TOKEN_NAME, text);
}

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
    if (!accept_operator(parser, ","))
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
    if (!accept_operator(parser, ","))
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
  if (lls_parser_accept(&next, LLS_TOKEN_NAME, NULL) && accept_operator(&next, "=")) {
    parser->word = next.word;
    argument->name =
        lls_tree_name(parser->tree, parser->tree->source + word->start, word->length);
  }
  argument->left = lls_parse_expression(parser);
  return argument;
}

/* After "(", up to ")". */
static struct lls_node *parse_arguments(struct lls_parser *parser,
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
    if (!accept_operator(parser, ","))
      break;
  }
  for (size_t i = 0; i < function->required; i++)
    if (!given[i])
      lls_parser_fail(parser, "\"%s\" needs the argument \"%s\"", function->name,
                      function->parameters[i]);
  lls_parser_expect(parser, LLS_TOKEN_OPERATOR, ")");
  return first;
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
  accept_operator(parser, "(");
  node->body = parse_arguments(parser, node->function);
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
    if (accept_word(parser, constants[i].word))
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

static struct lls_node *parse_primary(struct lls_parser *parser)
{
  if (lls_parser_is(parser, LLS_TOKEN_NAME, NULL))
    return parse_name(parser);
  if (lls_parser_is(parser, LLS_TOKEN_STRING, NULL))
    return parse_string(parser);
  if (lls_parser_is(parser, LLS_TOKEN_INTEGER, NULL))
    return parse_integer(parser);
  if (accept_operator(parser, "("))
    return parse_brackets(parser);
  if (accept_operator(parser, "["))
    return parse_list(parser);
  if (accept_operator(parser, "{"))
    return parse_dict(parser);
  return lls_parser_fail(parser, "expected an expression instead of \"%.*s\"",
                         (int)parser->word->length,
                         parser->tree->source + parser->word->start);
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
      accept_operator(parser, ":");
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
  accept_operator(parser, "(");
  node->body = parse_arguments(parser, node->function);
  return node;
}

static struct lls_node *parse_postfix(struct lls_parser *parser, struct lls_node *node)
{
  while (parser->code == 0) {
    if (accept_operator(parser, "."))
      node = parse_member(parser, node);
    else if (accept_operator(parser, "["))
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
  if (accept_operator(parser, "(")) {
    node->body = parse_arguments(parser, node->function);
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
  if (accept_operator(parser, "(")) {
    node->body = parse_arguments(parser, node->function);
  } else if (node->function->required > 0 && begins_argument(parser)) {
    node->body = lls_parser_node(parser, LLS_NODE_ARGUMENT);
    if (node->body != NULL)
      node->body->left = parse_postfix(parser, parse_primary(parser));
  } else if (node->function->required > 0) {
    lls_parser_fail(parser, "the test \"%s\" needs an argument", node->function->name);
  }
}

/* After "is", maybe "not". */
static struct lls_node *parse_test(struct lls_parser *parser, struct lls_node *value)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_TEST);
  bool negated = accept_word(parser, "not");
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

static struct lls_node *parse_filters(struct lls_parser *parser, struct lls_node *node)
{
  while (parser->code == 0) {
    if (accept_operator(parser, "|"))
      node = parse_filter(parser, node);
    else if (accept_word(parser, "is"))
      node = parse_test(parser, node);
    else
      return node;
    if (parser->code == 0 && lls_parser_is(parser, LLS_TOKEN_OPERATOR, "."))
      return lls_parser_fail(parser,
                             "a member of a filter's result needs brackets around it");
  }
  return NULL;
}

static struct lls_node *parse_unary(struct lls_parser *parser, bool with_filter)
{
  struct lls_node *node;
  if (!lls_parser_enter(parser))
    return NULL;
  if (accept_operator(parser, "-")) {
    node = lls_parser_node(parser, LLS_NODE_NEGATE);
    if (node != NULL)
      node->left = parse_unary(parser, false);
  } else {
    node = parse_primary(parser);
  }
  node = parse_postfix(parser, node);
  if (with_filter)
    node = parse_filters(parser, node);
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
    if (accept_operator(parser, level->text))
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
  if (accept_word(parser, "in"))
    return true;
  *operation = LLS_OP_NOT_IN;
  if (!accept_word(&next, "not") || !accept_word(&next, "in"))
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
  if (!accept_word(parser, "not"))
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
  while (accept_word(parser, "and"))
    left = join(parser, LLS_NODE_AND, left, parse_not(parser));
  return left;
}

struct lls_node *lls_parse_simple_expression(struct lls_parser *parser)
{
  struct lls_node *left = parse_and(parser);
  while (accept_word(parser, "or"))
    left = join(parser, LLS_NODE_OR, left, parse_and(parser));
  return left;
}

struct lls_node *lls_parse_expression(struct lls_parser *parser)
{
  struct lls_node *value = lls_parse_simple_expression(parser);
  while (accept_word(parser, "if")) {
    struct lls_node *choice = lls_parser_node(parser, LLS_NODE_CHOICE);
    if (choice == NULL || !lls_parser_enter(parser))
      return NULL;
    choice->right = value;
    choice->left = lls_parse_simple_expression(parser);
    if (accept_word(parser, "else"))
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
  while (accept_operator(parser, ",")) {
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
