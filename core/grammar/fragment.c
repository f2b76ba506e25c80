/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragments of states: the vocabulary's trie is walked in the state's rule alone. Where
 * the rule ends in a token, and the next byte is one that may follow the rule anywhere in
 * the grammar, the rest of the token is a suffix.
 */
#include "core/grammar/fragment.h"

#include "core/grammar/byte_kinds.h"
#include "core/grammar/fragment_draft.h"
#include "core/grammar/fragment_loan.h"
#include "core/grammar/fragment_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES                                                                     \
  (16u << 20) /* of a grammar: some hundred fragments of large masks                     \
               */

static const struct lls_fragment none; /* its address: a state that has no fragment */

int lls_fragments_create(struct lls_fragments *f, struct lls_dfa *dfa,
                         const struct lls_vocabulary *vocabulary)
{
  *f = (struct lls_fragments){.dfa = dfa, .vocabulary = vocabulary};
  f->of_state = calloc(dfa->capacity, sizeof(struct lls_fragment *));
  f->stays = calloc(dfa->nfa->n_rules, sizeof *f->stays);
  int rc = f->of_state == NULL || f->stays == NULL ? -ENOMEM : 0;
  if (rc == 0)
    rc = lls_stacks_create(&f->stacks, dfa);
  if (rc == 0)
    rc = lls_fragment_memory_create(&f->memory, MEMORY_BYTES);
  if (rc == 0)
    rc = lls_draft_create(&f->draft, vocabulary);
  if (rc < 0)
    lls_fragments_free(f);
  return rc;
}

void lls_fragments_free(struct lls_fragments *f)
{
  free(f->of_state);
  free(f->stays);
  lls_stacks_free(&f->stacks);
  free(f->memory.base);
  lls_draft_free(f->draft);
  *f = (struct lls_fragments){0};
}

size_t lls_fragments_bytes(const struct lls_fragments *f)
{
  return f->memory.used + f->dfa->n_states * sizeof(struct lls_fragment *);
}

/* ---- a repetition that calls nothing ----------------------------------------------- */

struct place {
  uint32_t state, times; /* times that are done */
  bool between;          /* two of them */
  bool left;             /* the rule may have ended before this byte */
};

/* The rule takes no token of the node: it ended somewhere before, or they are not
 * allowed.
 */
static void end_on_path(struct lls_fragments *f, const struct place *at,
                        const uint8_t *bytes, uint32_t node)
{
  uint32_t depth = f->vocabulary->nodes[node].depth;
  for (uint32_t k = 1; k <= depth; k++)
    if (at[k].left)
      lls_draft_end(f->draft, bytes + k, depth - k, node, at[k - 1].times);
}

/* False where a time may end and go on as well: then it is not clear how many there are.
 * brief: tokens that the rule takes do not go on after it too, which without a bound on
 * times says nothing new of them. */
static bool walk_repetition(struct lls_fragments *f, uint32_t from,
                            const struct lls_nfa_rule *rule, bool brief)
{
  const struct lls_vocabulary *v = f->vocabulary;
  uint32_t start = lls_dfa_start(f->dfa, f->dfa->states[from].rule);
  struct place at[LLS_DRAFT_DEPTH];
  uint8_t bytes[LLS_DRAFT_DEPTH];
  at[0] = (struct place){.state = from};
  for (uint32_t i = 1; i < v->n_nodes && !f->draft->full && !f->dfa->full;) {
    f->walked++;
    const struct lls_trie_node *node = &v->nodes[i];
    struct place p = at[node->depth - 1];
    bool left = p.between && lls_byte_set_has(&rule->follow, node->byte);
    if (left && !brief)
      lls_draft_end(f->draft, NULL, 0, i, p.times);
    bytes[node->depth] = node->byte;
    at[node->depth].left = left;
    uint32_t to = lls_dfa_next(f->dfa, p.state, node->byte);
    const struct lls_dfa_state *state = &f->dfa->states[to];
    if (to == LLS_DFA_DEAD) {
      if (brief)
        end_on_path(f, at, bytes, i);
      i = node->end;
      continue;
    }
    if (state->accepts && !state->closed)
      return false;
    at[node->depth] = state->accepts ? (struct place){start, p.times + 1, true, left}
                                     : (struct place){to, p.times, false, left};
    lls_draft_add(f->draft, i, i + 1, p.times + 1);
    i++;
  }
  return true;
}

/* ---- what a repetition may go on with for ever ------------------------------------- */

#define STAYS_KNOWN (UINT64_C(1) << 62) /* no kind of a byte has this bit */

/* True if all that UTF-8 has from the state of a character on is taken by the rule, and
 * its time ends with the character. */
static bool takes_characters(struct lls_dfa *dfa, uint32_t state, uint8_t character)
{
  uint32_t known_to = LLS_DFA_UNKNOWN, known_next = LLS_UTF8_BROKEN;
  for (uint32_t byte = 0x80; byte < 0x100; byte++) {
    uint8_t next = lls_utf8_next(character, (uint8_t)byte);
    if (next == LLS_UTF8_BROKEN)
      continue;
    uint32_t to = lls_dfa_next(dfa, state, (uint8_t)byte);
    if (to == known_to && next == known_next)
      continue;
    if (to == LLS_DFA_DEAD ||
        (next == 0 ? !dfa->states[to].closed : !takes_characters(dfa, to, next)))
      return false;
    known_to = to;
    known_next = next;
  }
  return true;
}

static uint64_t find_stays(struct lls_dfa *dfa, uint32_t rule)
{
  uint32_t start = lls_dfa_start(dfa, rule);
  uint64_t stays = 0, leaves = 0;
  for (uint32_t byte = 0; byte < 0x80; byte++) {
    uint32_t to = lls_dfa_next(dfa, start, (uint8_t)byte);
    bool again = to != LLS_DFA_DEAD && dfa->states[to].closed;
    *(again ? &stays : &leaves) |= lls_byte_kind((uint8_t)byte);
  }
  if (takes_characters(dfa, start, 0))
    stays |= LLS_KIND_LONG;
  return stays & ~leaves;
}

/* The bytes for a thread between two times of a repetition; else 0. */
static uint64_t stays_of(struct lls_fragments *f, const struct lls_thread *t)
{
  uint32_t index = f->dfa->states[t->state].rule;
  const struct lls_nfa_rule *rule = &f->dfa->nfa->rules[index];
  if (!rule->counted || rule->calls || rule->max != LLS_GRAMMAR_UNBOUNDED ||
      t->state != lls_dfa_start(f->dfa, index))
    return 0;
  if (f->stays[index] == 0)
    f->stays[index] = find_stays(f->dfa, index) | STAYS_KNOWN;
  return f->stays[index];
}

/* True if some thread takes all that is below the node, and stays: most of the vocabulary
 * is like that inside of a string. Whether the rule may be left there as well is nothing
 * to such tokens. */
static bool goes_on_below(struct lls_fragments *f, const struct lls_configuration *c,
                          uint32_t node)
{
  const struct lls_vocabulary *v = f->vocabulary;
  uint64_t kinds = v->below[node];
  if ((kinds & LLS_KIND_LONG) != 0 && (v->whole[node] & 1) == 0)
    return false;
  for (uint32_t i = c->first; i < c->first + c->n; i++)
    if ((kinds & ~stays_of(f, &f->stacks.threads[i])) == 0)
      return true;
  return false;
}

/* ---- any other rule ---------------------------------------------------------------- */

struct walk {
  struct lls_configuration at[LLS_DRAFT_DEPTH];
  struct lls_stacks_mark mark[LLS_DRAFT_DEPTH];
  bool ended[LLS_DRAFT_DEPTH];
  uint32_t place[LLS_DRAFT_DEPTH]; /* in the repetition that lends, on the same bytes */
};

static struct lls_byte_set bytes_after(const struct lls_nfa_rule *rule)
{
  struct lls_byte_set set = rule->follow;
  for (int i = 0; i < 4 && rule->counted; i++)
    set.words[i] |= rule->first.words[i]; /* it may come once more */
  return set;
}

/* True if the node's subtree is as the repetition has it: so far there was one thread, in
 * the rule itself. */
static bool borrow(struct lls_fragments *f, struct walk *w, struct lls_loan *loan,
                   uint32_t node)
{
  const struct lls_trie_node *n = &f->vocabulary->nodes[node];
  const struct lls_configuration *before = &w->at[n->depth - 1];
  const struct lls_thread *t = &f->stacks.threads[before->first];
  uint32_t place = w->place[n->depth - 1];
  w->place[n->depth] = LLS_DFA_DEAD;
  if (loan->fragment == NULL || before->n != 1 || t->frame != LLS_STACKS_ROOT ||
      place == LLS_DFA_DEAD)
    return false;
  place = w->place[n->depth] = lls_loan_next(loan, f->dfa, place, n->byte);
  uint32_t to = lls_dfa_next(f->dfa, t->state, n->byte);
  if (place == LLS_DFA_DEAD || to == LLS_DFA_DEAD ||
      !lls_loan_covers(loan, f->dfa, to, place))
    return false;
  lls_draft_borrow(f->draft, loan->fragment, node);
  return true;
}

static void walk_rule(struct lls_fragments *f, uint32_t from,
                      const struct lls_nfa_rule *rule, struct lls_loan *loan)
{
  const struct lls_vocabulary *v = f->vocabulary;
  const struct lls_byte_set after = bytes_after(rule);
  struct lls_stacks *s = &f->stacks;
  struct walk w;
  w.at[0] = lls_stacks_begin_in(s, from);
  w.mark[0] = lls_stacks_mark(s);
  w.ended[0] = false;
  w.place[0] = loan->start;
  for (uint32_t i = 1; i < v->n_nodes && !f->draft->full && !s->full;) {
    f->walked++;
    const struct lls_trie_node *node = &v->nodes[i];
    uint32_t depth = node->depth;
    if (w.ended[depth - 1] && lls_byte_set_has(&after, node->byte))
      lls_draft_end(f->draft, NULL, 0, i, 0);
    if (borrow(f, &w, loan, i)) {
      i = node->end;
      continue;
    }
    lls_stacks_back(s, w.mark[depth - 1]);
    w.at[depth] = lls_stacks_step(s, &w.at[depth - 1], node->byte);
    w.mark[depth] = lls_stacks_mark(s);
    w.ended[depth] = s->root_reached;
    bool alive = w.at[depth].n > 0;
    if (alive && goes_on_below(f, &w.at[depth], i)) {
      lls_draft_add(f->draft, i, node->end, 0);
      i = node->end;
      continue;
    }
    if (alive || w.ended[depth])
      lls_draft_add(f->draft, i, i + 1, 0);
    /* a node that only what follows the rule can go through is left, but not skipped */
    if (!alive && w.ended[depth])
      for (i++; i < node->end; i = v->nodes[i].end) {
        if (lls_byte_set_has(&after, v->nodes[i].byte))
          lls_draft_end(f->draft, NULL, 0, i, 0);
      }
    else
      i = alive ? i + 1 : node->end;
  }
  if (f->draft->lender != NULL)
    lls_loan_repay(f, loan, &after);
}

/* ---- building ---------------------------------------------------------------------- */

static const struct lls_fragment *copy(struct lls_fragments *f)
{
  const struct lls_fragment *done = lls_draft_copy(f->draft, &f->memory);
  if (done != NULL)
    return done;
  f->memory.used = 0; /* all that was found so far is found again when it is needed */
  memset(f->of_state, 0, f->dfa->n_states * sizeof(struct lls_fragment *));
  return lls_draft_copy(f->draft, &f->memory);
}

static const struct lls_fragment *
build_repetition(struct lls_fragments *f, uint32_t state, const struct lls_nfa_rule *rule)
{
  struct lls_fragment_key key;
  bool shared = lls_fragment_key_of(f->dfa, state, &key);
  const struct lls_fragment *known =
      shared ? lls_fragment_store_find(f->vocabulary->fragments, &key) : NULL;
  if (known != NULL)
    return known;
  lls_draft_begin(f->draft, true);
  if (!walk_repetition(f, state, rule, false))
    return NULL;
  if (f->draft->full && rule->max == LLS_GRAMMAR_UNBOUNDED) {
    shared = false; /* with those of other bounds */
    lls_draft_begin(f->draft, true);
    walk_repetition(f, state, rule, true);
  }
  if (f->draft->full || f->dfa->full)
    return &none;
  if (shared)
    known = lls_fragment_store_add(f->vocabulary->fragments, &key, f->draft);
  return known != NULL ? known : copy(f);
}

/* The draft is free for the lender's own fragment, if that is not there yet. */
static void find_loan(struct lls_fragments *f, uint32_t state, struct lls_loan *loan)
{
  if (!lls_loan_find(f->dfa, state, loan))
    return;
  const struct lls_fragment *lender = lls_fragment_of(f, loan->start);
  if (lender != NULL && lender->counts && lender->bits[LLS_FRAGMENT_CUTS - 1] != NULL)
    loan->fragment = lender;
}

static const struct lls_fragment *build(struct lls_fragments *f, uint32_t state)
{
  const struct lls_nfa_rule *rule = &f->dfa->nfa->rules[f->dfa->states[state].rule];
  const struct lls_fragment *done = NULL;
  if (rule->counted && !rule->calls)
    done = build_repetition(f, state, rule);
  if (done != NULL)
    return done;
  struct lls_loan loan;
  find_loan(f, state, &loan);
  f->stacks.full = false;
  f->stacks.work = 0;
  lls_draft_begin(f->draft, false);
  walk_rule(f, state, rule, &loan);
  bool full = f->draft->full || f->stacks.full || f->dfa->full;
  done = full ? NULL : copy(f);
  return done != NULL ? done : &none;
}

const struct lls_fragment *lls_fragment_of(struct lls_fragments *f, uint32_t state)
{
  if (f->of_state[state] == NULL) {
    const struct lls_fragment *done = build(f, state);
    f->of_state[state] = done;
  }
  return f->of_state[state] != &none ? f->of_state[state] : NULL;
}
