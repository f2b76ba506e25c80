/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grammar as rules, each a nondeterministic automaton over bytes whose states may
 * call rules: a recursive transition network. Nodes that are small, or used once, are
 * written out where they are used, so that most of a grammar is regular and becomes
 * deterministic in dfa.h; nodes that repeat or are used often become called rules.
 *
 * A counted rule stands for min to max repetitions of its body: {0,1000} has the states
 * of one repetition. Repetitions of classes with many characters are such rules too,
 * bounded or not: the inside of a string is then one rule, the same in all grammars,
 * whose mask fragments all grammars share.
 *
 * No rule completes without a byte: where a called node may be empty, the caller has a
 * path around the call.
 */
#ifndef LLS_GRAMMAR_NFA_H
#define LLS_GRAMMAR_NFA_H

#include "text/grammar/compiled_grammar.h"

enum lls_nfa_kind {
  LLS_NFA_RANGE, /* a byte in [lo, hi], then out */
  LLS_NFA_SPLIT, /* out or other, without a byte */
  LLS_NFA_CALL,  /* rule `other`, then out */
  LLS_NFA_MATCH, /* the rule's end */
};

struct lls_nfa_state {
  uint8_t kind, lo, hi;
  uint32_t out, other;
};

/* A set of bytes. */
struct lls_byte_set {
  uint64_t words[4];
};

static inline bool lls_byte_set_has(const struct lls_byte_set *set, uint8_t byte)
{
  return (set->words[byte / 64] >> (byte % 64) & 1) != 0;
}

struct lls_nfa_rule {
  uint32_t start;
  uint32_t first_state, n_states; /* the rule's states, which are consecutive */
  uint32_t min, max;              /* repetitions of a counted rule; else 1 and 1 */
  bool counted, calls;
  struct lls_byte_set first, follow; /* bytes that may begin the rule; that may come
                                      * after it */
};

struct lls_nfa {
  struct lls_nfa_state *states; /* (n_states) */
  uint32_t n_states, state_capacity;
  struct lls_nfa_rule *rules; /* (n_rules) [0] is the root */
  uint32_t n_rules, rule_capacity;
  bool root_nullable;
  uint8_t class_of[256];       /* bytes that all states treat alike form one class */
  uint8_t representative[256]; /* (n_classes) one byte of each class */
  uint32_t n_classes;
};

int lls_nfa_build(const struct lls_grammar_tree *tree,
                  const struct lls_grammar_limits *limits, struct lls_nfa *nfa,
                  struct lls_error *err);
void lls_nfa_free(struct lls_nfa *nfa);

/* Computes first and follow of all rules, and the classes of bytes. */
int lls_nfa_analyse(struct lls_nfa *nfa);

#endif
