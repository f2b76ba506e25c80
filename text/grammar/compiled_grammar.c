/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling, reference counts and the end of a compiled grammar; see
 * compiled_grammar.h. */
#include "text/grammar/grammar_internal.h"

#include "core/base/least.h"
#include "text/grammar/trie_walk.h"

#include <errno.h>
#include <stdlib.h>

#define BEGINNING_CHOICES 4     /* positions with more than one possible byte */
#define BEGINNING_WORK    32768 /* most thread steps */

static void destroy(struct lls_grammar *g)
{
  lls_fragments_free(&g->fragments);
  free(g->walk);
  lls_stacks_free(&g->stacks);
  lls_dfa_free(&g->dfa);
  lls_nfa_free(&g->nfa);
  pthread_mutex_destroy(&g->turn);
  pthread_mutex_destroy(&g->lock);
  free(g->key);
  free(g);
}

/* A text that reaches all places of a large grammar needs at least one state per
 * place. */
static uint32_t states_for(const struct lls_nfa *nfa,
                           const struct lls_grammar_limits *limits)
{
  return limits->states + lls_least_u32(nfa->n_states, limits->positions / 8);
}

/* ---- trying its beginning ---------------------------------------------------------- */

/* Returns the byte after which a text may be at the most places at once, or -1. *n is
 * the number of possible bytes except white space, which is returned only if no other
 * byte is as hard. */
static int hardest_byte(struct lls_grammar *g, const struct lls_configuration *c,
                        uint64_t *work, uint32_t *n)
{
  struct lls_stacks *s = &g->stacks;
  const struct lls_stacks_mark mark = lls_stacks_mark(s);
  int hardest = -1;
  uint32_t most = 0;
  *n = 0;
  for (uint32_t i = 0; i < g->nfa.n_classes; i++) {
    if (*work == 0 || s->full)
      break;
    uint8_t byte = g->nfa.representative[i];
    struct lls_configuration to = lls_stacks_step(s, c, byte);
    *work -= lls_least_u64(*work, 1 + c->n);
    *n += to.n > 0 && byte > ' ';
    if (to.n > most || (to.n > 0 && to.n == most && hardest <= ' ')) {
      most = to.n;
      hardest = byte;
    }
    lls_stacks_back(s, mark);
  }
  return *work > 0 ? hardest : -1;
}

/* Follows the path of the hardest bytes while the text has few alternatives: beyond
 * that, most real answers may be easier than this path. */
static int try_some(struct lls_grammar *g, struct lls_grammar_state *state)
{
  uint64_t work = BEGINNING_WORK;
  uint32_t n, choices = 0;
  int byte = 0, rc = lls_grammar_state_init(state, g);
  while (rc == 0 && byte >= 0 && choices < BEGINNING_CHOICES) {
    struct lls_configuration c = lls_state_open(state);
    byte = hardest_byte(g, &c, &work, &n);
    choices += n != 1;
    rc = lls_state_close(state);
    if (rc == 0 && byte >= 0)
      rc = lls_grammar_accept_bytes(state, (const char[]){(char)byte}, 1);
  }
  return rc;
}

/* Fills the first mask twice, on a thread that may wait; the second time measures its
 * work with all fragments built. */
static int try_mask(struct lls_grammar *g, struct lls_grammar_state *state)
{
  uint32_t *bits = malloc((lls_vocabulary_words(g->vocabulary) + 1) * sizeof *bits);
  int rc = bits != NULL ? 0 : -ENOMEM;
  for (int i = 0; i < 2 && rc >= 0; i++) {
    lls_grammar_state_init(state, g);
    rc = lls_grammar_fill_mask(state, bits);
    g->first_work = lls_grammar_state_work(state);
  }
  free(bits);
  return rc < 0 ? rc : 0;
}

/* Finds out now, and not during an answer, that a text cannot even begin within the
 * bounds. */
static int try_beginning(struct lls_grammar *g, struct lls_error *err)
{
  struct lls_grammar_state *state = malloc(lls_grammar_state_bytes());
  int rc = state != NULL ? try_some(g, state) : -ENOMEM;
  if (rc == 0)
    rc = try_mask(g, state);
  free(state);
  return rc == -E2BIG ? lls_fail(err, rc, "the grammar's beginning is too ambiguous")
         : rc < 0     ? lls_fail(err, rc, "no memory for the grammar")
                      : 0;
}

/* ---- compiling --------------------------------------------------------------------- */

static int prepare(struct lls_grammar *g, const struct lls_grammar_limits *limits,
                   struct lls_error *err)
{
  int rc = lls_dfa_create(&g->dfa, &g->nfa, states_for(&g->nfa, limits));
  if (rc == 0)
    rc = lls_stacks_create(&g->stacks, &g->dfa);
  if (rc == 0 && (g->walk = lls_walk_memory_create()) == NULL)
    rc = -ENOMEM;
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
  pthread_mutex_init(&g->turn, NULL);
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

uint64_t lls_grammar_first_work(const struct lls_grammar *g)
{
  return g->first_work;
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
