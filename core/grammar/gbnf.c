/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of GBNF, by recursive descent. White space, ends of lines and comments are
 * alike: a row of symbols ends where another rule's `name ::=` begins, which is what
 * llama.cpp's and XGrammar's rules about lines come to in grammars that both can read.
 */
#include "core/grammar/gbnf.h"

#include "core/tokenizer/utf8.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct rule {
  UT_hash_handle hh;
  uint32_t node;
  char name[];
};

struct list {
  uint32_t *nodes; /* (n) */
  uint32_t n, capacity;
};

struct gbnf {
  struct lls_grammar_tree *tree;
  const char *text, *at, *end;
  struct rule *rules; /* by name */
  unsigned depth;
  bool failed;
};

static uint32_t fail(struct gbnf *g, const char *what)
{
  unsigned line = 1;
  for (const char *at = g->text; at < g->at; at++)
    line += *at == '\n';
  if (!g->failed)
    lls_grammar_fail(g->tree, "the grammar, line %u: %s", line, what);
  g->failed = true;
  return LLS_GRAMMAR_NONE;
}

static bool append(struct gbnf *g, struct list *list, uint32_t node)
{
  if (list->n == list->capacity) {
    uint32_t capacity = list->capacity == 0 ? 16 : list->capacity * 2;
    uint32_t *grown = realloc(list->nodes, capacity * sizeof *grown);
    if (grown == NULL) {
      fail(g, "no memory for it");
      return false;
    }
    list->nodes = grown;
    list->capacity = capacity;
  }
  list->nodes[list->n++] = node;
  return true;
}

/* ---- words ---- */

static void skip_space(struct gbnf *g)
{
  for (; g->at < g->end && strchr(" \t\r\n#", *g->at) != NULL && *g->at != '\0'; g->at++)
    if (*g->at == '#')
      while (g->at + 1 < g->end && g->at[1] != '\n')
        g->at++;
}

static bool take(struct gbnf *g, const char *word)
{
  size_t length = strlen(word);
  if ((size_t)(g->end - g->at) < length || memcmp(g->at, word, length) != 0)
    return false;
  g->at += length;
  return true;
}

static bool is_name_byte(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         c == '_' || c == '-';
}

static size_t take_name(struct gbnf *g, const char **name)
{
  *name = g->at;
  while (g->at < g->end && is_name_byte(*g->at))
    g->at++;
  return (size_t)(g->at - *name);
}

/* True if `name ::=` comes next. */
static bool at_rule(const struct gbnf *g)
{
  struct gbnf ahead = *g;
  const char *name;
  if (take_name(&ahead, &name) == 0)
    return false;
  skip_space(&ahead);
  return take(&ahead, "::=");
}

static uint32_t rule_named(struct gbnf *g, const char *name, size_t length)
{
  struct rule *rule;
  HASH_FIND(hh, g->rules, name, length, rule);
  if (rule != NULL)
    return rule->node;
  rule = malloc(sizeof *rule + length + 1);
  if (rule == NULL)
    return fail(g, "no memory for it");
  memcpy(rule->name, name, length);
  rule->name[length] = '\0';
  rule->node = lls_grammar_rule(g->tree, rule->name);
  HASH_ADD_KEYPTR(hh, g->rules, rule->name, length, rule);
  return rule->node;
}

/* ---- characters ---- */

static bool take_hex(struct gbnf *g, unsigned digits, uint32_t *point)
{
  static const char hex[] = "0123456789abcdefABCDEF";
  for (*point = 0; digits > 0 && g->at < g->end; digits--, g->at++) {
    const char *digit = memchr(hex, *g->at, sizeof hex - 1);
    if (digit == NULL)
      return false;
    uint32_t worth = (uint32_t)(digit - hex);
    *point = *point * 16 + (worth < 16 ? worth : worth - 6);
  }
  return digits == 0 && *point <= 0x10FFFF && (*point < 0xD800 || *point > 0xDFFF);
}

static bool take_escape(struct gbnf *g, uint32_t *point)
{
  static const char letters[] = "tnr0vfb", values[] = "\t\n\r\0\v\f\b";
  if (g->at == g->end)
    return false;
  char letter = *g->at;
  const char *known = memchr(letters, letter, sizeof letters - 1);
  if (known != NULL)
    *point = (uint32_t)values[known - letters];
  else if (strchr("\\\"'[]^-/", letter) != NULL && letter != '\0')
    *point = (uint32_t)letter;
  g->at++;
  if (letter == 'x' || letter == 'u' || letter == 'U')
    return take_hex(g, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, point);
  return known != NULL || strchr("\\\"'[]^-/", letter) != NULL;
}

static bool take_character(struct gbnf *g, uint32_t *point)
{
  if (take(g, "\\")) {
    if (take_escape(g, point))
      return true;
    fail(
        g,
        "an escape that is none of \\n \\r \\t \\v \\f \\b \\0 \\\\ \\\" \\[ \\] \\^ \\- "
        "\\xHH \\uHHHH \\UHHHHHHHH");
    return false;
  }
  *point = (uint32_t)lls_utf8_char(g->at);
  g->at += lls_utf8_length(g->at);
  return true;
}

static size_t encode(uint32_t point, char *out)
{
  if (point < 0x80) {
    out[0] = (char)point;
    return 1;
  }
  size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = length - 1; i > 0; i--, point >>= 6)
    out[i] = (char)(0x80 | (point & 0x3F));
  out[0] = (char)(leads[length] | point);
  return length;
}

/* The most characters that there can be before `close`. */
static size_t span(const struct gbnf *g, char close)
{
  const char *at = g->at;
  for (; at < g->end && *at != close; at++)
    at += *at == '\\';
  return (size_t)((at < g->end ? at : g->end) - g->at) + 1;
}

static uint32_t literal(struct gbnf *g)
{
  const char *open = g->at;
  uint32_t point;
  size_t n = 0;
  char *bytes = malloc(span(g, '"') * 4);
  if (bytes == NULL)
    return fail(g, "no memory for it");
  bool whole = false;
  while (g->at < g->end && !(whole = take(g, "\"")) && take_character(g, &point))
    n += encode(point, bytes + n);
  uint32_t node = whole ? lls_grammar_literal(g->tree, bytes, n) : LLS_GRAMMAR_NONE;
  free(bytes);
  if (!whole && !g->failed) {
    g->at = open;
    return fail(g, "a \" without the \" that ends it");
  }
  return node;
}

/* A range of a set, or one character of it. */
static bool take_range(struct gbnf *g, struct lls_grammar_range *range)
{
  if (!take_character(g, &range->first))
    return false;
  range->last = range->first;
  if (g->end - g->at >= 2 && g->at[0] == '-' && g->at[1] != ']') {
    g->at++;
    if (!take_character(g, &range->last))
      return false;
  }
  if (range->last < range->first)
    fail(g, "a range whose first is more than its last");
  return !g->failed;
}

static uint32_t set(struct gbnf *g)
{
  bool complement = take(g, "^"), whole = false;
  size_t n = 0;
  struct lls_grammar_range *ranges = malloc(span(g, ']') * sizeof *ranges);
  if (ranges == NULL)
    return fail(g, "no memory for it");
  while (g->at < g->end && !(whole = take(g, "]")) && take_range(g, &ranges[n]))
    n++;
  uint32_t node = LLS_GRAMMAR_NONE;
  if (whole)
    node = complement ? lls_grammar_class_but(g->tree, ranges, (uint32_t)n)
                      : lls_grammar_class(g->tree, ranges, (uint32_t)n);
  else
    fail(g, "a [ without its ]");
  free(ranges);
  return node;
}

/* ---- symbols ---- */

static uint32_t choice(struct gbnf *g);

static uint32_t group(struct gbnf *g)
{
  if (g->at < g->end && *g->at == '?')
    return fail(g, "(?= and the like are not supported");
  if (++g->depth > LLS_GBNF_DEPTH)
    return fail(g, "too many groups inside each other");
  uint32_t node = choice(g);
  g->depth--;
  if (!g->failed && !take(g, ")"))
    return fail(g, "a ( without its )");
  return node;
}

static uint32_t symbol(struct gbnf *g)
{
  const char *name;
  size_t length;
  if (take(g, "\""))
    return literal(g);
  if (take(g, "["))
    return set(g);
  if (take(g, "."))
    return lls_grammar_class_but(g->tree, NULL, 0);
  if (take(g, "("))
    return group(g);
  if ((length = take_name(g, &name)) > 0)
    return rule_named(g, name, length);
  if (*g->at == '<' || *g->at == '!')
    return fail(g, "symbols for tokens (<...>) are not supported");
  return fail(g, "neither a name, a \"literal\", a [set], a group nor a dot");
}

static bool take_count(struct gbnf *g, uint32_t *count)
{
  const char *from = g->at;
  for (*count = 0; g->at < g->end && *g->at >= '0' && *g->at <= '9'; g->at++)
    if (*count <= LLS_GBNF_REPEATS)
      *count = *count * 10 + (uint32_t)(*g->at - '0');
  skip_space(g);
  return g->at > from;
}

/* Reads what follows a {: min and max, and the }. */
static bool take_braces(struct gbnf *g, uint32_t *min, uint32_t *max)
{
  skip_space(g);
  bool has_min = take_count(g, min), has_comma = take(g, ",");
  skip_space(g);
  bool has_max = has_comma && take_count(g, max);
  if (!has_max)
    *max = has_comma ? LLS_GRAMMAR_UNBOUNDED : *min;
  if (!take(g, "}") || !(has_min || has_max))
    fail(g, "a repetition that is none of {m}, {m,}, {m,n}");
  else if (*min > LLS_GBNF_REPEATS ||
           (*max != LLS_GRAMMAR_UNBOUNDED && *max > LLS_GBNF_REPEATS))
    fail(g, "more than 65536 repetitions");
  else if (*min > *max)
    fail(g, "a repetition whose least is more than its most");
  return !g->failed;
}

static uint32_t quantify(struct gbnf *g, uint32_t node)
{
  while (!g->failed && g->at < g->end) {
    uint32_t min = *g->at == '+', max = *g->at == '?' ? 1 : LLS_GRAMMAR_UNBOUNDED;
    if (take(g, "{")) {
      if (!take_braces(g, &min, &max))
        return LLS_GRAMMAR_NONE;
    } else if (!take(g, "*") && !take(g, "+") && !take(g, "?"))
      return node;
    node = lls_grammar_repeat(g->tree, node, min, max);
  }
  return node;
}

static uint32_t row(struct gbnf *g)
{
  struct list parts = {0};
  for (skip_space(g);
       !g->failed && g->at < g->end && *g->at != '|' && *g->at != ')' && !at_rule(g);
       skip_space(g)) {
    uint32_t part = symbol(g);
    skip_space(g);
    if (!append(g, &parts, quantify(g, part)))
      break;
  }
  uint32_t node =
      g->failed ? LLS_GRAMMAR_NONE : lls_grammar_sequence(g->tree, parts.nodes, parts.n);
  free(parts.nodes);
  return node;
}

static uint32_t choice(struct gbnf *g)
{
  struct list parts = {0};
  do
    append(g, &parts, row(g));
  while (!g->failed && take(g, "|"));
  uint32_t node =
      g->failed ? LLS_GRAMMAR_NONE : lls_grammar_choice(g->tree, parts.nodes, parts.n);
  free(parts.nodes);
  return node;
}

/* ---- rules ---- */

/* Lark writes `name: ...`, `?name: ...` and `%import`. */
static bool is_lark(const struct gbnf *g)
{
  struct gbnf ahead = *g;
  const char *name;
  if (take(&ahead, "%"))
    return true;
  take(&ahead, "?");
  take_name(&ahead, &name);
  skip_space(&ahead);
  return take(&ahead, ":") && !take(&ahead, ":=");
}

static void rule(struct gbnf *g)
{
  const char *name;
  if (is_lark(g)) {
    fail(g, "Lark's grammars are not supported; write the rules as GBNF, name ::= ...");
    return;
  }
  if (!at_rule(g)) {
    fail(g, "a rule begins as name ::= ...");
    return;
  }
  size_t length = take_name(g, &name);
  uint32_t node = rule_named(g, name, length);
  skip_space(g);
  take(g, "::=");
  skip_space(g);
  uint32_t body = choice(g);
  if (!g->failed && g->at < g->end && *g->at == ')')
    fail(g, "a ) without its (");
  if (!g->failed)
    lls_grammar_define(g->tree, node, body);
}

static uint32_t rules(struct gbnf *g)
{
  if (!lls_utf8_is_valid(g->text, (size_t)(g->end - g->text)))
    return fail(g, "its text is not UTF-8");
  for (skip_space(g); !g->failed && g->at < g->end; skip_space(g))
    rule(g);
  struct rule *root;
  HASH_FIND(hh, g->rules, "root", 4, root);
  if (root == NULL)
    return fail(g, "there is no rule called root, with which a text begins");
  return g->failed ? LLS_GRAMMAR_NONE : root->node;
}

uint32_t lls_grammar_gbnf(struct lls_grammar_tree *tree, const char *text, size_t n)
{
  struct gbnf g = {.tree = tree, .text = text, .at = text, .end = text + n};
  uint32_t root = rules(&g);
  struct rule *rule, *next;
  HASH_ITER(hh, g.rules, rule, next)
  {
    HASH_DEL(g.rules, rule);
    free(rule);
  }
  return root;
}
