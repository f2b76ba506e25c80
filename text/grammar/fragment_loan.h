/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fragment may borrow from that of a repetition. In a property's name that may still
 * become any other, nearly every byte leads to where the inside of a string goes
 * on. What may follow there is what follows the byte in the repetition itself, so that
 * the repetition's fragment has it: nothing below such a node needs a walk.
 */
#ifndef LLS_GRAMMAR_FRAGMENT_LOAN_H
#define LLS_GRAMMAR_FRAGMENT_LOAN_H

#include "text/grammar/fragment.h"

#define LLS_LOAN_PAIRS 32

struct lls_loan {
  const struct lls_fragment *fragment; /* of the start; NULL: no loan */
  uint32_t start;                      /* the repetition's first state */
  uint32_t after;                      /* the state its calls return to */
  struct {
    uint32_t state, place;
  } pairs[LLS_LOAN_PAIRS]; /* (n_pairs) known to go on in the same way */
  uint32_t n_pairs;
};

/* A repetition to which some byte leads from the state. False if there is none. Whoever
 * asks sets the fragment. */
bool lls_loan_find(struct lls_dfa *dfa, uint32_t state, struct lls_loan *loan);

/* The place in the repetition after a byte; LLS_DFA_DEAD: it does not take it. The start
 * is between two times as well. */
uint32_t lls_loan_next(const struct lls_loan *loan, struct lls_dfa *dfa, uint32_t place,
                       uint8_t byte);

/* True if the state goes on as the place in the repetition does, the first time done. */
bool lls_loan_covers(struct lls_loan *loan, struct lls_dfa *dfa, uint32_t state,
                     uint32_t place);

/* Completes a draft that borrowed: adds the tokens of the borrowed subtrees that leave
 * the repetition. after: the bytes that may follow the draft's rule. */
void lls_loan_repay(struct lls_fragments *f, const struct lls_loan *loan,
                    const struct lls_byte_set *after);

#endif
