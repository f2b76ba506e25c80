/* SPDX-License-Identifier: Apache-2.0 */
/* A thread is a state of the automaton that some possible match has reached, with the
 * earliest beginning of such a match; see regex_scan.h. */
#include "text/grammar/regex_scan.h"

#include "text/grammar/nfa.h"
#include "text/grammar/regex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PLACES 4096

static const struct lls_grammar_bounds bounds = {
    .nodes = 4096, .bytes = 1 << 16, .rules = 1};

struct lls_regex_finder {
  struct lls_nfa nfa;
  size_t length;
  char pattern[]; /* (length) */
};

struct thread {
  uint32_t state; /* a state that reads a byte */
  size_t begin;
};

struct threads {
  struct thread *list; /* (n) ordered by their beginnings */
  uint32_t n;
};

struct lls_regex_scan {
  const struct lls_nfa *nfa;
  struct threads now, next;
  uint64_t *seen;  /* (states) 1 + the position at which each state was last reached */
  uint32_t *stack; /* (2 * states) */
  size_t position; /* bytes so far */
  bool matched;
  size_t match_begin;
};

/* ---- expressions ------------------------------------------------------------------- */

static int compile(struct lls_regex_finder *f, struct lls_grammar_tree *tree,
                   struct lls_error *err)
{
  const struct lls_grammar_limits limits = {
      .positions = MOST_PLACES, .time_ns = INT64_C(200000000), .flat = true};
  int code;
  uint32_t root = lls_grammar_regex(tree, f->pattern, f->length,
                                    (struct lls_regex_use){.within = true}, &code, err);
  if (root == LLS_GRAMMAR_NONE)
    return code;
  lls_grammar_set_root(tree, root);
  int rc = lls_nfa_build(tree, &limits, &f->nfa, err);
  if (rc == 0 && f->nfa.root_nullable)
    return lls_fail(err, -EINVAL, "the regular expression matches the empty text");
  return rc;
}

int lls_regex_finder_create(const char *pattern, size_t length,
                            struct lls_regex_finder **out, struct lls_error *err)
{
  struct lls_regex_finder *f = calloc(1, sizeof *f + length);
  struct lls_grammar_tree *tree = lls_grammar_tree_create(&bounds);
  int rc = f == NULL || tree == NULL
               ? lls_fail(err, -ENOMEM, "no memory for the regular expression")
               : 0;
  if (rc == 0) {
    memcpy(f->pattern, pattern, length);
    f->length = length;
    rc = compile(f, tree, err);
  }
  lls_grammar_tree_destroy(tree);
  if (rc < 0) {
    lls_regex_finder_destroy(f);
    return rc;
  }
  *out = f;
  return 0;
}

void lls_regex_finder_destroy(struct lls_regex_finder *f)
{
  if (f == NULL)
    return;
  lls_nfa_free(&f->nfa);
  free(f);
}

const char *lls_regex_finder_pattern(const struct lls_regex_finder *f, size_t *length)
{
  *length = f->length;
  return f->pattern;
}

/* ---- texts ------------------------------------------------------------------------- */

/* Adds threads for all states reached from `state` without a byte. */
static void reach(struct lls_regex_scan *s, uint32_t state, size_t begin)
{
  uint32_t n = 0;
  s->stack[n++] = state;
  while (n > 0) {
    uint32_t at = s->stack[--n];
    const struct lls_nfa_state *place = &s->nfa->states[at];
    if (s->seen[at] == s->position + 1)
      continue;
    s->seen[at] = s->position + 1;
    if (place->kind == LLS_NFA_RANGE) {
      s->next.list[s->next.n++] = (struct thread){at, begin};
    } else if (place->kind == LLS_NFA_SPLIT) {
      s->stack[n++] = place->other;
      s->stack[n++] = place->out;
    } else if (!s->matched) {
      s->matched = true;
      s->match_begin = begin;
    }
  }
}

/* Makes the added threads those of this position, together with a match that begins
 * here. */
static void arrive(struct lls_regex_scan *s)
{
  reach(s, s->nfa->rules[0].start, s->position);
  struct threads before = s->now;
  s->now = s->next;
  s->next = (struct threads){.list = before.list};
}

struct lls_regex_scan *lls_regex_scan_create(const struct lls_regex_finder *finder)
{
  size_t n = finder->nfa.n_states;
  struct lls_regex_scan *s =
      calloc(1, sizeof *s + n * (2 * sizeof(struct thread) + sizeof(uint64_t) +
                                 2 * sizeof(uint32_t)));
  if (s == NULL)
    return NULL;
  s->nfa = &finder->nfa;
  s->now.list = (struct thread *)(s + 1);
  s->next.list = s->now.list + n;
  s->seen = (uint64_t *)(s->next.list + n);
  s->stack = (uint32_t *)(s->seen + n);
  arrive(s);
  return s;
}

void lls_regex_scan_destroy(struct lls_regex_scan *s)
{
  free(s);
}

bool lls_regex_scan_push(struct lls_regex_scan *s, const char *bytes, size_t n,
                         size_t *end, size_t *length)
{
  for (size_t i = 0; i < n && !s->matched; i++) {
    uint8_t byte = (uint8_t)bytes[i];
    s->position++;
    for (uint32_t t = 0; t < s->now.n; t++) {
      const struct lls_nfa_state *place = &s->nfa->states[s->now.list[t].state];
      if (byte >= place->lo && byte <= place->hi)
        reach(s, place->out, s->now.list[t].begin);
    }
    arrive(s);
    *end = i + 1;
  }
  *length = s->position - s->match_begin;
  return s->matched;
}

size_t lls_regex_scan_hold(const struct lls_regex_scan *s)
{
  return s->now.n > 0 ? s->position - s->now.list[0].begin : 0;
}
