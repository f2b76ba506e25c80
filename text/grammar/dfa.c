/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of NFA states, found by their hash; see dfa.h. */
#include "text/grammar/dfa.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SET_ROOM  24 /* NFA states per set, reserved on average */
#define CALL_ROOM 4

static uint32_t power_of_two_above(uint32_t n)
{
  uint32_t p = 64;
  while (p < n)
    p *= 2;
  return p;
}

int lls_dfa_create(struct lls_dfa *dfa, const struct lls_nfa *nfa, uint32_t states)
{
  uint32_t slots = power_of_two_above(2 * states);
  *dfa = (struct lls_dfa){.nfa = nfa,
                          .n_states = LLS_DFA_DEAD + 1,
                          .capacity = states,
                          .set_capacity = states * SET_ROOM + nfa->n_states,
                          .call_capacity = states * CALL_ROOM + nfa->n_states,
                          .slot_mask = slots - 1};
  dfa->states = calloc(states, sizeof *dfa->states);
  dfa->next = calloc((size_t)states * nfa->n_classes, sizeof *dfa->next);
  dfa->sets = calloc(dfa->set_capacity, sizeof *dfa->sets);
  dfa->calls = calloc(dfa->call_capacity, sizeof *dfa->calls);
  dfa->slots = calloc(slots, sizeof *dfa->slots);
  dfa->starts = calloc(nfa->n_rules, sizeof *dfa->starts);
  dfa->seen = calloc(nfa->n_states, sizeof *dfa->seen);
  dfa->stack = calloc(nfa->n_states, sizeof *dfa->stack);
  if (dfa->states == NULL || dfa->next == NULL || dfa->sets == NULL ||
      dfa->calls == NULL || dfa->slots == NULL || dfa->starts == NULL ||
      dfa->seen == NULL || dfa->stack == NULL) {
    lls_dfa_free(dfa);
    return -ENOMEM;
  }
  for (uint32_t c = 0; c < nfa->n_classes; c++)
    dfa->next[LLS_DFA_DEAD * nfa->n_classes + c] = LLS_DFA_DEAD;
  return 0;
}

void lls_dfa_free(struct lls_dfa *dfa)
{
  free(dfa->states);
  free(dfa->next);
  free(dfa->sets);
  free(dfa->calls);
  free(dfa->slots);
  free(dfa->starts);
  free(dfa->seen);
  free(dfa->stack);
  *dfa = (struct lls_dfa){0};
}

size_t lls_dfa_bytes(const struct lls_dfa *dfa)
{
  return dfa->n_states *
             (sizeof *dfa->states + (size_t)dfa->nfa->n_classes * sizeof *dfa->next) +
         dfa->n_sets * sizeof *dfa->sets + dfa->n_calls * sizeof *dfa->calls +
         ((size_t)dfa->slot_mask + 1) * sizeof *dfa->slots +
         (size_t)dfa->nfa->n_states * 2 * sizeof *dfa->seen;
}

/* ---- building a set at the end of `sets` ------------------------------------------- */

static uint32_t fail(struct lls_dfa *dfa)
{
  dfa->full = true;
  return LLS_DFA_DEAD;
}

static void begin(struct lls_dfa *dfa)
{
  dfa->search++;
}

/* Adds the state and all states that it reaches without a byte. *n: size of the set so
 * far. */
static void add_closure(struct lls_dfa *dfa, uint32_t *n, uint32_t state)
{
  uint32_t depth = 0, *set = dfa->sets + dfa->n_sets;
  if (dfa->seen[state] == dfa->search)
    return;
  dfa->seen[state] = dfa->search;
  dfa->stack[depth++] = state;
  for (; depth > 0; dfa->work++) {
    uint32_t at = dfa->stack[--depth];
    const struct lls_nfa_state *s = &dfa->nfa->states[at];
    if (s->kind != LLS_NFA_SPLIT) {
      if (dfa->n_sets + *n < dfa->set_capacity)
        set[(*n)++] = at;
      else
        dfa->full = true;
      continue;
    }
    const uint32_t both[] = {s->out, s->other};
    for (int i = 0; i < 2; i++)
      if (dfa->seen[both[i]] != dfa->search) {
        dfa->seen[both[i]] = dfa->search;
        dfa->stack[depth++] = both[i];
      }
  }
}

static int compare(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static void sort(uint32_t *set, uint32_t n)
{
  if (n > 32) {
    qsort(set, n, sizeof *set, compare);
    return;
  }
  for (uint32_t i = 1; i < n; i++) {
    uint32_t value = set[i], at = i;
    for (; at > 0 && set[at - 1] > value; at--)
      set[at] = set[at - 1];
    set[at] = value;
  }
}

static uint32_t hash(const uint32_t *set, uint32_t n)
{
  uint64_t h = n;
  for (uint32_t i = 0; i < n; i++)
    h = (h ^ set[i]) * UINT64_C(0x9E3779B97F4A7C15) >> 1;
  return (uint32_t)(h >> 20 ^ h);
}

/* Adds the calls that can be made in the set, one per rule. */
static bool add_calls(struct lls_dfa *dfa, struct lls_dfa_state *s)
{
  s->calls = dfa->n_calls;
  dfa->search++; /* a rule is marked by marking its first state */
  for (uint32_t i = 0; i < s->n_set; i++) {
    const struct lls_nfa_state *state = &dfa->nfa->states[dfa->sets[s->set + i]];
    if (state->kind != LLS_NFA_CALL)
      continue;
    uint32_t mark = dfa->nfa->rules[state->other].first_state;
    if (dfa->seen[mark] == dfa->search)
      continue;
    dfa->seen[mark] = dfa->search;
    if (dfa->n_calls == dfa->call_capacity)
      return false;
    dfa->calls[dfa->n_calls++] = (struct lls_dfa_call){.rule = state->other};
  }
  s->n_calls = dfa->n_calls - s->calls;
  return true;
}

static bool accepts(const struct lls_dfa *dfa, const struct lls_dfa_state *s)
{
  for (uint32_t i = 0; i < s->n_set; i++)
    if (dfa->nfa->states[dfa->sets[s->set + i]].kind == LLS_NFA_MATCH)
      return true;
  return false;
}

static int16_t only_byte(const struct lls_dfa *dfa, const struct lls_dfa_state *s)
{
  int only = LLS_DFA_NO_BYTE;
  for (uint32_t i = 0; i < s->n_set; i++) {
    const struct lls_nfa_state *n = &dfa->nfa->states[dfa->sets[s->set + i]];
    if (n->kind != LLS_NFA_RANGE)
      continue;
    if (n->lo != n->hi || (only >= 0 && only != n->lo))
      return LLS_DFA_BYTES;
    only = n->lo;
  }
  return (int16_t)only;
}

/* Returns the state of the set formed by the n entries at the end of `sets`. */
static uint32_t intern(struct lls_dfa *dfa, uint32_t n, uint32_t rule)
{
  uint32_t *set = dfa->sets + dfa->n_sets;
  if (dfa->full || dfa->n_states == dfa->capacity)
    return fail(dfa);
  if (n == 0)
    return LLS_DFA_DEAD;
  sort(set, n);
  uint32_t slot = hash(set, n) & dfa->slot_mask;
  for (; dfa->slots[slot] != 0; slot = (slot + 1) & dfa->slot_mask) {
    const struct lls_dfa_state *s = &dfa->states[dfa->slots[slot]];
    if (s->n_set == n && memcmp(dfa->sets + s->set, set, n * sizeof *set) == 0)
      return dfa->slots[slot];
  }
  struct lls_dfa_state *s = &dfa->states[dfa->n_states];
  *s = (struct lls_dfa_state){.set = dfa->n_sets, .n_set = n, .rule = rule};
  s->accepts = accepts(dfa, s);
  s->only = only_byte(dfa, s);
  s->closed = s->accepts && n == 1;
  dfa->n_sets += n;
  if (!add_calls(dfa, s))
    return fail(dfa);
  dfa->slots[slot] = dfa->n_states;
  return dfa->n_states++;
}

/* ---- the public functions ---------------------------------------------------------- */

uint32_t lls_dfa_start(struct lls_dfa *dfa, uint32_t rule)
{
  uint32_t n = 0;
  if (dfa->starts[rule] != LLS_DFA_UNKNOWN)
    return dfa->starts[rule];
  begin(dfa);
  add_closure(dfa, &n, dfa->nfa->rules[rule].start);
  uint32_t to = intern(dfa, n, rule);
  if (!dfa->full)
    dfa->starts[rule] = to;
  return to;
}

uint32_t lls_dfa_build_next(struct lls_dfa *dfa, uint32_t state, uint8_t byte_class)
{
  const struct lls_dfa_state *s = &dfa->states[state];
  uint8_t byte = dfa->nfa->representative[byte_class];
  uint32_t n = 0, rule = s->rule;
  begin(dfa);
  dfa->work += s->n_set;
  for (uint32_t i = 0; i < s->n_set; i++) {
    const struct lls_nfa_state *from = &dfa->nfa->states[dfa->sets[s->set + i]];
    if (from->kind == LLS_NFA_RANGE && from->lo <= byte && byte <= from->hi)
      add_closure(dfa, &n, from->out);
  }
  uint32_t to = intern(dfa, n, rule);
  if (!dfa->full)
    dfa->next[(size_t)state * dfa->nfa->n_classes + byte_class] = to;
  return to;
}

uint32_t lls_dfa_after_call(struct lls_dfa *dfa, uint32_t state, uint32_t call)
{
  const struct lls_dfa_state *s = &dfa->states[state];
  struct lls_dfa_call *c = &dfa->calls[s->calls + call];
  uint32_t n = 0;
  if (c->to != LLS_DFA_UNKNOWN)
    return c->to;
  begin(dfa);
  dfa->work += s->n_set;
  for (uint32_t i = 0; i < s->n_set; i++) {
    const struct lls_nfa_state *from = &dfa->nfa->states[dfa->sets[s->set + i]];
    if (from->kind == LLS_NFA_CALL && from->other == c->rule)
      add_closure(dfa, &n, from->out);
  }
  uint32_t to = intern(dfa, n, s->rule);
  if (!dfa->full)
    dfa->calls[dfa->states[state].calls + call].to = to;
  return to;
}
