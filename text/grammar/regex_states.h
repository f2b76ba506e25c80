/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions and texts as one nondeterministic automaton over code points (Thompson,
 * CACM 11(6), 1968). */
#ifndef LLS_GRAMMAR_REGEX_STATES_H
#define LLS_GRAMMAR_REGEX_STATES_H

#include "text/grammar/regex_tree.h"

enum lls_regex_state_kind {
  LLS_REGEX_STATE_RANGES, /* a code point of the ranges, then `out` */
  LLS_REGEX_STATE_SPLIT,  /* `out` or `other`, without a code point */
  LLS_REGEX_STATE_END,    /* the end of expression number `out` */
};

struct lls_regex_state {
  enum lls_regex_state_kind kind;
  uint32_t out, other;
  const struct lls_grammar_range *ranges; /* (n_ranges) in the expression's tree */
  uint32_t n_ranges;
  struct lls_grammar_range one; /* a code point of a plain text, which has no tree */
};

struct lls_regex_states {
  struct lls_regex_state *list; /* (n), room for `most` */
  uint32_t n, most;
};

/* Adds states that match the whole expression, whose anchors are resolved, under the
 * number `end`. Returns the first of them, or LLS_REGEX_END if more than `most` states
 * were needed. The states refer to the expression's tree. */
uint32_t lls_regex_states_add(struct lls_regex_states *s, const struct lls_regex *regex,
                              uint32_t root, uint32_t end);
/* Like lls_regex_states_add, for a plain text. */
uint32_t lls_regex_states_text(struct lls_regex_states *s, const char *text, size_t n,
                               uint32_t end);

#endif
