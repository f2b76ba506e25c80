/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recursive-descent parser for Lark's grammars. A definition ends where the next
 * definition or directive begins at the start of a line; lark.h lists the supported
 * syntax.
 */
#include "text/grammar/lark.h"

#include "core/base/json_parse.h"
#include "text/grammar/ebnf.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/grammar_marks.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/lark_common.h"
#include "text/grammar/regex.h"
#include "text/grammar/vocabulary.h"
#include "text/base/utf8.h"

#include <stdlib.h>
#include <string.h>

struct lark {
  struct lls_ebnf text;
  uint32_t skipped;             /* a rule: the text that %ignore allows between
                                 * terminals */
  struct lls_ebnf_list ignored; /* the alternatives of `skipped` */
  bool in_terminal; /* the parser is in a terminal: nothing is ignored, and no rule may be
                       named */
};

static uint32_t fail(struct lark *l, const char *what)
{
  return lls_ebnf_fail(&l->text, what);
}

static bool take(struct lark *l, const char *word)
{
  return lls_ebnf_take(&l->text, word);
}

/* ---- lines ---- */

static void skip_space(struct lls_ebnf *g)
{
  for (; g->at < g->end; g->at++) {
    bool comment = *g->at == '#' || (g->end - g->at > 1 && memcmp(g->at, "//", 2) == 0);
    if (!comment && (*g->at == '\0' || strchr(" \t\r\n", *g->at) == NULL))
      return;
    while (comment && g->at + 1 < g->end && g->at[1] != '\n')
      g->at++;
  }
}

static bool at_directive(const struct lls_ebnf *g)
{
  static const char *const names[] = {"%import",         "%ignore", "%declare",
                                      "%override",       "%extend", "%llguidance",
                                      "%grammar_options"};
  struct lls_ebnf ahead = *g;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (lls_ebnf_take(&ahead, names[i]))
      return true;
  return false;
}

/* Returns true if a definition comes next: `name:`, with the marks allowed around the
 * name. */
static bool at_definition(const struct lls_ebnf *g)
{
  struct lls_ebnf ahead = *g;
  const char *name;
  while (lls_ebnf_take(&ahead, "?") || lls_ebnf_take(&ahead, "!"))
    ;
  if (lls_ebnf_take_name(&ahead, &name) == 0)
    return false;
  if (lls_ebnf_take(&ahead, ".") || lls_ebnf_take(&ahead, "{") ||
      lls_ebnf_take(&ahead, "["))
    while (ahead.at < ahead.end && *ahead.at != '\n' && *ahead.at != ':')
      ahead.at++;
  while (lls_ebnf_take(&ahead, " ") || lls_ebnf_take(&ahead, "\t"))
    ;
  return lls_ebnf_take(&ahead, ":") && !lls_ebnf_take(&ahead, ":=");
}

static bool at_line_start(const struct lls_ebnf *g)
{
  const char *at = g->at;
  while (at > g->text && (at[-1] == ' ' || at[-1] == '\t'))
    at--;
  return at == g->text || at[-1] == '\n';
}

static bool at_next(const struct lls_ebnf *g)
{
  return at_line_start(g) && (at_definition(g) || at_directive(g));
}

/* Returns true if the text begins, after comments, with a rule or directive in Lark's
 * syntax. */
static bool is_likely(const char *text, size_t n)
{
  struct lls_ebnf g = {.text = text, .at = text, .end = text + n};
  skip_space(&g);
  return at_definition(&g) || at_directive(&g);
}

static bool is_terminal(const char *name, size_t length)
{
  while (length > 0 && *name == '_') {
    name++;
    length--;
  }
  return length > 0 && *name >= 'A' && *name <= 'Z';
}

/* ---- terminals ---- */

/* Inside a rule, appends the ignored text that may follow a terminal. */
static uint32_t lexeme(struct lark *l, uint32_t node)
{
  const uint32_t parts[] = {node, l->skipped};
  return l->in_terminal || l->text.failed ? node
                                          : lls_grammar_sequence(l->text.tree, parts, 2);
}

/* A literal in upper and lower case. */
static uint32_t any_case(struct lark *l, uint32_t literal)
{
  struct lls_grammar_node n = lls_grammar_node_at(l->text.tree, literal);
  struct lls_ebnf_list parts = {0};
  char *bytes = malloc(n.n + 1);
  if (bytes == NULL)
    return fail(l, "no memory for it");
  memcpy(bytes, n.bytes, n.n); /* adding nodes moves the tree's arrays */
  for (uint32_t i = 0; i < n.n; i++) {
    unsigned char c = (unsigned char)bytes[i];
    unsigned char small = c | 0x20, letter = small >= 'a' && small <= 'z';
    const struct lls_grammar_range both[] = {{c & 0xDFu, c & 0xDFu}, {small, small}};
    if (c >= 0x80)
      fail(l, "a literal with i that has other characters than ASCII's");
    lls_ebnf_append(&l->text, &parts,
                    letter && c < 0x80 ? lls_grammar_class(l->text.tree, both, 2)
                                       : lls_grammar_literal(l->text.tree, bytes + i, 1));
  }
  uint32_t node = lls_grammar_sequence(l->text.tree, parts.nodes, parts.n);
  free(parts.nodes);
  free(bytes);
  return l->text.failed ? LLS_GRAMMAR_NONE : node;
}

/* Sets *point if the literal is one character. */
static bool one_character(struct lark *l, uint32_t literal, uint32_t *point)
{
  if (l->text.failed || literal == LLS_GRAMMAR_NONE)
    return false;
  struct lls_grammar_node n = lls_grammar_node_at(l->text.tree, literal);
  if (n.n == 0 || lls_utf8_length(n.bytes) != n.n)
    return false;
  *point = (uint32_t)lls_utf8_char(n.bytes);
  return true;
}

static uint32_t literal(struct lark *l, char quote)
{
  uint32_t node = lls_ebnf_literal(&l->text, quote);
  struct lls_grammar_range range;
  if (node == LLS_GRAMMAR_NONE)
    return node;
  if (take(l, "..")) {
    if (take(l, "\"") && one_character(l, node, &range.first) &&
        one_character(l, lls_ebnf_literal(&l->text, '"'), &range.last) &&
        range.first <= range.last)
      return lls_grammar_class(l->text.tree, &range, 1);
    return fail(l, "a range that is not from one character to a later one");
  }
  return take(l, "i") ? any_case(l, node) : node;
}

static uint32_t expression(struct lark *l)
{
  struct lls_ebnf *g = &l->text;
  const char *from = g->at;
  struct lls_error err = {0};
  int code;
  while (g->at < g->end && *g->at != '/' && *g->at != '\n')
    g->at += *g->at == '\\' && g->end - g->at > 1 ? 2 : 1;
  size_t n = (size_t)(g->at - from);
  if (!take(l, "/"))
    return fail(l, "a / without the / that ends it");
  if (g->at < g->end && *g->at != '\0' && strchr("imslux", *g->at) != NULL)
    return fail(l, "flags of regular expressions are not supported");
  uint32_t node = lls_grammar_regex(g->tree, from, n,
                                    (struct lls_regex_use){.within = true}, &code, &err);
  return node != LLS_GRAMMAR_NONE ? node : fail(l, err.text);
}

/* Reads <name>, a special token that the vocabulary must have. */
static uint32_t special(struct lark *l)
{
  struct lls_ebnf *g = &l->text;
  const struct lls_vocabulary *v = lls_grammar_tree_vocabulary(g->tree);
  const char *from = g->at, *close = memchr(from, '>', (size_t)(g->end - from));
  if (l->in_terminal)
    return fail(l, "a special token in a terminal; only rules have them");
  if (from + 1 < g->end && from[1] == '[')
    return fail(l, "tokens by their numbers (<[...]>) are not supported");
  size_t n = close == NULL ? 0 : (size_t)(close + 1 - from);
  const struct lls_special_token *s =
      v == NULL || n == 0 ? NULL : lls_vocabulary_special(v, from, n);
  if (s == NULL || s->n != n)
    return fail(l, "a <token> that is no special token of the model");
  g->at += n;
  return lls_grammar_marks(g->tree, from, n);
}

static uint32_t schema(struct lark *l)
{
  struct lls_ebnf *g = &l->text;
  json_error_t where = {0};
  if (l->in_terminal)
    return fail(l, "%json in a terminal; only rules have it");
  skip_space(g);
  json_t *value =
      lls_json_parse(g->at, (size_t)(g->end - g->at), JSON_DISABLE_EOF_CHECK, &where);
  if (value == NULL)
    return fail(l, "%json without a JSON Schema after it");
  g->at += where.position;
  uint32_t node = lls_grammar_json_schema(g->tree, value, true);
  json_decref(value);
  g->failed |= node == LLS_GRAMMAR_NONE;
  return node;
}

/* ---- expressions ---- */

static uint32_t choice(struct lark *l);

static uint32_t group(struct lark *l, const char *close)
{
  struct lls_ebnf *g = &l->text;
  if (++g->depth > LLS_EBNF_DEPTH)
    return fail(l, "too many groups inside each other");
  uint32_t node = choice(l);
  g->depth--;
  if (!g->failed && !take(l, close))
    return fail(l, *close == ')' ? "a ( without its )" : "a [ without its ]");
  return *close == ']' && !g->failed ? lls_grammar_repeat(g->tree, node, 0, 1) : node;
}

static uint32_t named(struct lark *l)
{
  const char *name;
  size_t length = lls_ebnf_take_name(&l->text, &name);
  if (length == 0)
    return fail(l, "neither a name, a \"literal\", a /regular expression/ nor a group");
  if (l->text.at < l->text.end && *l->text.at == '{' &&
      !(l->text.end - l->text.at > 1 && strchr("0123456789, ", l->text.at[1]) != NULL))
    return fail(l, "templates are not supported");
  uint32_t node = lls_ebnf_rule(&l->text, name, length);
  if (is_terminal(name, length))
    return lexeme(l, node);
  return l->in_terminal ? fail(l, "a terminal that names a rule") : node;
}

static uint32_t symbol(struct lark *l)
{
  static const struct {
    const char *word, *says;
  } refused[] = {
      {"%regex", "%regex is not supported"},
      {"%lark", "%lark is not supported"},
      {"@", "other grammars (@name) are not supported"},
      {"~", "~ before a terminal (all but it) is not supported"},
      {"&", "& between terminals is not supported"},
  };
  struct lls_ebnf *g = &l->text;
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
    if (take(l, refused[i].word))
      return fail(l, refused[i].says);
  if (take(l, "\""))
    return lexeme(l, literal(l, '"'));
  if (take(l, "'"))
    return lexeme(l, literal(l, '\''));
  if (take(l, "/"))
    return lexeme(l, expression(l));
  if (take(l, "("))
    return group(l, ")");
  if (take(l, "["))
    return group(l, "]");
  if (take(l, "%json"))
    return lexeme(l, schema(l));
  return *g->at == '<' ? lexeme(l, special(l)) : named(l);
}

/* Reads the counts after a ~: m or m..n. */
static bool take_times(struct lark *l, uint32_t *min, uint32_t *max)
{
  struct lls_ebnf *g = &l->text;
  char *rest;
  skip_space(g);
  if (g->at == g->end || *g->at < '0' || *g->at > '9') {
    fail(l, "a ~ without a number");
    return false;
  }
  unsigned long low = strtoul(g->at, &rest, 10), high = low;
  g->at = rest;
  if (take(l, "..")) {
    high = strtoul(g->at, &rest, 10);
    g->at = rest;
  }
  if (low > high || high > LLS_EBNF_REPEATS)
    fail(l, "a repetition that is not from few to at most 65536");
  *min = (uint32_t)low;
  *max = (uint32_t)high;
  return !g->failed;
}

static uint32_t quantify(struct lark *l, uint32_t node)
{
  struct lls_ebnf *g = &l->text;
  while (!g->failed && g->at < g->end) {
    uint32_t min = *g->at == '+', max = *g->at == '?' ? 1 : LLS_GRAMMAR_UNBOUNDED;
    if (take(l, "{")) {
      if (!lls_ebnf_take_braces(g, &min, &max))
        return LLS_GRAMMAR_NONE;
    } else if (take(l, "~")) {
      if (!take_times(l, &min, &max))
        return LLS_GRAMMAR_NONE;
    } else if (!take(l, "*") && !take(l, "+") && !take(l, "?"))
      return node;
    node = lls_grammar_repeat(g->tree, node, min, max);
  }
  return node;
}

static bool row_ends(struct lls_ebnf *g)
{
  skip_space(g);
  return g->failed || g->at == g->end || strchr("|)]", *g->at) != NULL || at_next(g);
}

static uint32_t row(struct lark *l)
{
  struct lls_ebnf *g = &l->text;
  struct lls_ebnf_list parts = {0};
  const char *alias;
  while (!row_ends(g)) {
    if (take(l, "->")) {
      skip_space(g);
      lls_ebnf_take_name(g, &alias);
      continue;
    }
    uint32_t part = symbol(l);
    while (lls_ebnf_take(g, " ") || lls_ebnf_take(g, "\t"))
      ;
    if (!lls_ebnf_append(g, &parts, quantify(l, part)))
      break;
  }
  uint32_t node =
      g->failed ? LLS_GRAMMAR_NONE : lls_grammar_sequence(g->tree, parts.nodes, parts.n);
  free(parts.nodes);
  return node;
}

static uint32_t choice(struct lark *l)
{
  struct lls_ebnf *g = &l->text;
  struct lls_ebnf_list parts = {0};
  do
    lls_ebnf_append(g, &parts, row(l));
  while (!g->failed && take(l, "|"));
  uint32_t node =
      g->failed ? LLS_GRAMMAR_NONE : lls_grammar_choice(g->tree, parts.nodes, parts.n);
  free(parts.nodes);
  return node;
}

/* ---- definitions and directives ---- */

/* Reads the rest of a line and its continuation lines; then another definition must
 * begin. */
static uint32_t whole_choice(struct lark *l, bool in_terminal)
{
  l->in_terminal = in_terminal;
  uint32_t node = choice(l);
  if (!l->text.failed && l->text.at < l->text.end && !at_next(&l->text))
    return fail(l, "a ) or ] without a ( or [ before it");
  return node;
}

static void definition(struct lark *l)
{
  struct lls_ebnf *g = &l->text;
  const char *name;
  while (take(l, "?") || take(l, "!"))
    ;
  size_t length = lls_ebnf_take_name(g, &name);
  if (take(l, "."))
    fail(l, "priorities are not supported");
  else if (take(l, "{"))
    fail(l, "templates are not supported");
  else if (take(l, "["))
    fail(l, "options of rules ([lazy], [stop=...] and the like) are not supported");
  if (g->failed)
    return;
  skip_space(g);
  take(l, ":");
  uint32_t node = lls_ebnf_rule(g, name, length);
  uint32_t body = whole_choice(l, is_terminal(name, length));
  if (!g->failed)
    lls_grammar_define(g->tree, node, body);
}

static void import_one(struct lark *l, bool may_rename)
{
  struct lls_ebnf *g = &l->text;
  const char *name, *as;
  struct lls_error err = {0};
  int code;
  skip_space(g);
  size_t length = lls_ebnf_take_name(g, &name), n = length;
  const char *pattern = lls_lark_common(name, length);
  if (pattern == NULL) {
    fail(l, "an %import of a name that Lark's library common lacks");
    return;
  }
  as = name;
  while (take(l, " ") || take(l, "\t"))
    ;
  if (may_rename && take(l, "->")) {
    skip_space(g);
    n = lls_ebnf_take_name(g, &as);
  }
  uint32_t node = lls_ebnf_rule(g, as, n);
  uint32_t body = lls_grammar_regex(g->tree, pattern, strlen(pattern),
                                    (struct lls_regex_use){.within = true}, &code, &err);
  if (body == LLS_GRAMMAR_NONE)
    fail(l, err.text);
  else if (!g->failed)
    lls_grammar_define(g->tree, node, body);
}

static void import(struct lark *l)
{
  struct lls_ebnf *g = &l->text;
  skip_space(g);
  if (!take(l, "common")) {
    fail(l, "an %import from elsewhere than Lark's library common");
    return;
  }
  if (take(l, ".")) {
    import_one(l, true);
    return;
  }
  skip_space(g);
  if (!take(l, "("))
    fail(l, "%import common without .NAME or (NAMES)");
  do {
    import_one(l, false);
    skip_space(g);
  } while (!g->failed && take(l, ","));
  if (!g->failed && !take(l, ")"))
    fail(l, "a ( without its )");
}

static void directive(struct lark *l)
{
  if (take(l, "%import"))
    import(l);
  else if (take(l, "%ignore"))
    lls_ebnf_append(&l->text, &l->ignored, whole_choice(l, true));
  else
    fail(l, "%declare, %override, %extend, %llguidance and %grammar_options are not "
            "supported");
}

/* Defines `skipped` after all %ignore directives, which may be anywhere, were read. */
static void define_skipped(struct lark *l)
{
  struct lls_grammar_tree *tree = l->text.tree;
  uint32_t any = lls_grammar_choice(tree, l->ignored.nodes, l->ignored.n);
  uint32_t body = l->ignored.n == 0
                      ? lls_grammar_literal(tree, "", 0)
                      : lls_grammar_repeat(tree, any, 0, LLS_GRAMMAR_UNBOUNDED);
  lls_grammar_define(tree, l->skipped, body);
}

static uint32_t definitions(struct lark *l)
{
  struct lls_ebnf *g = &l->text;
  if (!lls_utf8_is_valid(g->text, (size_t)(g->end - g->text)))
    return fail(l, "its text is not UTF-8");
  for (skip_space(g); !g->failed && g->at < g->end; skip_space(g))
    if (at_directive(g))
      directive(l);
    else if (at_definition(g))
      definition(l);
    else
      fail(l, "a definition begins as name: ...");
  if (g->failed)
    return LLS_GRAMMAR_NONE;
  define_skipped(l);
  struct lls_ebnf_rule *start;
  HASH_FIND(hh, g->rules, "start", 5, start);
  return start != NULL
             ? start->node
             : fail(l, "there is no rule called start, with which a text begins");
}

uint32_t lls_grammar_lark(struct lls_grammar_tree *tree, const char *text, size_t n)
{
  /* a copy that ends in 0, for strtoul and similar functions */
  char *copy = malloc(n + 1);
  if (copy == NULL)
    return lls_grammar_fail(tree, "no memory for the grammar");
  memcpy(copy, text, n);
  copy[n] = '\0';
  struct lark l = {
      .text = {.tree = tree, .text = copy, .at = copy, .end = copy + n},
      .skipped = lls_grammar_rule(tree, "%ignore"),
  };
  uint32_t start = definitions(&l);
  free(l.ignored.nodes);
  lls_ebnf_free(&l.text);
  free(copy);
  return start;
}

uint32_t lls_grammar_text(struct lls_grammar_tree *tree, const char *text, size_t n)
{
  return is_likely(text, n) ? lls_grammar_lark(tree, text, n)
                            : lls_grammar_gbnf(tree, text, n);
}
