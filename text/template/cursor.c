/* SPDX-License-Identifier: Apache-2.0 */
/* Moving over the words of a template, and the parser's failures; see grammar.h. */
#include "text/template/grammar.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
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

bool lls_parser_is_operator(const struct lls_parser *parser, const char *text)
{
  return lls_parser_is(parser, LLS_TOKEN_OPERATOR, text);
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

void lls_parser_note_unknown(struct lls_parser *parser, size_t offset, const char *what,
                             struct lls_value name)
{
  char place[48];
  if (parser->tree->unknown.text[0] != '\0')
    return;
  lls_place(parser->tree->source, offset, place);
  lls_fail(&parser->tree->unknown, -ENOTSUP, "%s: the %s \"%.*s\" is not supported",
           place, what, (int)name.length, name.text);
}

bool lls_parser_enter(struct lls_parser *parser)
{
  if (++parser->depth > LLS_PARSE_DEPTH)
    lls_parser_fail(parser, "statements or expressions are nested too deeply");
  return parser->code == 0;
}

struct lls_node *lls_parser_node(struct lls_parser *parser, enum lls_node_kind kind)
{
  if (parser->code < 0)
    return NULL;
  struct lls_node *node = lls_tree_node(parser->tree, kind, parser->word->start);
  return node != NULL ? node : lls_parser_fail(parser, "no memory for the chat template");
}

static bool keep_name(struct lls_parser *parser, const char *start, size_t length,
                      struct lls_value *name)
{
  const char *text = lls_tree_text(parser->tree, start, length);
  if (text == NULL)
    lls_parser_fail(parser, "no memory for the chat template");
  else
    *name = lls_view(text, length);
  return text != NULL;
}

bool lls_parser_name(struct lls_parser *parser, struct lls_value *name)
{
  const struct lls_word *word = parser->word;
  return lls_parser_expect(parser, LLS_TOKEN_NAME, NULL) &&
         keep_name(parser, parser->tree->source + word->start, word->length, name);
}

bool lls_parser_dotted_name(struct lls_parser *parser, struct lls_value *name)
{
  const struct lls_word *first = parser->word, *last = first;
  if (!lls_parser_expect(parser, LLS_TOKEN_NAME, NULL))
    return false;
  while (lls_parser_accept_operator(parser, ".")) {
    last = parser->word;
    if (!lls_parser_expect(parser, LLS_TOKEN_NAME, NULL))
      return false;
  }
  return keep_name(parser, parser->tree->source + first->start,
                   last->start + last->length - first->start, name);
}
