/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes which tokens may follow. Each thread contributes the tokens that stay in its
 * rule (from the fragment of its state), and the tokens that continue after the rule
 * returns, found by walking the fragment's suffixes. Threads whose states have no
 * fragment walk the vocabulary together. The work of each call is bounded, since the
 * caller may be the step thread, which continues in a later step.
 */
#include "core/base/least.h"
#include "text/grammar/fragment_walks.h"
#include "text/grammar/grammar_internal.h"
#include "text/grammar/trie_walk.h"

#include <errno.h>
#include <string.h>

struct mask {
  struct lls_grammar *grammar;
  struct lls_stacks *stacks;
  const struct lls_vocabulary *vocabulary;
  struct lls_mask_progress *progress;
  uint32_t *bits;
  uint64_t until; /* limit on the grammar's work */
  bool made;      /* the last thread's fragment is complete */
};

static void allow(const struct mask *m, uint32_t token)
{
  m->bits[token / 32] |= 1u << (token % 32);
}

/* ---- a fragment's tokens ----------------------------------------------------------- */

static void add_list(const struct mask *m, const uint32_t *tokens, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    allow(m, tokens[i]);
}

static void add_bits(const struct mask *m, const uint32_t *bits)
{
  size_t words = lls_vocabulary_words(m->vocabulary);
  for (size_t i = 0; i < words; i++)
    m->bits[i] |= bits[i];
}

/* Adds the tokens that need at most `left` repetitions: one precomputed set for most of
 * them, and a list of the rest. */
static void add_tokens(const struct mask *m, const struct lls_fragment *f, uint32_t left)
{
  int cut = LLS_FRAGMENT_CUTS - 1;
  uint32_t n = f->n_tokens, listed = 0;
  if (f->counts && left < f->most_times) {
    n = f->up_to[left];
    for (cut = LLS_FRAGMENT_CUTS - 2; cut >= 0; cut--)
      if (1u << cut <= left && f->bits[cut] != NULL)
        break;
  }
  if (cut >= 0 && f->bits[cut] != NULL) {
    add_bits(m, f->bits[cut]);
    listed = cut == LLS_FRAGMENT_CUTS - 1
                 ? n
                 : f->up_to[1u << cut]; /* n is 0 if all tokens are stored as bits */
  }
  if (n > listed)
    add_list(m, f->tokens + listed, n - listed);
}

/* Repetitions of a thread's rule: done, and its bounds. */
struct count {
  uint32_t done, min, max;
};

static bool may_leave(const struct lls_fragment *f, const struct count *c, uint32_t times)
{
  uint64_t done = (uint64_t)c->done + times;
  return !f->counts || (done >= c->min && done <= c->max);
}

/* ---- walks ------------------------------------------------------------------------- */

static bool goes_on(const struct mask *m)
{
  return !m->stacks->full && lls_grammar_work(m->grammar) < m->until;
}

static void allow_suffix(const struct mask *m, const struct lls_fragment *f,
                         const struct count *count, uint32_t suffix)
{
  for (uint32_t t = f->suffixes[suffix].tokens; t != 0; t = f->suffix_tokens[t].next)
    if (may_leave(f, count, f->suffix_tokens[t].times))
      allow(m, f->suffix_tokens[t].token);
}

/* Walks below the root of the suffixes, starting in the configuration that the rule
 * returns to. */
static void walk_suffixes(struct mask *m, const struct lls_fragment *f,
                          const struct count *count, const struct lls_configuration *from)
{
  const struct lls_suffix *suffixes = f->suffixes;
  struct lls_walk w;
  uint32_t i = m->progress->node > 0 ? m->progress->node : 1;
  lls_walk_begin(&w, m->grammar->walk, m->stacks, from, m->vocabulary->max_depth);
  for (uint32_t k = 1; k < i && !m->stacks->full;) {
    if (suffixes[k].end > i)
      lls_walk_step(&w, suffixes[k].depth, suffixes[k].byte);
    k = suffixes[k].end > i ? k + 1 : suffixes[k].end;
  }
  do {
    lls_walk_step(&w, suffixes[i].depth, suffixes[i].byte);
    const struct lls_configuration *c = &w.at[suffixes[i].depth];
    if (c->n > 0 || c->ended)
      allow_suffix(m, f, count, i);
    i = c->n > 0 ? i + 1 : suffixes[i].end;
  } while (i < f->n_suffixes && goes_on(m));
  lls_walk_end(&w);
  m->progress->node = i < f->n_suffixes && !m->stacks->full ? i : 0;
}

static void walk_vocabulary(struct mask *m, const struct lls_configuration *from)
{
  const struct lls_vocabulary *v = m->vocabulary;
  struct lls_walk w;
  uint32_t i = m->progress->node > 0 ? m->progress->node : 1;
  lls_walk_begin(&w, m->grammar->walk, m->stacks, from, v->max_depth);
  for (uint32_t k = 1; k < i && !m->stacks->full;) {
    if (v->nodes[k].end > i)
      lls_walk_step(&w, v->nodes[k].depth, v->nodes[k].byte);
    k = v->nodes[k].end > i ? k + 1 : v->nodes[k].end;
  }
  while (i < v->n_nodes) {
    const struct lls_trie_node *node = &v->nodes[i];
    lls_walk_step(&w, node->depth, node->byte);
    const struct lls_configuration *c = &w.at[node->depth];
    if (c->n > 0 || c->ended)
      for (uint32_t t = node->first_token; t < v->nodes[i + 1].first_token; t++)
        allow(m, v->tokens[t]);
    i = c->n > 0 ? i + 1 : node->end;
    if (!goes_on(m))
      break;
  }
  lls_walk_end(&w);
  m->progress->node = i < v->n_nodes && !m->stacks->full ? i : 0;
}

/* ---- a thread ---------------------------------------------------------------------- */

/* Returns true if an earlier thread is in the same state, with as many repetitions done
 * if these count: the earlier thread's turn has covered this one. */
static bool has_come(const struct mask *m, bool counts, uint32_t index)
{
  const struct lls_stacks *s = m->stacks;
  const struct lls_thread *t = &s->threads[index];
  for (uint32_t i = 0; i < index; i++)
    if (s->threads[i].state == t->state &&
        (!counts || s->frames[s->threads[i].frame].done == s->frames[t->frame].done))
      return true;
  return false;
}

static void add_fragment(struct mask *m, const struct lls_fragment *f,
                         const struct lls_configuration *from, uint32_t index)
{
  struct lls_stacks *s = m->stacks;
  const struct lls_thread thread = s->threads[index];
  const struct lls_frame *frame = &s->frames[thread.frame];
  const struct lls_nfa_rule *rule = &s->dfa->nfa->rules[frame->rule];
  const struct count count = {frame->done, rule->min, rule->max};
  s->work++;
  if (m->progress->node == 0)
    add_tokens(m, f, rule->max - frame->done);
  if (f->n_suffixes == 0)
    return;
  struct lls_stacks_mark mark = lls_stacks_mark(s);
  struct lls_configuration after =
      f->counts ? lls_stacks_leave(s, from, thread.state, &count.done)
                : lls_stacks_complete(s, from, thread.state);
  if (after.n > 0)
    walk_suffixes(m, f, &count, &after);
  lls_stacks_back(s, mark);
}

/* Adds the tokens of the thread's fragment; without a fragment, marks the thread for
 * walk_the_rest. */
static void add_thread(struct mask *m, const struct lls_configuration *from,
                       uint32_t index)
{
  struct lls_fragments *fragments = &m->grammar->fragments;
  uint32_t state = m->stacks->threads[index].state;
  uint64_t done = lls_grammar_work(m->grammar), made = lls_fragments_work(fragments);
  uint64_t left = m->until > done ? m->until - done : 0;
  m->made = lls_fragment_make(fragments, state, made + left);
  const struct lls_fragment *f = m->made ? lls_fragment_of(fragments, state) : NULL;
  if (f == NULL && m->made)
    m->progress->walks[index / 32] |= 1u << (index % 32);
  else if (f != NULL && !has_come(m, f->counts, index))
    add_fragment(m, f, from, index);
}

/* All threads that have no fragment walk the vocabulary together. */
static void walk_the_rest(struct mask *m, uint32_t n)
{
  struct lls_stacks *s = m->stacks;
  struct lls_configuration c = {.first = s->n_threads};
  for (uint32_t i = 0; i < n; i++)
    if ((m->progress->walks[i / 32] >> (i % 32) & 1) != 0)
      s->threads[s->n_threads++] = s->threads[i];
  c.n = s->n_threads - c.first;
  if (c.n > 0)
    walk_vocabulary(m, &c);
}

/* ---- the mask --------------------------------------------------------------------- */

static void allow_ends(const struct mask *m)
{
  const struct lls_vocabulary *v = m->vocabulary;
  for (uint32_t i = 0; i < v->n_ends; i++)
    if (v->ends[i] >= 0 && (uint32_t)v->ends[i] < v->size)
      allow(m, (uint32_t)v->ends[i]);
}

static int any(const uint32_t *bits, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (bits[i] != 0)
      return 1;
  return 0;
}

/* Returns true if the mask is complete. Tokens from a fragment that was cleared since
 * remain valid; but a rebuilt fragment may order its suffixes differently, so their
 * walk restarts. */
static bool add_threads(struct mask *m, const struct lls_configuration *from)
{
  const uint32_t n = from->n, cleared = m->grammar->fragments.cleared;
  struct lls_mask_progress *p = m->progress;
  bool done = true;
  if (p->thread < n && p->cleared != cleared)
    p->node = 0;
  while (done && p->thread <= n) {
    m->made = true;
    if (p->thread < n)
      add_thread(m, from, p->thread);
    else
      walk_the_rest(m, n);
    done = m->made && p->node == 0;
    p->thread += done;
    done &= goes_on(m) || p->thread > n;
  }
  p->cleared = m->grammar->fragments.cleared;
  return done;
}

static int fill(struct mask *m, struct lls_grammar_state *state, uint64_t *work)
{
  struct lls_grammar *g = state->grammar;
  struct lls_configuration c = lls_state_open(state);
  uint64_t before = lls_grammar_work(g);
  uint64_t left = LLS_MASK_MOST - lls_least_u64(LLS_MASK_MOST, m->progress->work);
  m->until = before + lls_least_u64(*work, left);
  g->stacks.most = g->stacks.work + left;
  bool whole = add_threads(m, &c);
  uint64_t done = lls_grammar_work(g) - before;
  m->progress->work += done;
  *work -= lls_least_u64(*work, done);
  g->stacks.full |= g->dfa.full || (!whole && m->progress->work >= LLS_MASK_MOST);
  int rc = lls_state_close(state);
  return rc < 0 || whole ? rc : -EAGAIN;
}

int lls_grammar_fill_mask_some(struct lls_grammar_state *state, uint32_t *bits,
                               struct lls_mask_progress *progress, uint64_t *work)
{
  struct lls_grammar *g = state->grammar;
  struct mask m = {.grammar = g,
                   .stacks = &g->stacks,
                   .vocabulary = g->vocabulary,
                   .progress = progress,
                   .bits = bits};
  size_t words = lls_vocabulary_words(g->vocabulary);
  if (progress->work == 0)
    memset(bits, 0, words * sizeof *bits);
  if (state->finished)
    return 0;
  if (state->may_end)
    allow_ends(&m);
  int rc = fill(&m, state, work);
  if (rc == -EAGAIN)
    return rc;
  *progress = (struct lls_mask_progress){0};
  return rc < 0 ? rc : any(bits, words);
}

int lls_grammar_fill_mask(struct lls_grammar_state *state, uint32_t *bits)
{
  struct lls_mask_progress progress = {0};
  uint64_t work = UINT64_MAX;
  return lls_grammar_fill_mask_some(state, bits, &progress, &work);
}
