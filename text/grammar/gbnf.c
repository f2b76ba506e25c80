/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recursive-descent parser for GBNF. White space, line breaks and comments are
 * equivalent: a sequence of symbols ends before the next rule's `name ::=`. For
 * grammars that both can read, this agrees with the line rules of llama.cpp and
 * XGrammar.
 */
#include "text/grammar/gbnf.h"

#include "text/grammar/ebnf.h"
#include "text/base/utf8.h"

#include <stdlib.h>
#include <string.h>

static void skip_space(struct lls_ebnf *g)
{
  for (; g->at < g->end && strchr(" \t\r\n#", *g->at) != NULL && *g->at != '\0'; g->at++)
    if (*g->at == '#')
      while (g->at + 1 < g->end && g->at[1] != '\n')
        g->at++;
}

/* Returns true if `name ::=` comes next. */
static bool at_rule(const struct lls_ebnf *g)
{
  struct lls_ebnf ahead = *g;
  const char *name;
  if (lls_ebnf_take_name(&ahead, &name) == 0)
    return false;
  skip_space(&ahead);
  return lls_ebnf_take(&ahead, "::=");
}

/* Reads a range of a set, or a single character. */
static bool take_range(struct lls_ebnf *g, struct lls_grammar_range *range)
{
  if (!lls_ebnf_take_character(g, &range->first))
    return false;
  range->last = range->first;
  if (g->end - g->at >= 2 && g->at[0] == '-' && g->at[1] != ']') {
    g->at++;
    if (!lls_ebnf_take_character(g, &range->last))
      return false;
  }
  if (range->last < range->first)
    lls_ebnf_fail(g, "a range whose first is more than its last");
  return !g->failed;
}

static uint32_t set(struct lls_ebnf *g)
{
  bool complement = lls_ebnf_take(g, "^"), whole = false;
  size_t n = 0;
  struct lls_grammar_range *ranges = malloc(lls_ebnf_span(g, ']') * sizeof *ranges);
  if (ranges == NULL)
    return lls_ebnf_fail(g, "no memory for it");
  while (g->at < g->end && !(whole = lls_ebnf_take(g, "]")) && take_range(g, &ranges[n]))
    n++;
  uint32_t node = LLS_GRAMMAR_NONE;
  if (whole)
    node = complement ? lls_grammar_class_but(g->tree, ranges, (uint32_t)n)
                      : lls_grammar_class(g->tree, ranges, (uint32_t)n);
  else
    lls_ebnf_fail(g, "a [ without its ]");
  free(ranges);
  return node;
}

/* ---- expressions ---- */

static uint32_t choice(struct lls_ebnf *g);

static uint32_t group(struct lls_ebnf *g)
{
  if (g->at < g->end && *g->at == '?')
    return lls_ebnf_fail(g, "(?= and the like are not supported");
  if (++g->depth > LLS_EBNF_DEPTH)
    return lls_ebnf_fail(g, "too many groups inside each other");
  uint32_t node = choice(g);
  g->depth--;
  if (!g->failed && !lls_ebnf_take(g, ")"))
    return lls_ebnf_fail(g, "a ( without its )");
  return node;
}

static uint32_t symbol(struct lls_ebnf *g)
{
  const char *name;
  size_t length;
  if (lls_ebnf_take(g, "\""))
    return lls_ebnf_literal(g, '"');
  if (lls_ebnf_take(g, "["))
    return set(g);
  if (lls_ebnf_take(g, "."))
    return lls_grammar_class_but(g->tree, NULL, 0);
  if (lls_ebnf_take(g, "("))
    return group(g);
  if ((length = lls_ebnf_take_name(g, &name)) > 0)
    return lls_ebnf_rule(g, name, length);
  if (*g->at == '<' || *g->at == '!')
    return lls_ebnf_fail(g, "symbols for tokens (<...>) are not supported");
  return lls_ebnf_fail(g, "neither a name, a \"literal\", a [set], a group nor a dot");
}

static uint32_t quantify(struct lls_ebnf *g, uint32_t node)
{
  while (!g->failed && g->at < g->end) {
    uint32_t min = *g->at == '+', max = *g->at == '?' ? 1 : LLS_GRAMMAR_UNBOUNDED;
    if (lls_ebnf_take(g, "{")) {
      if (!lls_ebnf_take_braces(g, &min, &max))
        return LLS_GRAMMAR_NONE;
    } else if (!lls_ebnf_take(g, "*") && !lls_ebnf_take(g, "+") && !lls_ebnf_take(g, "?"))
      return node;
    node = lls_grammar_repeat(g->tree, node, min, max);
  }
  return node;
}

static uint32_t row(struct lls_ebnf *g)
{
  struct lls_ebnf_list parts = {0};
  for (skip_space(g);
       !g->failed && g->at < g->end && *g->at != '|' && *g->at != ')' && !at_rule(g);
       skip_space(g)) {
    uint32_t part = symbol(g);
    skip_space(g);
    if (!lls_ebnf_append(g, &parts, quantify(g, part)))
      break;
  }
  uint32_t node =
      g->failed ? LLS_GRAMMAR_NONE : lls_grammar_sequence(g->tree, parts.nodes, parts.n);
  free(parts.nodes);
  return node;
}

static uint32_t choice(struct lls_ebnf *g)
{
  struct lls_ebnf_list parts = {0};
  do
    lls_ebnf_append(g, &parts, row(g));
  while (!g->failed && lls_ebnf_take(g, "|"));
  uint32_t node =
      g->failed ? LLS_GRAMMAR_NONE : lls_grammar_choice(g->tree, parts.nodes, parts.n);
  free(parts.nodes);
  return node;
}

/* ---- rules ---- */

static void rule(struct lls_ebnf *g)
{
  const char *name;
  if (!at_rule(g)) {
    lls_ebnf_fail(g, "a rule begins as name ::= ...");
    return;
  }
  size_t length = lls_ebnf_take_name(g, &name);
  uint32_t node = lls_ebnf_rule(g, name, length);
  skip_space(g);
  lls_ebnf_take(g, "::=");
  skip_space(g);
  uint32_t body = choice(g);
  if (!g->failed && g->at < g->end && *g->at == ')')
    lls_ebnf_fail(g, "a ) without its (");
  if (!g->failed)
    lls_grammar_define(g->tree, node, body);
}

static uint32_t rules(struct lls_ebnf *g)
{
  if (!lls_utf8_is_valid(g->text, (size_t)(g->end - g->text)))
    return lls_ebnf_fail(g, "its text is not UTF-8");
  for (skip_space(g); !g->failed && g->at < g->end; skip_space(g))
    rule(g);
  struct lls_ebnf_rule *root;
  HASH_FIND(hh, g->rules, "root", 4, root);
  if (root == NULL)
    return lls_ebnf_fail(g, "there is no rule called root, with which a text begins");
  return g->failed ? LLS_GRAMMAR_NONE : root->node;
}

uint32_t lls_grammar_gbnf(struct lls_grammar_tree *tree, const char *text, size_t n)
{
  struct lls_ebnf g = {.tree = tree, .text = text, .at = text, .end = text + n};
  uint32_t root = rules(&g);
  lls_ebnf_free(&g);
  return root;
}
