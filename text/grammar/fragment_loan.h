/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fragment can borrow results from the fragment of a repetition. In a property name
 * that can still become any other name, nearly every byte leads to a state that
 * continues like the inside of a string. The tokens below such a trie node are the same
 * as those after this byte in the repetition, whose fragment already has them: no walk
 * is needed.
 */
#ifndef LLS_GRAMMAR_FRAGMENT_LOAN_H
#define LLS_GRAMMAR_FRAGMENT_LOAN_H

#include "text/grammar/fragment.h"

#define LLS_LOAN_PAIRS 32

struct lls_loan {
  /* fragment of the repetition's first state; NULL: no loan */
  const struct lls_fragment *fragment;
  uint32_t start; /* first state of the repetition */
  uint32_t after; /* state to which calls of the repetition return */
  struct {
    uint32_t state, place;
  } pairs[LLS_LOAN_PAIRS]; /* (n_pairs) states known to continue in the same way */
  uint32_t n_pairs;
};

/* Finds a repetition to which some byte leads from the state. Returns false if there is
 * none. The caller sets loan->fragment. */
bool lls_loan_find(struct lls_dfa *dfa, uint32_t state, struct lls_loan *loan);

/* Returns the state of the repetition after a byte, or LLS_DFA_DEAD if the repetition
 * does not accept it. The start also stands for the position between two repetitions. */
uint32_t lls_loan_next(const struct lls_loan *loan, struct lls_dfa *dfa, uint32_t place,
                       uint8_t byte);

/* Returns true if the state continues like state `place` of the repetition, of which
 * the first time is done. */
bool lls_loan_covers(struct lls_loan *loan, struct lls_dfa *dfa, uint32_t state,
                     uint32_t place);

/* Completes a draft that borrowed: adds the tokens of the borrowed subtrees in which
 * the repetition ends. after: the bytes that may follow the draft's rule. */
void lls_loan_repay(struct lls_fragments *f, const struct lls_loan *loan,
                    const struct lls_byte_set *after);

#endif
