/* SPDX-License-Identifier: Apache-2.0 */
/* Finds states that continue like a repetition; see fragment_loan.h. */
#include "text/grammar/fragment_loan.h"

#include "text/grammar/fragment_draft.h"

#define MOST_DEPTH 8 /* bytes of one repetition: an escape or a character */

static bool same_bytes(struct lls_dfa *dfa, uint32_t a, uint32_t b)
{
  const struct lls_nfa *nfa = dfa->nfa;
  for (uint32_t c = 0; c < nfa->n_classes; c++)
    if (lls_dfa_next(dfa, a, nfa->representative[c]) !=
        lls_dfa_next(dfa, b, nfa->representative[c]))
      return false;
  return true;
}

/* Returns true if the state's only call is an unbounded repetition, and skipping the
 * call has the same continuations as returning from it. */
static bool is_before_repetition(struct lls_dfa *dfa, uint32_t state, uint32_t *start,
                                 uint32_t *after)
{
  const struct lls_dfa_state *s = &dfa->states[state];
  if (s->n_calls != 1 || s->accepts)
    return false;
  uint32_t index = dfa->calls[s->calls].rule;
  const struct lls_nfa_rule *rule = &dfa->nfa->rules[index];
  if (!rule->counted || rule->calls || rule->min > 1 ||
      rule->max != LLS_GRAMMAR_UNBOUNDED)
    return false;
  *start = lls_dfa_start(dfa, index);
  *after = lls_dfa_after_call(dfa, state, 0);
  const struct lls_dfa_state *a = &dfa->states[*after];
  return *after != LLS_DFA_DEAD && a->n_calls == 0 && !a->accepts &&
         same_bytes(dfa, state, *after) && !dfa->full;
}

bool lls_loan_find(struct lls_dfa *dfa, uint32_t state, struct lls_loan *loan)
{
  uint32_t seen = LLS_DFA_DEAD;
  *loan = (struct lls_loan){0};
  for (uint32_t c = 0; c < dfa->nfa->n_classes; c++) {
    uint32_t to = lls_dfa_next(dfa, state, dfa->nfa->representative[c]);
    if (to != LLS_DFA_DEAD && to != seen &&
        is_before_repetition(dfa, to, &loan->start, &loan->after))
      return true;
    seen = to;
  }
  return false;
}

uint32_t lls_loan_next(const struct lls_loan *loan, struct lls_dfa *dfa, uint32_t place,
                       uint8_t byte)
{
  uint32_t to = lls_dfa_next(dfa, place, byte);
  if (!dfa->states[to].accepts)
    return to;
  return dfa->states[to].closed ? loan->start : LLS_DFA_DEAD;
}

static bool is_covered(struct lls_loan *loan, struct lls_dfa *dfa, uint32_t state,
                       uint32_t place, int depth);

/* Compares two states within one repetition: each byte is rejected by both, or leads to
 * states that continue alike. */
static bool goes_on_alike(struct lls_loan *loan, struct lls_dfa *dfa, uint32_t state,
                          uint32_t place, int depth)
{
  const struct lls_nfa *nfa = dfa->nfa;
  const struct lls_dfa_state *s = &dfa->states[state];
  if (s->accepts || s->n_calls > 0 || depth == MOST_DEPTH)
    return false;
  for (uint32_t c = 0; c < nfa->n_classes; c++) {
    uint8_t byte = nfa->representative[c];
    uint32_t to = lls_dfa_next(dfa, state, byte);
    uint32_t next = lls_loan_next(loan, dfa, place, byte);
    if ((to == LLS_DFA_DEAD) != (next == LLS_DFA_DEAD) ||
        (to != LLS_DFA_DEAD && !is_covered(loan, dfa, to, next, depth + 1)))
      return false;
  }
  return true;
}

static bool is_covered(struct lls_loan *loan, struct lls_dfa *dfa, uint32_t state,
                       uint32_t place, int depth)
{
  uint32_t start, after;
  for (uint32_t i = 0; i < loan->n_pairs; i++)
    if (loan->pairs[i].state == state && loan->pairs[i].place == place)
      return true;
  bool alike = place == loan->start ? is_before_repetition(dfa, state, &start, &after) &&
                                          start == loan->start && after == loan->after
                                    : goes_on_alike(loan, dfa, state, place, depth);
  /* a pair that cannot be stored would be compared again on every path to it */
  if (!alike || loan->n_pairs == LLS_LOAN_PAIRS)
    return false;
  loan->pairs[loan->n_pairs].state = state;
  loan->pairs[loan->n_pairs++].place = place;
  return true;
}

bool lls_loan_covers(struct lls_loan *loan, struct lls_dfa *dfa, uint32_t state,
                     uint32_t place)
{
  return is_covered(loan, dfa, state, place, 0) && !dfa->full;
}

/* ---- what follows the repetition --------------------------------------------------- */

/* Adds the continuations after the repetition in the borrowed subtrees, below one of
 * the repetition's suffixes. */
static void walk_lent(struct lls_fragments *f, uint32_t suffix,
                      const struct lls_configuration *from,
                      const struct lls_byte_set *after)
{
  const struct lls_suffix *suffixes = f->draft->lender->suffixes;
  struct lls_stacks *s = &f->stacks;
  struct lls_stacks_mark mark = lls_stacks_mark(s);
  for (uint32_t i = suffix + 1; i < suffixes[suffix].end && !s->full && !f->draft->full;
       i = suffixes[i].end) {
    struct lls_configuration to = lls_stacks_step(s, from, suffixes[i].byte);
    bool ended = s->root_reached;
    if (to.n > 0 || ended)
      lls_draft_add_lent(f->draft, i);
    for (uint32_t k = i + 1; ended && k < suffixes[i].end; k = suffixes[k].end)
      if (lls_byte_set_has(after, suffixes[k].byte))
        lls_draft_end_lent(f->draft, k, 0);
    if (to.n > 0)
      walk_lent(f, i, &to, after);
    lls_stacks_back(s, mark);
  }
}

void lls_loan_repay(struct lls_fragments *f, const struct lls_loan *loan,
                    const struct lls_byte_set *after)
{
  lls_draft_close_loan(f->draft);
  if (loan->fragment->n_suffixes == 0)
    return;
  struct lls_configuration from = lls_stacks_begin_in(&f->stacks, loan->after);
  walk_lent(f, 0, &from, after);
}
