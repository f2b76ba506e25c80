/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses expressions. Jinja's operators, from the loosest to the tightest binding:
 *
 *   a if b else c;  or;  and;  not;  == != < <= > >= in, not in;  + -;  ~;  * / // %;
 *   **;  unary - +;  .member [index] (arguments);  |filter, is test
 */
#include "text/template/function.h"
#include "text/template/grammar.h"

static struct lls_node *parse_unary(struct lls_parser *parser, bool with_filter);

/* ---- primary expressions ----------------------------------------------------------- */

/* Parses items up to the closing bracket; the opening one is already taken. */
static struct lls_node *parse_list(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_LIST);
  struct lls_node **tail = node != NULL ? &node->body : NULL;
  while (parser->code == 0 && !lls_parser_is_operator(parser, "]")) {
    struct lls_node *item = lls_parser_node(parser, LLS_NODE_ARGUMENT);
    if (item == NULL)
      return NULL;
    item->left = lls_parse_expression(parser);
    *tail = item;
    tail = &item->next;
    if (!lls_parser_accept_operator(parser, ","))
      break;
  }
  lls_parser_expect(parser, LLS_TOKEN_OPERATOR, "]");
  return node;
}

static struct lls_node *parse_dict(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_DICT);
  struct lls_node **tail = node != NULL ? &node->body : NULL;
  while (parser->code == 0 && !lls_parser_is_operator(parser, "}")) {
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

/* After "(": an expression in parentheses, or a tuple. */
static struct lls_node *parse_brackets(struct lls_parser *parser)
{
  struct lls_node *node;
  if (lls_parser_is_operator(parser, ")")) {
    node = lls_parser_node(parser, LLS_NODE_LIST);
    if (node != NULL)
      node->flag = true;
  } else {
    node = lls_parse_tuple(parser);
  }
  lls_parser_expect(parser, LLS_TOKEN_OPERATOR, ")");
  return node;
}

/* Records the special variables that a macro's body reads: a macro receives only
 * those. */
static void note_special(struct lls_parser *parser, struct lls_value name)
{
  if (lls_text_is(name, "varargs"))
    parser->specials |= LLS_VARARGS;
  else if (lls_text_is(name, "kwargs"))
    parser->specials |= LLS_KWARGS;
  else if (lls_text_is(name, "caller"))
    parser->specials |= LLS_CALLER;
}

static struct lls_node *parse_name(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_NAME);
  if (node == NULL || !lls_parser_name(parser, &node->value))
    return NULL;
  note_special(parser, node->value);
  return node;
}

static struct lls_node *parse_primary(struct lls_parser *parser)
{
  struct lls_node *constant = lls_parse_constant(parser);
  if (constant != NULL || parser->code < 0)
    return constant;
  if (lls_parser_is(parser, LLS_TOKEN_NAME, NULL))
    return parse_name(parser);
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

/* ---- postfix expressions ----------------------------------------------------------- */

/* Parses "value", "name = value", "*list" or "**mapping". */
static struct lls_node *parse_argument(struct lls_parser *parser)
{
  struct lls_node *argument = lls_parser_node(parser, LLS_NODE_ARGUMENT);
  if (argument == NULL)
    return NULL;
  struct lls_parser next = *parser;
  if (lls_parser_accept_operator(parser, "**"))
    argument->stars = 2;
  else if (lls_parser_accept_operator(parser, "*"))
    argument->stars = 1;
  else if (lls_parser_accept(&next, LLS_TOKEN_NAME, NULL) &&
           lls_parser_is_operator(&next, "=") &&
           lls_parser_name(parser, &argument->value))
    lls_parser_accept_operator(parser, "=");
  argument->left = lls_parse_expression(parser);
  return argument;
}

/* Parses arguments after "(", up to and including ")". */
static struct lls_node *parse_arguments(struct lls_parser *parser)
{
  struct lls_node *first = NULL, **tail = &first;
  while (parser->code == 0 && !lls_parser_is_operator(parser, ")")) {
    struct lls_node *argument = parse_argument(parser);
    if (argument == NULL)
      return NULL;
    *tail = argument;
    tail = &argument->next;
    if (!lls_parser_accept_operator(parser, ","))
      break;
  }
  lls_parser_expect(parser, LLS_TOKEN_OPERATOR, ")");
  return first;
}

/* Parses one bound of a slice, which may be empty. */
static struct lls_node *parse_bound(struct lls_parser *parser)
{
  struct lls_node *bound = lls_parser_node(parser, LLS_NODE_ARGUMENT);
  if (bound != NULL && !lls_parser_is_operator(parser, ":") &&
      !lls_parser_is_operator(parser, "]"))
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
  if (lls_parser_is_operator(parser, ":")) {
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

/* After ".": a name, or the index of an item. */
static struct lls_node *parse_member(struct lls_parser *parser, struct lls_node *object)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_MEMBER);
  if (node == NULL)
    return NULL;
  node->left = object;
  if (lls_parser_is(parser, LLS_TOKEN_INTEGER, NULL)) {
    node->kind = LLS_NODE_INDEX;
    node->right = lls_parse_constant(parser);
    return node;
  }
  return lls_parser_name(parser, &node->value) ? node : NULL;
}

/* After "(". */
static struct lls_node *parse_call(struct lls_parser *parser, struct lls_node *callee)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_CALL);
  if (node == NULL || callee == NULL)
    return NULL;
  node->offset = callee->offset;
  node->left = callee;
  node->body = parse_arguments(parser);
  return node;
}

static struct lls_node *parse_postfix(struct lls_parser *parser, struct lls_node *node)
{
  while (parser->code == 0) {
    if (lls_parser_accept_operator(parser, "."))
      node = parse_member(parser, node);
    else if (lls_parser_accept_operator(parser, "["))
      node = parse_subscript(parser, node);
    else if (lls_parser_accept_operator(parser, "("))
      node = parse_call(parser, node);
    else
      return node;
  }
  return NULL;
}

struct lls_node *lls_parse_callee(struct lls_parser *parser)
{
  return parse_postfix(parser, parse_primary(parser));
}

static struct lls_node *parse_filter(struct lls_parser *parser, struct lls_node *value)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_FILTER);
  if (node == NULL || !lls_parser_dotted_name(parser, &node->value))
    return NULL;
  node->left = value;
  node->function = lls_filter_find(node->value.text, node->value.length);
  if (node->function == NULL)
    lls_parser_note_unknown(parser, node->offset, "filter", node->value);
  if (lls_parser_accept_operator(parser, "("))
    node->body = parse_arguments(parser);
  return node;
}

struct lls_node *lls_parse_filter_chain(struct lls_parser *parser, struct lls_node *value)
{
  do
    value = parse_filter(parser, value);
  while (lls_parser_accept_operator(parser, "|"));
  return value;
}

/* Returns true if a test's argument without parentheses comes next: "is equalto 3". */
static bool begins_argument(const struct lls_parser *parser)
{
  static const char *const words[] = {"else", "or", "and", "is", "if", "in", "not"};
  if (lls_parser_is(parser, LLS_TOKEN_STRING, NULL) ||
      lls_parser_is(parser, LLS_TOKEN_INTEGER, NULL) ||
      lls_parser_is(parser, LLS_TOKEN_FLOAT, NULL) ||
      lls_parser_is_operator(parser, "[") || lls_parser_is_operator(parser, "{"))
    return true;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (lls_parser_is(parser, LLS_TOKEN_NAME, words[i]))
      return false;
  return lls_parser_is(parser, LLS_TOKEN_NAME, NULL);
}

/* After "is": a test, perhaps negated by "not". */
static struct lls_node *parse_test(struct lls_parser *parser, struct lls_node *value)
{
  bool negated = lls_parser_accept_word(parser, "not");
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_TEST);
  if (node == NULL || !lls_parser_dotted_name(parser, &node->value))
    return NULL;
  node->left = value;
  node->function = lls_test_find(node->value.text, node->value.length);
  if (node->function == NULL)
    lls_parser_note_unknown(parser, node->offset, "test", node->value);
  if (lls_parser_accept_operator(parser, "(")) {
    node->body = parse_arguments(parser);
  } else if (begins_argument(parser)) {
    node->body = lls_parser_node(parser, LLS_NODE_ARGUMENT);
    if (node->body != NULL)
      node->body->left = parse_postfix(parser, parse_primary(parser));
  }
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
    if (lls_parser_accept_operator(parser, "|"))
      node = parse_filter(parser, node);
    else if (lls_parser_accept_word(parser, "is"))
      node = parse_test(parser, node);
    else if (lls_parser_accept_operator(parser, "("))
      node = parse_call(parser, node);
    else
      return node;
  }
  return NULL;
}

static struct lls_node *parse_sign(struct lls_parser *parser, enum lls_node_kind kind)
{
  struct lls_node *node = lls_parser_node(parser, kind);
  if (node != NULL)
    node->left = parse_unary(parser, false);
  return node;
}

static struct lls_node *parse_unary(struct lls_parser *parser, bool with_filter)
{
  struct lls_node *node;
  if (!lls_parser_enter(parser))
    return NULL;
  if (lls_parser_accept_operator(parser, "-"))
    node = parse_sign(parser, LLS_NODE_NEGATE);
  else if (lls_parser_accept_operator(parser, "+"))
    node = parse_sign(parser, LLS_NODE_PLUS);
  else
    node = parse_primary(parser);
  node = parse_postfix(parser, node);
  if (with_filter)
    node = parse_filters(parser, node);
  parser->depth--;
  return node;
}

/* ---- operators --------------------------------------------------------------------- */

/* An operator of one precedence level: its spelling and its operation. */
struct binary {
  const char *text;
  enum lls_operation operation;
};

static const struct binary powers[] = {{"**", LLS_OP_POWER}, {0}};
static const struct binary products[] = {{"*", LLS_OP_MULTIPLY},
                                         {"/", LLS_OP_DIVIDE},
                                         {"//", LLS_OP_DIVIDE_FLOOR},
                                         {"%", LLS_OP_MODULO},
                                         {0}};
static const struct binary concatenations[] = {{"~", LLS_OP_CONCATENATE}, {0}};
static const struct binary sums[] = {{"+", LLS_OP_ADD}, {"-", LLS_OP_SUBTRACT}, {0}};
static const struct binary *const levels[] = {sums, concatenations, products, powers};

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

/* An expression without "a if b else c", as after "in". */
static struct lls_node *parse_simple(struct lls_parser *parser)
{
  struct lls_node *left = parse_and(parser);
  while (lls_parser_accept_word(parser, "or"))
    left = join(parser, LLS_NODE_OR, left, parse_and(parser));
  return left;
}

struct lls_node *lls_parse_expression(struct lls_parser *parser)
{
  struct lls_node *value = parse_simple(parser);
  while (lls_parser_accept_word(parser, "if")) {
    struct lls_node *choice = lls_parser_node(parser, LLS_NODE_CHOICE);
    if (choice == NULL || !lls_parser_enter(parser))
      return NULL;
    choice->right = value;
    choice->left = parse_simple(parser);
    if (lls_parser_accept_word(parser, "else"))
      choice->third = lls_parse_expression(parser);
    value = choice;
    parser->depth--;
  }
  return value;
}

/* ---- tuples ------------------------------------------------------------------------ */

typedef struct lls_node *(*rule)(struct lls_parser *parser);

/* Returns true where a tuple with a trailing comma ends. */
static bool ends_tuple(const struct lls_parser *parser)
{
  return lls_parser_is_operator(parser, ")") || lls_parser_is_operator(parser, "=") ||
         lls_parser_is(parser, LLS_TOKEN_PRINT_END, NULL) ||
         lls_parser_is(parser, LLS_TOKEN_STATEMENT_END, NULL) ||
         lls_parser_is(parser, LLS_TOKEN_NAME, "in");
}

static struct lls_node *parse_items(struct lls_parser *parser, rule parse_item)
{
  struct lls_node *first = parse_item(parser);
  if (!lls_parser_is_operator(parser, ","))
    return first;
  struct lls_node *list = lls_parser_node(parser, LLS_NODE_LIST);
  struct lls_node *item = lls_parser_node(parser, LLS_NODE_ARGUMENT);
  if (list == NULL || item == NULL)
    return NULL;
  list->flag = true;
  item->left = first;
  list->body = item;
  while (lls_parser_accept_operator(parser, ",")) {
    if (ends_tuple(parser))
      break;
    item->next = lls_parser_node(parser, LLS_NODE_ARGUMENT);
    if ((item = item->next) == NULL)
      return NULL;
    item->left = parse_item(parser);
  }
  return list;
}

struct lls_node *lls_parse_tuple(struct lls_parser *parser)
{
  return parse_items(parser, lls_parse_expression);
}

struct lls_node *lls_parse_simple_tuple(struct lls_parser *parser)
{
  return parse_items(parser, parse_simple);
}

static struct lls_node *parse_targets(struct lls_parser *parser);

static struct lls_node *parse_one_target(struct lls_parser *parser)
{
  struct lls_node *node;
  if (lls_parser_accept_operator(parser, "(")) {
    node = lls_parser_enter(parser) ? parse_targets(parser) : NULL;
    parser->depth--;
    lls_parser_expect(parser, LLS_TOKEN_OPERATOR, ")");
    return node;
  }
  node = lls_parser_node(parser, LLS_NODE_NAME);
  return node != NULL && lls_parser_name(parser, &node->value) ? node : NULL;
}

static struct lls_node *parse_targets(struct lls_parser *parser)
{
  return parse_items(parser, parse_one_target);
}

struct lls_node *lls_parse_target(struct lls_parser *parser, bool members)
{
  struct lls_node *node = parse_targets(parser);
  if (!members || node == NULL || node->kind != LLS_NODE_NAME ||
      !lls_parser_accept_operator(parser, "."))
    return node;
  return parse_member(parser, node);
}
