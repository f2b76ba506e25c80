/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walks of the vocabulary's trie that fragments are made by. Each goes on where it
 * was left: the draft has what it found, the way to the next node is made again.
 */
#ifndef LLS_GRAMMAR_FRAGMENT_WALKS_H
#define LLS_GRAMMAR_FRAGMENT_WALKS_H

#include "text/grammar/fragment.h"
#include "text/grammar/fragment_loan.h"

/* A fragment that is being made. */
struct lls_fragment_job {
  bool active;
  bool repeats; /* its rule is a repetition that calls nothing */
  bool brief;   /* tokens that the rule takes do not go on after it too, which without a
                 * bound on times says nothing new of them */
  uint32_t state;
  uint32_t node; /* of the trie, the next */
  uint64_t most; /* work of the stacks beyond it: there is no fragment */
  struct lls_loan loan;
};

/* The work that was done so far, in units of lls_grammar_fill_mask_some. */
uint64_t lls_fragments_work(const struct lls_fragments *f);

enum lls_walked {
  LLS_WALKED,         /* the draft is whole, or full */
  LLS_WALKED_SOME,    /* so much work was done */
  LLS_WALKED_UNCLEAR, /* a time may end and go on as well */
};

enum lls_walked lls_fragment_walk_repetition(struct lls_fragments *f,
                                             struct lls_fragment_job *job,
                                             uint64_t until);
enum lls_walked lls_fragment_walk_rule(struct lls_fragments *f,
                                       struct lls_fragment_job *job, uint64_t until);

#endif
