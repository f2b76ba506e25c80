/* SPDX-License-Identifier: Apache-2.0 */
/* Statements, and the helpers that expressions share. */
#include "core/template/parser.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool lls_parser_is(const struct lls_parser *parser, enum lls_token_kind kind,
                   const char *text)
{
  const struct lls_word *word = parser->word;
  return word->kind == kind &&
         (text == NULL ||
          (strlen(text) == word->length &&
           memcmp(parser->tree->source + word->start, text, word->length) == 0));
}

bool lls_parser_accept(struct lls_parser *parser, enum lls_token_kind kind,
                       const char *text)
{
  if (parser->code < 0 || !lls_parser_is(parser, kind, text))
    return false;
  parser->word++;
  return true;
}

bool lls_parser_accept_operator(struct lls_parser *parser, const char *text)
{
  return lls_parser_accept(parser, LLS_TOKEN_OPERATOR, text);
}

bool lls_parser_accept_word(struct lls_parser *parser, const char *text)
{
  return lls_parser_accept(parser, LLS_TOKEN_NAME, text);
}

bool lls_parser_expect(struct lls_parser *parser, enum lls_token_kind kind,
                       const char *text)
{
  if (lls_parser_accept(parser, kind, text))
    return true;
  if (text == NULL)
    text = kind == LLS_TOKEN_PRINT_END       ? "}}"
           : kind == LLS_TOKEN_STATEMENT_END ? "%}"
                                             : "name";
  lls_parser_fail(parser, "expected \"%s\" instead of \"%.*s\"", text,
                  (int)parser->word->length, parser->tree->source + parser->word->start);
  return false;
}

void *lls_parser_fail(struct lls_parser *parser, const char *format, ...)
{
  if (parser->code < 0)
    return NULL;
  char place[48], what[256];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  lls_place(parser->tree->source, parser->word->start, place);
  parser->code = lls_fail(parser->err, -ENOTSUP, "%s: %s", place, what);
  return NULL;
}

struct lls_node *lls_parser_node(struct lls_parser *parser, enum lls_node_kind kind)
{
  if (parser->code < 0)
    return NULL;
  struct lls_node *node = lls_tree_node(parser->tree, kind, parser->word->start);
  return node != NULL ? node : lls_parser_fail(parser, "no memory for the chat template");
}

bool lls_parser_enter(struct lls_parser *parser)
{
  if (++parser->depth > LLS_PARSE_DEPTH)
    lls_parser_fail(parser, "statements or expressions are nested too deeply");
  return parser->code == 0;
}

const char *lls_parser_name(struct lls_parser *parser)
{
  const struct lls_word *word = parser->word;
  if (!lls_parser_expect(parser, LLS_TOKEN_NAME, NULL))
    return NULL;
  const char *name =
      lls_tree_name(parser->tree, parser->tree->source + word->start, word->length);
  return name != NULL ? name : lls_parser_fail(parser, "no memory for the chat template");
}

static struct lls_node *parse_block(struct lls_parser *parser, const char *const *ends);

/* True where the words ahead are "{% name". */
static bool ahead(const struct lls_parser *parser, const char *name)
{
  struct lls_parser next = *parser;
  return lls_parser_accept(&next, LLS_TOKEN_STATEMENT, NULL) &&
         lls_parser_is(&next, LLS_TOKEN_NAME, name);
}

/* Passes "{% name". */
static bool pass(struct lls_parser *parser, const char *name)
{
  return lls_parser_expect(parser, LLS_TOKEN_STATEMENT, NULL) &&
         lls_parser_expect(parser, LLS_TOKEN_NAME, name);
}

static void end_statement(struct lls_parser *parser)
{
  lls_parser_expect(parser, LLS_TOKEN_STATEMENT_END, NULL);
}

/* After "if" or "elif". */
static struct lls_node *parse_if(struct lls_parser *parser)
{
  static const char *const ends[] = {"elif", "else", "endif", NULL};
  static const char *const last[] = {"endif", NULL};
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_IF);
  if (node == NULL || !lls_parser_enter(parser))
    return NULL;
  node->left = lls_parse_expression(parser);
  end_statement(parser);
  node->body = parse_block(parser, ends);
  if (parser->code == 0 && ahead(parser, "elif")) {
    pass(parser, "elif");
    node->otherwise = parse_if(parser);
    parser->depth--;
    return node;
  }
  if (parser->code == 0 && ahead(parser, "else")) {
    pass(parser, "else");
    end_statement(parser);
    node->otherwise = parse_block(parser, last);
  }
  pass(parser, "endif");
  end_statement(parser);
  parser->depth--;
  return node;
}

static struct lls_node *parse_names(struct lls_parser *parser)
{
  struct lls_node *first = NULL, **tail = &first;
  do {
    struct lls_node *name = lls_parser_node(parser, LLS_NODE_NAME);
    if (name == NULL)
      return NULL;
    name->name = lls_parser_name(parser);
    *tail = name;
    tail = &name->next;
  } while (lls_parser_accept_operator(parser, ","));
  return first;
}

static struct lls_node *parse_for(struct lls_parser *parser)
{
  static const char *const ends[] = {"else", "endfor", NULL};
  static const char *const last[] = {"endfor", NULL};
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_FOR);
  if (node == NULL)
    return NULL;
  bool bracket = lls_parser_accept_operator(parser, "(");
  node->names = parse_names(parser);
  if (bracket)
    lls_parser_expect(parser, LLS_TOKEN_OPERATOR, ")");
  lls_parser_expect(parser, LLS_TOKEN_NAME, "in");
  node->left = lls_parse_simple_expression(parser);
  if (lls_parser_accept_word(parser, "if"))
    node->right = lls_parse_expression(parser);
  if (parser->code == 0 && lls_parser_is(parser, LLS_TOKEN_NAME, "recursive"))
    return lls_parser_fail(parser, "a recursive for is not supported");
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
  static const char *const ends[] = {"endset", NULL};
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_SET);
  if (node == NULL)
    return NULL;
  node->name = lls_parser_name(parser);
  if (lls_parser_accept_operator(parser, "."))
    node->member = lls_parser_name(parser);
  if (lls_parser_accept_operator(parser, "=")) {
    node->left = lls_parse_tuple(parser);
    end_statement(parser);
    return node;
  }
  if (node->member != NULL || !lls_parser_is(parser, LLS_TOKEN_STATEMENT_END, NULL))
    return lls_parser_fail(parser, "this form of set is not supported");
  node->kind = LLS_NODE_SET_BLOCK;
  end_statement(parser);
  node->body = parse_block(parser, ends);
  pass(parser, "endset");
  end_statement(parser);
  return node;
}

/* {% generation %}: marks the answer for training; here a group of statements. */
static struct lls_node *parse_generation(struct lls_parser *parser)
{
  static const char *const ends[] = {"endgeneration", NULL};
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_GROUP);
  end_statement(parser);
  if (node != NULL)
    node->body = parse_block(parser, ends);
  pass(parser, "endgeneration");
  end_statement(parser);
  return node;
}

/* break and continue */
static struct lls_node *parse_jump(struct lls_parser *parser, enum lls_node_kind kind)
{
  struct lls_node *node = lls_parser_node(parser, kind);
  if (parser->loops == 0)
    return lls_parser_fail(parser, "break or continue outside a for");
  end_statement(parser);
  return node;
}

/* After "{%". */
static struct lls_node *parse_statement(struct lls_parser *parser)
{
  if (lls_parser_accept_word(parser, "if"))
    return parse_if(parser);
  if (lls_parser_accept_word(parser, "for"))
    return parse_for(parser);
  if (lls_parser_accept_word(parser, "set"))
    return parse_set(parser);
  if (lls_parser_accept_word(parser, "generation"))
    return parse_generation(parser);
  if (lls_parser_accept_word(parser, "break"))
    return parse_jump(parser, LLS_NODE_BREAK);
  if (lls_parser_accept_word(parser, "continue"))
    return parse_jump(parser, LLS_NODE_CONTINUE);
  return lls_parser_fail(parser, "the statement \"%.*s\" is not supported here",
                         (int)parser->word->length,
                         parser->tree->source + parser->word->start);
}

static struct lls_node *parse_text(struct lls_parser *parser)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_TEXT);
  if (node == NULL)
    return NULL;
  node->value =
      json_stringn(parser->tree->source + parser->word->start, parser->word->length);
  if (node->value == NULL)
    return lls_parser_fail(parser, "this text is not valid UTF-8");
  parser->word++;
  return node;
}

static struct lls_node *parse_part(struct lls_parser *parser)
{
  if (lls_parser_is(parser, LLS_TOKEN_TEXT, NULL))
    return parse_text(parser);
  if (lls_parser_accept(parser, LLS_TOKEN_STATEMENT, NULL))
    return parse_statement(parser);
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_PRINT);
  lls_parser_expect(parser, LLS_TOKEN_PRINT, NULL);
  if (node != NULL)
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

/* Statements up to one of ends, which is not passed; to the end of the source
 * for none. */
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
