/* SPDX-License-Identifier: Apache-2.0 */
/* See fragment_walks.h. Each visited node costs at least one unit of work. */
#include "text/grammar/fragment_walks.h"

#include "text/grammar/byte_kinds.h"
#include "text/grammar/fragment_draft.h"
#include "text/grammar/trie_walk.h"

uint64_t lls_fragments_work(const struct lls_fragments *f)
{
  return f->dfa->work + f->stacks.work + f->draft->work;
}

/* ---- repetitions that call no rule ------------------------------------------------- */

struct place {
  uint32_t state, times; /* repetitions done */
  bool between;          /* between two repetitions */
  bool left;             /* the rule may have ended before this byte */
};

/* The path to a node. */
struct repetition {
  struct lls_dfa *dfa;
  const struct lls_vocabulary *vocabulary;
  const struct lls_nfa_rule *rule;
  uint32_t start;
  bool unclear; /* a repetition may both end and continue: the number of repetitions is
                 * ambiguous */
  struct place at[LLS_DRAFT_DEPTH];
  uint8_t bytes[LLS_DRAFT_DEPTH];
};

/* Extends the path by the node's byte. Returns false if the rule does not take it. */
static bool go_to(struct repetition *r, uint32_t index)
{
  const struct lls_trie_node *node = &r->vocabulary->nodes[index];
  struct place p = r->at[node->depth - 1], *at = &r->at[node->depth];
  uint32_t to = lls_dfa_next(r->dfa, p.state, node->byte);
  const struct lls_dfa_state *state = &r->dfa->states[to];
  r->dfa->work++;
  r->bytes[node->depth] = node->byte;
  at->left = p.between && lls_byte_set_has(&r->rule->follow, node->byte);
  if (to == LLS_DFA_DEAD)
    return false;
  r->unclear |= state->accepts && !state->closed;
  *at = state->accepts ? (struct place){r->start, p.times + 1, true, at->left}
                       : (struct place){to, p.times, false, at->left};
  return true;
}

/* Handles a node whose tokens the rule does not take whole: adds them as suffixes at
 * each place of the path where the rule may have ended. */
static void end_on_path(struct lls_fragment_draft *draft, const struct repetition *r,
                        uint32_t node)
{
  uint32_t depth = r->vocabulary->nodes[node].depth;
  for (uint32_t k = 1; k <= depth; k++)
    if (r->at[k].left)
      lls_draft_end(draft, r->bytes + k, depth - k, node, r->at[k - 1].times);
}

static void begin_repetition(struct repetition *r, struct lls_fragments *f,
                             const struct lls_fragment_job *job)
{
  const struct lls_vocabulary *v = f->vocabulary;
  uint32_t index = f->dfa->states[job->state].rule;
  r->dfa = f->dfa;
  r->vocabulary = v;
  r->rule = &f->dfa->nfa->rules[index];
  r->start = lls_dfa_start(f->dfa, index);
  r->unclear = false;
  r->at[0] = (struct place){.state = job->state};
  for (uint32_t i = 1; i < job->node;) {
    bool above = v->nodes[i].end > job->node;
    if (above)
      go_to(r, i);
    i = above ? i + 1 : v->nodes[i].end;
  }
}

enum lls_walked lls_fragment_walk_repetition(struct lls_fragments *f,
                                             struct lls_fragment_job *job, uint64_t until)
{
  const struct lls_vocabulary *v = f->vocabulary;
  struct repetition r;
  uint32_t i = job->node;
  begin_repetition(&r, f, job);
  while (i < v->n_nodes && !f->draft->full && !f->dfa->full) {
    const struct lls_trie_node *node = &v->nodes[i];
    bool taken = go_to(&r, i);
    if (r.unclear)
      return LLS_WALKED_UNCLEAR;
    if (r.at[node->depth].left && !job->brief)
      lls_draft_end(f->draft, NULL, 0, i, r.at[node->depth - 1].times);
    if (taken)
      lls_draft_add(f->draft, i, i + 1, r.at[node->depth - 1].times + 1);
    else if (job->brief)
      end_on_path(f->draft, &r, i);
    i = taken ? i + 1 : node->end;
    if (lls_fragments_work(f) >= until)
      break;
  }
  job->node = i;
  return i < v->n_nodes && !f->draft->full && !f->dfa->full ? LLS_WALKED_SOME
                                                            : LLS_WALKED;
}

/* ---- what an unbounded repetition accepts forever ---------------------------------- */

#define STAYS_KNOWN (UINT64_C(1) << 62) /* no kind of a byte has this bit */

/* Returns true if the rule takes every valid continuation of a UTF-8 character in the
 * state `character`, and its repetition ends with the character. */
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

/* Returns the kinds of bytes that a thread between two unbounded repetitions accepts
 * forever; else 0. */
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

/* Returns true if some thread accepts all bytes below the node and stays in its rule:
 * inside a string this holds for most of the vocabulary. Whether the rule may also end
 * there is irrelevant for such tokens. */
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

struct rule_walk {
  struct lls_fragments *f;
  struct lls_fragment_job *job;
  struct lls_byte_set after;
  struct lls_walk w;
  uint32_t place[LLS_DRAFT_DEPTH]; /* state of the lending repetition after the same
                                    * bytes */
};

static struct lls_byte_set bytes_after(const struct lls_nfa_rule *rule)
{
  struct lls_byte_set set = rule->follow;
  for (int i = 0; i < 4 && rule->counted; i++)
    /* a counted rule may also begin its next repetition */
    set.words[i] |= rule->first.words[i];
  return set;
}

/* Finds the lending repetition's state at a node's byte; LLS_DFA_DEAD if there is none.
 * A loan requires that the walk so far had one thread, in the rule itself. */
static void find_place(struct rule_walk *r, const struct lls_trie_node *n)
{
  const struct lls_loan *loan = &r->job->loan;
  const struct lls_configuration *before = &r->w.at[n->depth - 1];
  uint32_t place = r->place[n->depth - 1], *found = &r->place[n->depth];
  *found = LLS_DFA_DEAD;
  if (loan->fragment != NULL && place != LLS_DFA_DEAD && before->n == 1 &&
      r->f->stacks.threads[before->first].frame == LLS_STACKS_ROOT)
    *found = lls_loan_next(loan, r->f->dfa, place, n->byte);
}

/* Copies the subtree of a node from the lending repetition's fragment
 * (fragment_loan.h). Returns false if the rule continues differently there. */
static bool borrow(struct rule_walk *r, uint32_t node)
{
  const struct lls_trie_node *n = &r->f->vocabulary->nodes[node];
  struct lls_fragments *f = r->f;
  find_place(r, n);
  uint32_t place = r->place[n->depth];
  if (place == LLS_DFA_DEAD)
    return false;
  const struct lls_thread *t = &f->stacks.threads[r->w.at[n->depth - 1].first];
  uint32_t to = lls_dfa_next(f->dfa, t->state, n->byte);
  if (to == LLS_DFA_DEAD || !lls_loan_covers(&r->job->loan, f->dfa, to, place))
    return false;
  lls_draft_borrow(f->draft, r->job->loan.fragment, node);
  return true;
}

static void begin_rule(struct rule_walk *r)
{
  struct lls_fragments *f = r->f;
  const struct lls_vocabulary *v = f->vocabulary;
  uint32_t state = r->job->state;
  r->after = bytes_after(&f->dfa->nfa->rules[f->dfa->states[state].rule]);
  struct lls_configuration from = lls_stacks_begin_in(&f->stacks, state);
  lls_walk_begin(&r->w, f->walk, &f->stacks, &from, v->max_depth);
  r->place[0] = r->job->loan.start;
  for (uint32_t i = 1; i < r->job->node && !f->stacks.full;) {
    bool above = v->nodes[i].end > r->job->node;
    if (above) {
      find_place(r, &v->nodes[i]);
      lls_walk_step(&r->w, v->nodes[i].depth, v->nodes[i].byte);
    }
    i = above ? i + 1 : v->nodes[i].end;
  }
}

/* Adds the subtrees of a node that only bytes after the rule can enter. */
static void end_below(struct rule_walk *r, uint32_t node)
{
  const struct lls_trie_node *nodes = r->f->vocabulary->nodes;
  for (uint32_t i = node + 1; i < nodes[node].end; i = nodes[i].end)
    if (lls_byte_set_has(&r->after, nodes[i].byte))
      lls_draft_end(r->f->draft, NULL, 0, i, 0);
}

/* Handles one node, or its subtree. Returns the next node. */
static uint32_t walk_node(struct rule_walk *r, uint32_t i)
{
  struct lls_fragments *f = r->f;
  const struct lls_trie_node *node = &f->vocabulary->nodes[i];
  uint32_t depth = node->depth;
  if (r->w.reached[depth - 1] && lls_byte_set_has(&r->after, node->byte))
    lls_draft_end(f->draft, NULL, 0, i, 0);
  if (borrow(r, i))
    return node->end;
  lls_walk_step(&r->w, depth, node->byte);
  bool alive = r->w.at[depth].n > 0, ended = r->w.reached[depth];
  if (alive && goes_on_below(f, &r->w.at[depth], i)) {
    lls_draft_add(f->draft, i, node->end, 0);
    return node->end;
  }
  if (alive || ended)
    lls_draft_add(f->draft, i, i + 1, 0);
  if (alive)
    return i + 1;
  if (ended)
    end_below(r, i);
  return node->end;
}

enum lls_walked lls_fragment_walk_rule(struct lls_fragments *f,
                                       struct lls_fragment_job *job, uint64_t until)
{
  const struct lls_vocabulary *v = f->vocabulary;
  const struct lls_stacks *s = &f->stacks;
  struct rule_walk r; /* too large to initialise as a whole */
  r.f = f;
  r.job = job;
  begin_rule(&r);
  uint32_t i = job->node;
  while (i < v->n_nodes && !f->draft->full && !s->full) {
    i = walk_node(&r, i);
    f->dfa->work++;
    if (lls_fragments_work(f) >= until)
      break;
  }
  job->node = i;
  if (i < v->n_nodes && !f->draft->full && !s->full)
    return LLS_WALKED_SOME;
  if (f->draft->lender != NULL && !s->full)
    lls_loan_repay(f, &job->loan, &r.after);
  return LLS_WALKED;
}
