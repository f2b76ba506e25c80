/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions and texts as one automaton over code points that is not deterministic
 * (Thompson, CACM 11(6), 1968). */
#ifndef LLS_GRAMMAR_REGEX_STATES_H
#define LLS_GRAMMAR_REGEX_STATES_H

#include "text/grammar/regex_tree.h"

enum lls_regex_state_kind {
  LLS_REGEX_STATE_RANGES, /* a code point of the ranges, then `out` */
  LLS_REGEX_STATE_SPLIT,  /* out or other */
  LLS_REGEX_STATE_END,    /* of expression `out` */
};

struct lls_regex_state {
  enum lls_regex_state_kind kind;
  uint32_t out, other;
  const struct lls_grammar_range *ranges; /* (n_ranges) of the expression's tree */
  uint32_t n_ranges;
  struct lls_grammar_range one; /* of a text's character, which has no tree */
};

struct lls_regex_states {
  struct lls_regex_state *list; /* (n) of (most) */
  uint32_t n, most;
};

/* The first state of what matches the whole expression, whose anchors are resolved, as
 * number `end`; the tree lives on. LLS_REGEX_END: there are more states than `most`. */
uint32_t lls_regex_states_add(struct lls_regex_states *s, const struct lls_regex *regex,
                              uint32_t root, uint32_t end);
/* The same of a text. */
uint32_t lls_regex_states_text(struct lls_regex_states *s, const char *text, size_t n,
                               uint32_t end);

#endif
