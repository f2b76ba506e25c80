/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of an automaton's rules: the bytes that may begin and follow them, and the
 * bytes that no state distinguishes. */
#include "text/grammar/nfa.h"

#include <errno.h>
#include <stdlib.h>

struct reach {
  struct lls_byte_set bytes;
  bool match; /* the rule may end here */
};

struct work {
  struct lls_nfa *nfa;
  uint32_t *stack; /* (n_states) */
  uint32_t *seen;  /* (n_states) number of the last search that visited the state */
  uint32_t search;
};

static bool add_set(struct lls_byte_set *to, const struct lls_byte_set *more)
{
  bool grew = false;
  for (int i = 0; i < 4; i++) {
    grew |= (more->words[i] & ~to->words[i]) != 0;
    to->words[i] |= more->words[i];
  }
  return grew;
}

static void add_range(struct lls_byte_set *to, uint32_t lo, uint32_t hi)
{
  for (uint32_t byte = lo; byte <= hi; byte++)
    to->words[byte / 64] |= UINT64_C(1) << (byte % 64);
}

static void visit(struct work *w, uint32_t *n, uint32_t state)
{
  if (w->seen[state] == w->search)
    return;
  w->seen[state] = w->search;
  w->stack[(*n)++] = state;
}

/* Computes the bytes that may come next in a state, using the results for called rules
 * so far. */
static struct reach reach_of(struct work *w, uint32_t state)
{
  struct reach r = {0};
  uint32_t n = 0;
  w->search++;
  visit(w, &n, state);
  while (n > 0) {
    const struct lls_nfa_state *s = &w->nfa->states[w->stack[--n]];
    if (s->kind == LLS_NFA_RANGE)
      add_range(&r.bytes, s->lo, s->hi);
    else if (s->kind == LLS_NFA_CALL)
      add_set(&r.bytes, &w->nfa->rules[s->other].first);
    else if (s->kind == LLS_NFA_MATCH)
      r.match = true;
    else {
      visit(w, &n, s->out);
      visit(w, &n, s->other);
    }
  }
  return r;
}

static void find_first(struct work *w)
{
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = w->nfa->n_rules; i-- > 0;) {
      struct reach r = reach_of(w, w->nfa->rules[i].start);
      changed |= add_set(&w->nfa->rules[i].first, &r.bytes);
    }
  }
}

/* Records the bytes that follow the calls made in a rule. Returns true if any is new. */
static bool follow_calls(struct work *w, uint32_t index)
{
  struct lls_nfa *nfa = w->nfa;
  const struct lls_nfa_rule *rule = &nfa->rules[index];
  struct reach r = {0};
  uint32_t known = UINT32_MAX;
  bool changed = false;
  for (uint32_t i = 0; rule->calls && i < rule->n_states; i++) {
    const struct lls_nfa_state *s = &nfa->states[rule->first_state + i];
    if (s->kind != LLS_NFA_CALL)
      continue;
    if (s->out != known)
      r = reach_of(w, s->out);
    known = s->out;
    struct lls_byte_set *follow = &nfa->rules[s->other].follow;
    changed |= add_set(follow, &r.bytes);
    if (r.match)
      changed |= add_set(follow, &rule->follow);
    if (r.match && rule->counted)
      changed |= add_set(follow, &rule->first);
  }
  return changed;
}

static void find_follow(struct work *w)
{
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < w->nfa->n_rules; i++)
      changed |= follow_calls(w, i);
  }
}

static void find_classes(struct lls_nfa *nfa)
{
  bool begins[257] = {true};
  for (uint32_t i = 0; i < nfa->n_states; i++)
    if (nfa->states[i].kind == LLS_NFA_RANGE) {
      begins[nfa->states[i].lo] = true;
      begins[nfa->states[i].hi + 1] = true;
    }
  for (uint32_t byte = 0; byte < 256; byte++) {
    if (begins[byte])
      nfa->representative[nfa->n_classes++] = (uint8_t)byte;
    nfa->class_of[byte] = (uint8_t)(nfa->n_classes - 1);
  }
}

int lls_nfa_analyse(struct lls_nfa *nfa)
{
  struct work w = {.nfa = nfa,
                   .stack = calloc(nfa->n_states, sizeof *w.stack),
                   .seen = calloc(nfa->n_states, sizeof *w.seen)};
  int rc = w.stack == NULL || w.seen == NULL ? -ENOMEM : 0;
  if (rc == 0) {
    find_classes(nfa);
    find_first(&w);
    find_follow(&w);
  }
  free(w.stack);
  free(w.seen);
  return rc;
}
