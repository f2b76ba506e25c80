/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tokens may follow: for each thread those that stay in its rule (a fragment), and
 * those that go on in what the rule returns to, found by walking the fragment's suffixes.
 * A thread whose state has no fragment walks the vocabulary. Walks are bounded in each
 * call, since the caller may be the step thread: who meets the bound goes on later.
 */
#include "core/base/least.h"
#include "core/grammar/fragment_draft.h"
#include "core/grammar/grammar_internal.h"

#include <errno.h>
#include <string.h>

struct mask {
  struct lls_stacks *stacks;
  const struct lls_vocabulary *vocabulary;
  uint32_t *bits;
};

static void allow(const struct mask *m, uint32_t token)
{
  m->bits[token / 32] |= 1u << (token % 32);
}

/* ---- a fragment -------------------------------------------------------------------- */

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

/* The tokens that need at most so many times: a set of most, and a list of the others. */
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
                 : f->up_to[1u << cut]; /* n is 0 if all are bits */
  }
  if (n > listed)
    add_list(m, f->tokens + listed, n - listed);
}

/* Times that a thread's rule still allows, and how many are done. */
struct count {
  uint32_t done, min, max;
};

static bool may_leave(const struct lls_fragment *f, const struct count *c, uint32_t times)
{
  uint64_t done = (uint64_t)c->done + times;
  return !f->counts || (done >= c->min && done <= c->max);
}

/* Below a node of the suffixes, from the configuration that its bytes led to. */
static void add_suffixes(struct mask *m, const struct lls_fragment *f,
                         const struct count *count, uint32_t suffix,
                         const struct lls_configuration *from)
{
  struct lls_stacks_mark mark = lls_stacks_mark(m->stacks);
  for (uint32_t i = f->suffixes[suffix].child; i != 0; i = f->suffixes[i].sibling) {
    struct lls_configuration to = lls_stacks_step(m->stacks, from, f->suffixes[i].byte);
    bool alive = to.n > 0 || to.ended;
    for (uint32_t t = alive ? f->suffixes[i].tokens : 0; t != 0;
         t = f->suffix_tokens[t].next)
      if (may_leave(f, count, f->suffix_tokens[t].times))
        allow(m, f->suffix_tokens[t].token);
    if (to.n > 0 && !m->stacks->full)
      add_suffixes(m, f, count, i, &to);
    lls_stacks_back(m->stacks, mark);
  }
}

static void add_fragment(struct mask *m, const struct lls_fragment *f,
                         const struct lls_thread *thread)
{
  struct lls_stacks *s = m->stacks;
  const struct lls_frame *frame = &s->frames[thread->frame];
  const struct lls_nfa_rule *rule = &s->dfa->nfa->rules[frame->rule];
  const struct count count = {frame->done, rule->min, rule->max};
  add_tokens(m, f, rule->max - frame->done);
  if (f->n_suffixes == 0)
    return;
  struct lls_stacks_mark mark = lls_stacks_mark(s);
  struct lls_configuration after = f->counts ? lls_stacks_leave(s, thread->frame)
                                             : lls_stacks_complete(s, thread->frame);
  if (after.n > 0)
    add_suffixes(m, f, &count, 0, &after);
  lls_stacks_back(s, mark);
}

/* ---- the vocabulary --------------------------------------------------------------- */

struct walk {
  struct lls_configuration at[LLS_DRAFT_DEPTH];
  struct lls_stacks_mark mark[LLS_DRAFT_DEPTH];
};

static void step(struct mask *m, struct walk *w, uint32_t node)
{
  const struct lls_trie_node *n = &m->vocabulary->nodes[node];
  lls_stacks_back(m->stacks, w->mark[n->depth - 1]);
  w->at[n->depth] = lls_stacks_step(m->stacks, &w->at[n->depth - 1], n->byte);
  w->mark[n->depth] = lls_stacks_mark(m->stacks);
}

/* From the root to the node above this one. */
static void descend(struct mask *m, struct walk *w, uint32_t node)
{
  const struct lls_vocabulary *v = m->vocabulary;
  for (uint32_t i = 1; i < node;) {
    bool above = v->nodes[i].end > node;
    if (above)
      step(m, w, i);
    i = above ? i + 1 : v->nodes[i].end;
  }
}

/* From a node on; the node where it had to stop, or 0 at the end. */
static uint32_t walk_vocabulary(struct mask *m, const struct lls_configuration *from,
                                uint32_t first, uint64_t *work)
{
  const struct lls_vocabulary *v = m->vocabulary;
  struct lls_stacks *s = m->stacks;
  struct walk w;
  w.at[0] = *from;
  w.mark[0] = lls_stacks_mark(s);
  uint32_t i = first > 0 ? first : 1;
  for (descend(m, &w, i); i<v->n_nodes && * work> 0 && !s->full; --*work) {
    const struct lls_trie_node *node = &v->nodes[i];
    step(m, &w, i);
    const struct lls_configuration *c = &w.at[node->depth];
    if (c->n > 0 || c->ended)
      for (uint32_t t = node->first_token; t < v->nodes[i + 1].first_token; t++)
        allow(m, v->tokens[t]);
    i = c->n > 0 ? i + 1 : node->end;
  }
  lls_stacks_back(s, w.mark[0]);
  return i < v->n_nodes && !s->full ? i : 0;
}

/* ---- the mask --------------------------------------------------------------------- */

static void allow_ends(const struct mask *m)
{
  const struct lls_vocabulary *v = m->vocabulary;
  for (uint32_t i = 0; i < v->n_ends; i++)
    if (v->ends[i] >= 0 && (uint32_t)v->ends[i] < v->size)
      allow(m, (uint32_t)v->ends[i]);
}

/* False: what is left of the thread takes more than the work allows. */
static bool add_thread(struct mask *m, struct lls_fragments *fragments,
                       struct lls_mask_progress *progress, uint64_t *work)
{
  struct lls_thread thread = m->stacks->threads[progress->thread];
  const struct lls_configuration alone = {.first = progress->thread, .n = 1};
  if (*work == 0 && !lls_fragment_is_known(fragments, thread.state))
    return false;
  uint64_t before = fragments->walked;
  const struct lls_fragment *f = lls_fragment_of(fragments, thread.state);
  *work -= lls_least_u64(*work, fragments->walked - before);
  if (f != NULL)
    add_fragment(m, f, &thread);
  else
    progress->node = walk_vocabulary(m, &alone, progress->node, work);
  return progress->node == 0;
}

static int any(const uint32_t *bits, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (bits[i] != 0)
      return 1;
  return 0;
}

static int add_threads(struct mask *m, struct lls_grammar_state *state,
                       struct lls_mask_progress *progress, uint64_t *work)
{
  struct lls_grammar *g = state->grammar;
  struct lls_configuration c = lls_state_open(state);
  bool done = true;
  while (done && progress->thread < c.n && !g->stacks.full) {
    done = add_thread(m, &g->fragments, progress, work);
    progress->thread += done;
  }
  g->stacks.full |= g->dfa.full;
  int rc = lls_state_close(state);
  return rc < 0 || done ? rc : -EAGAIN;
}

int lls_grammar_fill_mask_some(struct lls_grammar_state *state, uint32_t *bits,
                               struct lls_mask_progress *progress, uint64_t *work)
{
  struct lls_grammar *g = state->grammar;
  struct mask m = {.stacks = &g->stacks, .vocabulary = g->vocabulary, .bits = bits};
  size_t words = lls_vocabulary_words(g->vocabulary);
  if (progress->thread == 0 && progress->node == 0)
    memset(bits, 0, words * sizeof *bits);
  if (state->finished)
    return 0;
  if (state->may_end)
    allow_ends(&m);
  int rc = add_threads(&m, state, progress, work);
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
