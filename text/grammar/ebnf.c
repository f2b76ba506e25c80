/* SPDX-License-Identifier: Apache-2.0 */
/* Reads words, characters and counts in texts of grammars; see ebnf.h. */
#include "text/grammar/ebnf.h"

#include "text/base/utf8.h"

#include <stdlib.h>
#include <string.h>

uint32_t lls_ebnf_fail(struct lls_ebnf *g, const char *what)
{
  unsigned line = 1;
  for (const char *at = g->text; at < g->at; at++)
    line += *at == '\n';
  if (!g->failed)
    lls_grammar_fail(g->tree, "the grammar, line %u: %s", line, what);
  g->failed = true;
  return LLS_GRAMMAR_NONE;
}

bool lls_ebnf_append(struct lls_ebnf *g, struct lls_ebnf_list *list, uint32_t node)
{
  if (list->n == list->capacity) {
    uint32_t capacity = list->capacity == 0 ? 16 : list->capacity * 2;
    uint32_t *grown = realloc(list->nodes, capacity * sizeof *grown);
    if (grown == NULL) {
      lls_ebnf_fail(g, "no memory for it");
      return false;
    }
    list->nodes = grown;
    list->capacity = capacity;
  }
  list->nodes[list->n++] = node;
  return true;
}

bool lls_ebnf_take(struct lls_ebnf *g, const char *word)
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

size_t lls_ebnf_take_name(struct lls_ebnf *g, const char **name)
{
  *name = g->at;
  while (g->at < g->end && is_name_byte(*g->at))
    g->at++;
  return (size_t)(g->at - *name);
}

uint32_t lls_ebnf_rule(struct lls_ebnf *g, const char *name, size_t length)
{
  struct lls_ebnf_rule *rule;
  HASH_FIND(hh, g->rules, name, length, rule);
  if (rule != NULL)
    return rule->node;
  rule = malloc(sizeof *rule + length + 1);
  if (rule == NULL)
    return lls_ebnf_fail(g, "no memory for it");
  memcpy(rule->name, name, length);
  rule->name[length] = '\0';
  rule->node = lls_grammar_rule(g->tree, rule->name);
  HASH_ADD_KEYPTR(hh, g->rules, rule->name, length, rule);
  if (rule->hh.tbl != NULL)
    return rule->node;
  free(rule);
  return lls_ebnf_fail(g, "no memory for it");
}

static bool take_hex(struct lls_ebnf *g, unsigned digits, uint32_t *point)
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

static bool take_escape(struct lls_ebnf *g, uint32_t *point)
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

bool lls_ebnf_take_character(struct lls_ebnf *g, uint32_t *point)
{
  if (lls_ebnf_take(g, "\\")) {
    if (take_escape(g, point))
      return true;
    lls_ebnf_fail(
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

size_t lls_ebnf_span(const struct lls_ebnf *g, char close)
{
  const char *at = g->at;
  for (; at < g->end && *at != close; at++)
    at += *at == '\\';
  return (size_t)((at < g->end ? at : g->end) - g->at) + 1;
}

uint32_t lls_ebnf_literal(struct lls_ebnf *g, char quote)
{
  const char *open = g->at, ends[] = {quote, '\0'};
  uint32_t point;
  size_t n = 0;
  char *bytes = malloc(lls_ebnf_span(g, quote) * 4);
  if (bytes == NULL)
    return lls_ebnf_fail(g, "no memory for it");
  bool whole = false;
  while (g->at < g->end && !(whole = lls_ebnf_take(g, ends)) &&
         lls_ebnf_take_character(g, &point))
    n += encode(point, bytes + n);
  uint32_t node = whole ? lls_grammar_literal(g->tree, bytes, n) : LLS_GRAMMAR_NONE;
  free(bytes);
  if (!whole && !g->failed) {
    g->at = open;
    return lls_ebnf_fail(g, quote == '"' ? "a \" without the \" that ends it"
                                         : "a ' without the ' that ends it");
  }
  return node;
}

static void skip_blanks(struct lls_ebnf *g)
{
  while (g->at < g->end && strchr(" \t\r\n", *g->at) != NULL && *g->at != '\0')
    g->at++;
}

static bool take_count(struct lls_ebnf *g, uint32_t *count)
{
  const char *from = g->at;
  for (*count = 0; g->at < g->end && *g->at >= '0' && *g->at <= '9'; g->at++)
    if (*count <= LLS_EBNF_REPEATS)
      *count = *count * 10 + (uint32_t)(*g->at - '0');
  skip_blanks(g);
  return g->at > from;
}

bool lls_ebnf_take_braces(struct lls_ebnf *g, uint32_t *min, uint32_t *max)
{
  skip_blanks(g);
  bool has_min = take_count(g, min), has_comma = lls_ebnf_take(g, ",");
  skip_blanks(g);
  bool has_max = has_comma && take_count(g, max);
  if (!has_max)
    *max = has_comma ? LLS_GRAMMAR_UNBOUNDED : *min;
  if (!lls_ebnf_take(g, "}") || !(has_min || has_max))
    lls_ebnf_fail(g, "a repetition that is none of {m}, {m,}, {m,n}");
  else if (*min > LLS_EBNF_REPEATS ||
           (*max != LLS_GRAMMAR_UNBOUNDED && *max > LLS_EBNF_REPEATS))
    lls_ebnf_fail(g, "more than 65536 repetitions");
  else if (*min > *max)
    lls_ebnf_fail(g, "a repetition whose least is more than its most");
  return !g->failed;
}

void lls_ebnf_free(struct lls_ebnf *g)
{
  struct lls_ebnf_rule *rule, *next;
  HASH_ITER(hh, g->rules, rule, next)
  {
    HASH_DEL(g->rules, rule);
    free(rule);
  }
}
