/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks of the vocabulary's trie that build fragments. A walk can be interrupted and
 * resumed: the draft has its results, and the path to the next node is computed again.
 */
#ifndef LLS_GRAMMAR_FRAGMENT_WALKS_H
#define LLS_GRAMMAR_FRAGMENT_WALKS_H

#include "text/grammar/fragment.h"
#include "text/grammar/fragment_loan.h"

/* A fragment under construction. */
struct lls_fragment_job {
  bool active;
  bool repeats; /* the fragment's rule is a repetition that calls no rule */
  bool brief;   /* the fragment leaves out continuations after the rule for tokens that
                 * the rule itself takes: in an unbounded repetition they add nothing */
  uint32_t state;
  uint32_t node; /* next node of the trie */
  uint64_t most; /* work of the stacks beyond which the fragment is given up */
  struct lls_loan loan;
};

/* Returns the work done so far, in units of lls_grammar_fill_mask_some. */
uint64_t lls_fragments_work(const struct lls_fragments *f);

enum lls_walked {
  LLS_WALKED,         /* the draft is complete, or full */
  LLS_WALKED_SOME,    /* the work limit was reached */
  LLS_WALKED_UNCLEAR, /* a repetition may both end and continue at the same byte */
};

enum lls_walked lls_fragment_walk_repetition(struct lls_fragments *f,
                                             struct lls_fragment_job *job,
                                             uint64_t until);
enum lls_walked lls_fragment_walk_rule(struct lls_fragments *f,
                                       struct lls_fragment_job *job, uint64_t until);

#endif
