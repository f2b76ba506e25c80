/* SPDX-License-Identifier: Apache-2.0 */
/* Which tokens may follow: those whose bytes lead somewhere, found in the trie. */
#include "core/grammar/grammar_internal.h"

#include <errno.h>
#include <string.h>

#define DEEPEST 1025 /* LONGEST_TOKEN of vocabulary.c, and the root */

/* The configurations along the path from the root to a node, and what to drop below. */
struct walk {
  struct lls_stacks *stacks;
  const struct lls_vocabulary *vocabulary;
  uint32_t *bits;
  struct lls_configuration at[DEEPEST];
  struct lls_stacks_mark mark[DEEPEST];
};

static void allow(struct walk *w, uint32_t node)
{
  const struct lls_vocabulary *v = w->vocabulary;
  for (uint32_t i = v->nodes[node].first_token; i < v->nodes[node + 1].first_token; i++)
    w->bits[v->tokens[i] / 32] |= 1u << (v->tokens[i] % 32);
}

static void walk(struct walk *w)
{
  const struct lls_vocabulary *v = w->vocabulary;
  w->mark[0] = lls_stacks_mark(w->stacks);
  for (uint32_t i = 1; i < v->n_nodes && !w->stacks->full;) {
    const struct lls_trie_node *node = &v->nodes[i];
    struct lls_configuration *c = &w->at[node->depth];
    lls_stacks_back(w->stacks, w->mark[node->depth - 1]);
    *c = lls_stacks_step(w->stacks, &w->at[node->depth - 1], node->byte);
    w->mark[node->depth] = lls_stacks_mark(w->stacks);
    if (c->n > 0 || c->ended)
      allow(w, i);
    i = c->n > 0 ? i + 1 : node->end;
  }
}

static void allow_ends(const struct lls_vocabulary *v, uint32_t *bits)
{
  for (uint32_t i = 0; i < v->n_ends; i++)
    if (v->ends[i] >= 0 && (uint32_t)v->ends[i] < v->size)
      bits[v->ends[i] / 32] |= 1u << (v->ends[i] % 32);
}

static int any(const uint32_t *bits, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (bits[i] != 0)
      return 1;
  return 0;
}

int lls_grammar_fill_mask(struct lls_grammar_state *state, uint32_t *bits)
{
  const struct lls_vocabulary *v = state->grammar->vocabulary;
  size_t words = lls_vocabulary_words(v);
  memset(bits, 0, words * sizeof *bits);
  if (state->finished)
    return 0;
  if (state->may_end)
    allow_ends(v, bits);
  struct walk w;
  w.at[0] = lls_state_open(state);
  w.stacks = &state->grammar->stacks;
  w.vocabulary = v;
  w.bits = bits;
  if (w.at[0].n > 0)
    walk(&w);
  int rc = lls_state_close(state);
  return rc < 0 ? rc : any(bits, words);
}
