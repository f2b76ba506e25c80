/* SPDX-License-Identifier: Apache-2.0 */
/* Parses statements: {% ... %}, {{ ... }} and the text between; see grammar.h. */
#include "text/template/grammar.h"

#include <stdlib.h>
#include <string.h>

static struct lls_node *parse_block(struct lls_parser *parser, const char *const *ends);

/* Returns true if the next words are "{% name". */
static bool ahead(const struct lls_parser *parser, const char *name)
{
  struct lls_parser next = *parser;
  return lls_parser_accept(&next, LLS_TOKEN_STATEMENT, NULL) &&
         lls_parser_is(&next, LLS_TOKEN_NAME, name);
}

/* Skips "{% name". */
static bool pass(struct lls_parser *parser, const char *name)
{
  return lls_parser_expect(parser, LLS_TOKEN_STATEMENT, NULL) &&
         lls_parser_expect(parser, LLS_TOKEN_NAME, name);
}

static void end_statement(struct lls_parser *parser)
{
  lls_parser_expect(parser, LLS_TOKEN_STATEMENT_END, NULL);
}

/* Parses the rest of a statement's tag, its body, and "{% end %}". */
static struct lls_node *parse_body(struct lls_parser *parser, const char *end)
{
  const char *const ends[] = {end, NULL};
  end_statement(parser);
  struct lls_node *body = parse_block(parser, ends);
  pass(parser, end);
  return body;
}

static struct lls_node *parse_branch(struct lls_parser *parser, bool with_condition)
{
  static const char *const ends[] = {"elif", "else", "endif", NULL};
  struct lls_node *branch = lls_parser_node(parser, LLS_NODE_IF);
  if (branch == NULL)
    return NULL;
  if (with_condition)
    branch->left = lls_parse_simple_tuple(parser);
  end_statement(parser);
  branch->body = parse_block(parser, ends);
  return branch;
}

/* After "if". */
static struct lls_node *parse_if(struct lls_parser *parser)
{
  struct lls_node *first = parse_branch(parser, true), *last = first;
  while (parser->code == 0 && ahead(parser, "elif")) {
    pass(parser, "elif");
    last->third = parse_branch(parser, true);
    last = last->third;
  }
  if (parser->code == 0 && ahead(parser, "else")) {
    pass(parser, "else");
    last->third = parse_branch(parser, false);
  }
  pass(parser, "endif");
  end_statement(parser);
  return first;
}

static struct lls_node *parse_for(struct lls_parser *parser)
{
  static const char *const ends[] = {"else", "endfor", NULL};
  static const char *const last[] = {"endfor", NULL};
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_FOR);
  if (node == NULL)
    return NULL;
  node->names = lls_parse_target(parser, false);
  lls_parser_expect(parser, LLS_TOKEN_NAME, "in");
  node->left = lls_parse_simple_tuple(parser);
  if (lls_parser_accept_word(parser, "if"))
    node->right = lls_parse_expression(parser);
  node->flag = lls_parser_accept_word(parser, "recursive");
  end_statement(parser);
  parser->loops++;
  node->body = parse_block(parser, ends);
  parser->loops--;
  if (parser->code == 0 && ahead(parser, "else")) {
    pass(parser, "else");
    end_statement(parser);
    node->otherwise = parse_block(parser, last);
  }
  pass(parser, "endfor");
  end_statement(parser);
  return node;
}

static struct lls_node *parse_set(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_SET);
  if (node == NULL)
    return NULL;
  node->names = lls_parse_target(parser, true);
  if (lls_parser_accept_operator(parser, "=")) {
    node->left = lls_parse_tuple(parser);
    end_statement(parser);
    return node;
  }
  node->kind = LLS_NODE_SET_BLOCK;
  if (lls_parser_accept_operator(parser, "|"))
    node->left =
        lls_parse_filter_chain(parser, lls_parser_node(parser, LLS_NODE_SUBJECT));
  node->body = parse_body(parser, "endset");
  end_statement(parser);
  return node;
}

/* Parses "a, b=1)" to NAME nodes with defaults; the opening parenthesis is already
 * taken. */
static struct lls_node *parse_parameters(struct lls_parser *parser)
{
  struct lls_node *first = NULL, **tail = &first;
  while (parser->code == 0 && !lls_parser_is_operator(parser, ")")) {
    struct lls_node *name = lls_parser_node(parser, LLS_NODE_NAME);
    if (name == NULL || !lls_parser_name(parser, &name->value))
      return NULL;
    if (lls_parser_accept_operator(parser, "="))
      name->left = lls_parse_expression(parser);
    *tail = name;
    tail = &name->next;
    if (!lls_parser_accept_operator(parser, ","))
      break;
  }
  lls_parser_expect(parser, LLS_TOKEN_OPERATOR, ")");
  return first;
}

/* Parses the body of a macro, in which no loop is open; records the special variables
 * it reads. */
static void parse_macro_body(struct lls_parser *parser, struct lls_node *macro,
                             const char *end)
{
  unsigned loops = parser->loops;
  uint8_t specials = parser->specials;
  parser->loops = 0;
  parser->specials = 0;
  macro->body = parse_body(parser, end);
  macro->specials = parser->specials;
  parser->loops = loops;
  parser->specials |= specials;
}

static struct lls_node *parse_macro(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_MACRO);
  if (node == NULL || !lls_parser_name(parser, &node->value))
    return NULL;
  lls_parser_expect(parser, LLS_TOKEN_OPERATOR, "(");
  node->names = parse_parameters(parser);
  parse_macro_body(parser, node, "endmacro");
  lls_parser_accept(parser, LLS_TOKEN_NAME, NULL);
  end_statement(parser);
  return node;
}

/* {% call(a) macro(b) %}: the body becomes a macro, which the called macro receives as
 * "caller". */
static struct lls_node *parse_call_block(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_CALL_BLOCK);
  struct lls_node *caller = lls_parser_node(parser, LLS_NODE_MACRO);
  if (caller == NULL)
    return NULL;
  caller->value = lls_view("caller", 6);
  if (lls_parser_accept_operator(parser, "("))
    caller->names = parse_parameters(parser);
  node->left = lls_parse_callee(parser);
  if (parser->code == 0 && node->left->kind != LLS_NODE_CALL)
    return lls_parser_fail(parser, "expected a call");
  node->right = caller;
  parse_macro_body(parser, caller, "endcall");
  end_statement(parser);
  return node;
}

static struct lls_node *parse_filter_block(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_FILTERED);
  if (node == NULL)
    return NULL;
  node->left = lls_parse_filter_chain(parser, lls_parser_node(parser, LLS_NODE_SUBJECT));
  node->body = parse_body(parser, "endfilter");
  end_statement(parser);
  return node;
}

/* {% with a = 1, b = 2 %} */
static struct lls_node *parse_with(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_SCOPE);
  struct lls_node **tail = node != NULL ? &node->names : NULL;
  while (parser->code == 0 && !lls_parser_is(parser, LLS_TOKEN_STATEMENT_END, NULL)) {
    struct lls_node *set = lls_parser_node(parser, LLS_NODE_SET);
    struct lls_node *name = lls_parser_node(parser, LLS_NODE_NAME);
    if (name == NULL || !lls_parser_name(parser, &name->value))
      return NULL;
    lls_parser_expect(parser, LLS_TOKEN_OPERATOR, "=");
    set->names = name;
    set->left = lls_parse_expression(parser);
    *tail = set;
    tail = &set->next;
    if (!lls_parser_accept_operator(parser, ","))
      break;
  }
  if (node != NULL)
    node->body = parse_body(parser, "endwith");
  end_statement(parser);
  return node;
}

/* {% generation %} marks the answer for training; here it is an ordinary scope. */
static struct lls_node *parse_generation(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_SCOPE);
  if (node != NULL)
    node->body = parse_body(parser, "endgeneration");
  end_statement(parser);
  return node;
}

/* {% block name %}: no other template can replace it, so it is equivalent to its body. */
static struct lls_node *parse_named_block(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_SCOPE);
  lls_parser_expect(parser, LLS_TOKEN_NAME, NULL);
  lls_parser_accept_word(parser, "scoped");
  if (node != NULL) {
    node->flag = true;
    node->body = parse_body(parser, "endblock");
  }
  lls_parser_accept(parser, LLS_TOKEN_NAME, NULL);
  end_statement(parser);
  return node;
}

static struct lls_node *parse_do(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_DO);
  if (node != NULL)
    node->left = lls_parse_tuple(parser);
  end_statement(parser);
  return node;
}

/* Parses break and continue. */
static struct lls_node *parse_jump(struct lls_parser *parser, enum lls_node_kind kind)
{
  struct lls_node *node = lls_parser_node(parser, kind);
  if (parser->loops == 0)
    return lls_parser_fail(parser, "break or continue outside a for");
  end_statement(parser);
  return node;
}

static struct lls_node *parse_break(struct lls_parser *parser)
{
  return parse_jump(parser, LLS_NODE_BREAK);
}

static struct lls_node *parse_continue(struct lls_parser *parser)
{
  return parse_jump(parser, LLS_NODE_CONTINUE);
}

/* Parses a Jinja statement that needs other templates: it fails when it is executed. */
static struct lls_node *parse_unknown(struct lls_parser *parser)
{
  parser->word--;
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_UNKNOWN);
  if (node == NULL || !lls_parser_name(parser, &node->value))
    return NULL;
  lls_parser_note_unknown(parser, node->offset, "statement", node->value);
  while (!lls_parser_is(parser, LLS_TOKEN_STATEMENT_END, NULL) &&
         !lls_parser_is(parser, LLS_TOKEN_END, NULL))
    parser->word++;
  end_statement(parser);
  return node;
}

/* After "{%". */
static struct lls_node *parse_statement(struct lls_parser *parser)
{
  static const struct {
    const char *word;
    struct lls_node *(*parse)(struct lls_parser *parser);
  } statements[] = {
      {"if", parse_if},
      {"for", parse_for},
      {"set", parse_set},
      {"macro", parse_macro},
      {"call", parse_call_block},
      {"filter", parse_filter_block},
      {"with", parse_with},
      {"generation", parse_generation},
      {"do", parse_do},
      {"break", parse_break},
      {"continue", parse_continue},
      {"block", parse_named_block},
      {"include", parse_unknown},
      {"import", parse_unknown},
      {"from", parse_unknown},
      {"extends", parse_unknown},
  };
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
    if (lls_parser_accept_word(parser, statements[i].word))
      return statements[i].parse(parser);
  return lls_parser_fail(parser, "the statement \"%.*s\" is not supported here",
                         (int)parser->word->length,
                         parser->tree->source + parser->word->start);
}

static struct lls_node *parse_part(struct lls_parser *parser)
{
  if (lls_parser_accept(parser, LLS_TOKEN_STATEMENT, NULL))
    return parse_statement(parser);
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_PRINT);
  if (node == NULL)
    return NULL;
  if (lls_parser_is(parser, LLS_TOKEN_TEXT, NULL)) {
    node->kind = LLS_NODE_TEXT;
    node->value =
        lls_view(parser->tree->source + parser->word->start, parser->word->length);
    parser->word++;
    return node;
  }
  lls_parser_expect(parser, LLS_TOKEN_PRINT, NULL);
  node->left = lls_parse_tuple(parser);
  lls_parser_expect(parser, LLS_TOKEN_PRINT_END, NULL);
  return node;
}

static bool at_one_of(const struct lls_parser *parser, const char *const *ends)
{
  for (; *ends != NULL; ends++)
    if (ahead(parser, *ends))
      return true;
  return false;
}

/* Parses statements up to one of ends, which is not taken; up to the end of the source
 * if ends is NULL. */
static struct lls_node *parse_block(struct lls_parser *parser, const char *const *ends)
{
  struct lls_node *first = NULL, **tail = &first;
  if (!lls_parser_enter(parser))
    return NULL;
  while (parser->code == 0 && !lls_parser_is(parser, LLS_TOKEN_END, NULL) &&
         !at_one_of(parser, ends)) {
    *tail = parse_part(parser);
    if (*tail != NULL)
      tail = &(*tail)->next;
  }
  if (*ends != NULL && lls_parser_is(parser, LLS_TOKEN_END, NULL))
    lls_parser_fail(parser, "the template ends before \"%s\"", ends[0]);
  parser->depth--;
  return first;
}

int lls_parse(struct lls_tree *tree, struct lls_error *err)
{
  static const char *const ends[] = {NULL};
  struct lls_words words = {0};
  int code = lls_lex(tree->source, strlen(tree->source), &words, err);
  if (code == 0) {
    struct lls_parser parser = {.tree = tree, .word = words.words, .err = err};
    tree->root = parse_block(&parser, ends);
    code = parser.code;
  }
  free(words.words);
  return code;
}
