/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the rules of a grammar deterministic, one state at a time as texts reach it. A
 * DFA state is a set of NFA states of one rule; besides its bytes it has the calls that
 * can be made in it. All memory is reserved at creation, and touched when used. If no
 * state is left, a function sets `full` and returns LLS_DFA_DEAD; callers clear `full`
 * before they call.
 */
#ifndef LLS_GRAMMAR_DFA_H
#define LLS_GRAMMAR_DFA_H

#include "text/grammar/nfa.h"

#define LLS_DFA_UNKNOWN 0 /* a transition that is not computed yet */
#define LLS_DFA_DEAD    1

#define LLS_DFA_NO_BYTE (-1)
#define LLS_DFA_BYTES   (-2) /* several bytes */

struct lls_dfa_call {
  uint32_t rule;
  uint32_t to; /* the state after the call, or LLS_DFA_UNKNOWN */
};

struct lls_dfa_state {
  uint32_t set, n_set;     /* NFA states: place and number in `sets`, ascending */
  uint32_t calls, n_calls; /* called rules: place and number in `calls` */
  uint32_t rule;
  int16_t only; /* the only byte that continues the rule; or LLS_DFA_NO_BYTE, _BYTES */
  bool accepts; /* the rule may end here */
  bool closed;  /* the rule must end here: no byte continues it */
};

struct lls_dfa {
  const struct lls_nfa *nfa;
  struct lls_dfa_state *states; /* (capacity) */
  uint32_t n_states, capacity;
  uint32_t *next; /* (capacity, n_classes) */
  uint32_t *sets; /* (set_capacity) */
  uint32_t n_sets, set_capacity;
  struct lls_dfa_call *calls; /* (call_capacity) */
  uint32_t n_calls, call_capacity;
  uint32_t *slots; /* (slot_mask + 1) states, found by the hash of their sets */
  uint32_t slot_mask;
  uint32_t *starts;       /* (rules) */
  uint32_t *seen, *stack; /* (NFA states) for the closure being computed */
  uint32_t search;
  uint64_t work; /* entries of sets visited since creation */
  bool full;
};

int lls_dfa_create(struct lls_dfa *dfa, const struct lls_nfa *nfa, uint32_t states);
void lls_dfa_free(struct lls_dfa *dfa);
/* Returns the bytes in use. */
size_t lls_dfa_bytes(const struct lls_dfa *dfa);

uint32_t lls_dfa_start(struct lls_dfa *dfa, uint32_t rule);
uint32_t lls_dfa_build_next(struct lls_dfa *dfa, uint32_t state, uint8_t byte_class);
uint32_t lls_dfa_after_call(struct lls_dfa *dfa, uint32_t state, uint32_t call);

static inline uint32_t lls_dfa_next(struct lls_dfa *dfa, uint32_t state, uint8_t byte)
{
  uint8_t c = dfa->nfa->class_of[byte];
  uint32_t to = dfa->next[(size_t)state * dfa->nfa->n_classes + c];
  return to != LLS_DFA_UNKNOWN ? to : lls_dfa_build_next(dfa, state, c);
}

#endif
