/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for strings in free text; see text_until.h. */
#include "text/grammar/text_until.h"

#include "text/grammar/grammar_marks.h"
#include "text/grammar/vocabulary.h"
#include "text/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Flag of a symbol that is a special token instead of a code point. */
#define SPECIAL 0x80000000u
#define NOBODY  UINT32_MAX

struct state {
  uint32_t symbol, parent;
  uint32_t child, sibling; /* NOBODY: none */
  uint32_t fail;           /* state of the longest proper suffix that begins a string */
  uint32_t rule;
  uint32_t stop; /* the string that is complete here, or NOBODY */
  const char *bytes;
  size_t n; /* bytes of the symbol */
};

struct watch {
  struct lls_grammar_tree *tree;
  const struct lls_text_stop *stops;
  uint32_t n_stops;
  struct state *states; /* (n) [0]: no string has begun; parents before children */
  uint32_t n;
  uint32_t *parts;                   /* (n + 2) of the choice under construction */
  struct lls_grammar_range *watched; /* (n) code points that continue a string */
};

static uint32_t child_of(const struct watch *w, uint32_t state, uint32_t symbol)
{
  uint32_t at = w->states[state].child;
  while (at != NOBODY && w->states[at].symbol != symbol)
    at = w->states[at].sibling;
  return at;
}

static uint32_t add(struct watch *w, uint32_t parent, uint32_t symbol, const char *bytes,
                    size_t n)
{
  uint32_t at = child_of(w, parent, symbol);
  if (at != NOBODY)
    return at;
  if (w->n == LLS_TEXT_STATES) {
    lls_grammar_fail(w->tree,
                     "the strings that a text is watched for have more than %u "
                     "characters",
                     LLS_TEXT_STATES - 1);
    return 0;
  }
  at = w->n++;
  w->states[at] = (struct state){.symbol = symbol,
                                 .parent = parent,
                                 .child = NOBODY,
                                 .sibling = w->states[parent].child,
                                 .stop = NOBODY,
                                 .bytes = bytes,
                                 .n = n};
  w->states[parent].child = at;
  return at;
}

/* Adds a string's letters; or, with `specials`, the special tokens that it names. Of
 * two equal strings the one that may occur takes precedence over the one that may not. */
static void add_stop(struct watch *w, uint32_t stop, bool specials)
{
  const struct lls_text_stop *s = &w->stops[stop];
  const struct lls_vocabulary *v = lls_grammar_tree_vocabulary(w->tree);
  uint32_t at = 0;
  for (size_t i = 0, n; i < s->n; i += n) {
    const struct lls_special_token *token =
        specials ? lls_vocabulary_special(v, s->bytes + i, s->n - i) : NULL;
    n = token != NULL ? token->n : lls_utf8_length(s->bytes + i);
    at = add(w, at,
             token != NULL ? SPECIAL | token->token
                           : (uint32_t)lls_utf8_char(s->bytes + i),
             s->bytes + i, n);
  }
  uint32_t *here = &w->states[at].stop;
  if (*here == NOBODY || w->stops[*here].next == LLS_GRAMMAR_NONE)
    *here = stop;
}

/* Returns the state after a symbol. */
static uint32_t next_of(const struct watch *w, uint32_t state, uint32_t symbol)
{
  for (;; state = w->states[state].fail) {
    uint32_t to = child_of(w, state, symbol);
    if (to != NOBODY)
      return to;
    if (state == 0)
      return 0;
  }
}

/* Computes `fail` of each state in order of their lengths, since a state's `fail` is
 * always shorter. */
static bool find_fails(struct watch *w)
{
  uint32_t *order = malloc(w->n * sizeof *order);
  if (order == NULL)
    return false;
  uint32_t n = 1;
  order[0] = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct state *s = &w->states[order[i]];
    if (order[i] != 0 && s->parent != 0)
      s->fail = next_of(w, w->states[s->parent].fail, s->symbol);
    for (uint32_t c = s->child; c != NOBODY; c = w->states[c].sibling)
      order[n++] = c;
  }
  free(order);
  return true;
}

/* Returns the node after a state: a choice of the nodes after all strings that are
 * complete there; LLS_GRAMMAR_NONE if one of these strings may not occur. */
static uint32_t after(struct watch *w, uint32_t state)
{
  uint32_t next[8], n = 0;
  for (uint32_t at = state; at != 0; at = w->states[at].fail) {
    uint32_t stop = w->states[at].stop;
    if (stop == NOBODY)
      continue;
    if (w->stops[stop].next == LLS_GRAMMAR_NONE)
      return LLS_GRAMMAR_NONE;
    if (n < sizeof next / sizeof next[0])
      next[n++] = w->stops[stop].next;
  }
  return n == 0 ? w->states[state].rule : lls_grammar_choice(w->tree, next, n);
}

static uint32_t row(struct watch *w, uint32_t first, uint32_t second)
{
  const uint32_t parts[] = {first, second};
  return lls_grammar_sequence(w->tree, parts, 2);
}

/* The bytes of a symbol, or the code of a special token. */
static uint32_t symbol(struct watch *w, const struct state *s)
{
  return (s->symbol & SPECIAL) != 0 ? lls_grammar_marks(w->tree, s->bytes, s->n)
                                    : lls_grammar_literal(w->tree, s->bytes, s->n);
}

/* Defines the rule of a state from the symbols that continue a string: those of its
 * children, and of its fail states' children. */
static void define(struct watch *w, uint32_t state, bool may_end)
{
  uint32_t n = 0, n_watched = 0;
  if (may_end)
    w->parts[n++] = lls_grammar_literal(w->tree, "", 0);
  for (uint32_t at = state;; at = w->states[at].fail) {
    for (uint32_t c = w->states[at].child; c != NOBODY; c = w->states[c].sibling) {
      const struct state *s = &w->states[c];
      if (next_of(w, state, s->symbol) != c)
        continue; /* a longer match takes precedence */
      if ((s->symbol & SPECIAL) == 0)
        w->watched[n_watched++] = (struct lls_grammar_range){s->symbol, s->symbol};
      uint32_t then = after(w, c);
      if (then != LLS_GRAMMAR_NONE)
        w->parts[n++] = row(w, symbol(w, s), then);
    }
    if (at == 0)
      break;
  }
  uint32_t other = lls_grammar_class_but(w->tree, w->watched, n_watched);
  if (state != 0)
    w->parts[n++] = row(w, other, w->states[0].rule);
  uint32_t body = lls_grammar_choice(w->tree, w->parts, n);
  if (state == 0)
    body = row(w, lls_grammar_repeat(w->tree, other, 0, LLS_GRAMMAR_UNBOUNDED), body);
  lls_grammar_define(w->tree, w->states[state].rule, body);
}

void lls_grammar_text_until(struct lls_grammar_tree *tree, uint32_t rule,
                            const struct lls_text_stop *stops, uint32_t n, bool may_end)
{
  const struct lls_vocabulary *v = lls_grammar_tree_vocabulary(tree);
  struct watch w = {.tree = tree, .stops = stops, .n_stops = n, .n = 1};
  w.states = malloc(LLS_TEXT_STATES * sizeof *w.states);
  w.parts = malloc((LLS_TEXT_STATES + 2) * sizeof *w.parts);
  w.watched = malloc(LLS_TEXT_STATES * sizeof *w.watched);
  if (w.states == NULL || w.parts == NULL || w.watched == NULL) {
    lls_grammar_fail(tree, "no memory for a text");
    goto done;
  }
  w.states[0] = (struct state){.child = NOBODY, .sibling = NOBODY, .stop = NOBODY};
  for (uint32_t i = 0; i < n; i++) {
    add_stop(&w, i, false);
    if (v != NULL && v->n_specials > 0)
      add_stop(&w, i, true);
  }
  if (!find_fails(&w)) {
    lls_grammar_fail(tree, "no memory for a text");
    goto done;
  }
  for (uint32_t i = 0; i < w.n; i++)
    w.states[i].rule = i == 0 ? rule : lls_grammar_rule(tree, "text");
  for (uint32_t i = 0; i < w.n; i++)
    define(&w, i, may_end);
done:
  free(w.states);
  free(w.parts);
  free(w.watched);
}
