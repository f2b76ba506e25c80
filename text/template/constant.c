/* SPDX-License-Identifier: Apache-2.0 */
/* Literals: strings, numbers, true, false and none; see grammar.h. */
#include "text/template/literal.h"
#include "text/template/grammar.h"

static struct lls_node *literal(struct lls_parser *parser, struct lls_value value)
{
  struct lls_node *node = lls_parser_node(parser, LLS_NODE_LITERAL);
  if (node != NULL)
    node->value = value;
  return node;
}

/* Adjacent string literals are concatenated. */
static struct lls_node *parse_string(struct lls_parser *parser)
{
  struct lls_node *node = literal(parser, lls_undefined());
  struct lls_bytes text = {0};
  while (node != NULL && lls_parser_is(parser, LLS_TOKEN_STRING, NULL)) {
    if (!lls_literal_string(parser->tree->source + parser->word->start,
                            parser->word->length, &text)) {
      lls_parser_fail(parser, "this string has an escape that is not valid");
      break;
    }
    parser->word++;
  }
  const char *kept = lls_tree_text(parser->tree, text.data, text.length);
  if (kept == NULL)
    lls_parser_fail(parser, "no memory for the chat template");
  else if (node != NULL)
    node->value = lls_view(kept, text.length);
  lls_bytes_free(&text);
  return node;
}

static struct lls_node *parse_number(struct lls_parser *parser)
{
  const struct lls_word *word = parser->word;
  struct lls_node *node = literal(parser, lls_undefined());
  if (node != NULL &&
      !lls_literal_number(parser->tree->source + word->start, word->length,
                          word->kind == LLS_TOKEN_FLOAT, &node->value))
    return lls_parser_fail(parser, "this number is too large, or none");
  parser->word++;
  return node;
}

struct lls_node *lls_parse_constant(struct lls_parser *parser)
{
  static const struct {
    const char *word;
    struct lls_value value;
  } constants[] = {
      {"true", {.kind = LLS_BOOLEAN, .boolean = true}},
      {"True", {.kind = LLS_BOOLEAN, .boolean = true}},
      {"false", {.kind = LLS_BOOLEAN}},
      {"False", {.kind = LLS_BOOLEAN}},
      {"none", {.kind = LLS_NONE}},
      {"None", {.kind = LLS_NONE}},
  };
  if (lls_parser_is(parser, LLS_TOKEN_STRING, NULL))
    return parse_string(parser);
  if (lls_parser_is(parser, LLS_TOKEN_INTEGER, NULL) ||
      lls_parser_is(parser, LLS_TOKEN_FLOAT, NULL))
    return parse_number(parser);
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    if (lls_parser_accept_word(parser, constants[i].word))
      return literal(parser, constants[i].value);
  return NULL;
}
