/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling and the life of a compiled grammar; see compiled_grammar.h. */
#include "core/grammar/grammar_internal.h"

#include "core/base/least.h"

#include <errno.h>
#include <stdlib.h>

static void destroy(struct lls_grammar *g)
{
  lls_fragments_free(&g->fragments);
  lls_stacks_free(&g->stacks);
  lls_dfa_free(&g->dfa);
  lls_nfa_free(&g->nfa);
  pthread_mutex_destroy(&g->lock);
  free(g->key);
  free(g);
}

/* A text that comes to all places of a large grammar has a state for each, at least. */
static uint32_t states_for(const struct lls_nfa *nfa,
                           const struct lls_grammar_limits *limits)
{
  return limits->states + lls_least_u32(nfa->n_states, limits->positions / 8);
}

/* A text that can't even begin is known to be one now, and not when an answer fails. */
static int try_beginning(struct lls_grammar *g, struct lls_error *err)
{
  struct lls_grammar_state *state = malloc(lls_grammar_state_bytes());
  int rc = state != NULL ? lls_grammar_state_init(state, g) : -ENOMEM;
  free(state);
  return rc == -E2BIG ? lls_fail(err, rc, "the grammar's beginning is too ambiguous")
         : rc < 0     ? lls_fail(err, rc, "no memory for the grammar")
                      : 0;
}

static int prepare(struct lls_grammar *g, const struct lls_grammar_limits *limits,
                   struct lls_error *err)
{
  int rc = lls_dfa_create(&g->dfa, &g->nfa, states_for(&g->nfa, limits));
  if (rc == 0)
    rc = lls_stacks_create(&g->stacks, &g->dfa);
  if (rc == 0)
    rc = lls_fragments_create(&g->fragments, &g->dfa, g->vocabulary);
  return rc < 0 ? lls_fail(err, rc, "no memory for the grammar") : try_beginning(g, err);
}

int lls_grammar_compile(const struct lls_grammar_tree *tree,
                        const struct lls_vocabulary *vocabulary,
                        const struct lls_grammar_limits *limits, struct lls_grammar **out,
                        struct lls_error *err)
{
  struct lls_grammar *g = calloc(1, sizeof *g);
  if (g == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the grammar");
  atomic_init(&g->references, 1);
  pthread_mutex_init(&g->lock, NULL);
  g->vocabulary = vocabulary;
  int rc = lls_nfa_build(tree, limits, &g->nfa, err);
  if (rc == 0)
    rc = prepare(g, limits, err);
  if (rc < 0) {
    destroy(g);
    return rc;
  }
  *out = g;
  return 0;
}

struct lls_grammar *lls_grammar_ref(struct lls_grammar *g)
{
  atomic_fetch_add(&g->references, 1);
  return g;
}

void lls_grammar_unref(struct lls_grammar *g)
{
  if (g != NULL && atomic_fetch_sub(&g->references, 1) == 1)
    destroy(g);
}

const char *lls_grammar_key(const struct lls_grammar *g, size_t *bytes)
{
  *bytes = g->key_bytes;
  return g->key;
}

size_t lls_grammar_bytes(const struct lls_grammar *g)
{
  pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&g->lock;
  pthread_mutex_lock(lock);
  size_t bytes = sizeof *g + lls_dfa_bytes(&g->dfa) + lls_fragments_bytes(&g->fragments) +
                 g->nfa.n_states * sizeof *g->nfa.states +
                 g->nfa.n_rules * sizeof *g->nfa.rules;
  pthread_mutex_unlock(lock);
  return bytes;
}

const struct lls_vocabulary *lls_grammar_vocabulary(const struct lls_grammar *g)
{
  return g->vocabulary;
}
