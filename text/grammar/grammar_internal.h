/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a compiled grammar and of a state; for the files of compiled_grammar.h. */
#ifndef LLS_GRAMMAR_GRAMMAR_INTERNAL_H
#define LLS_GRAMMAR_GRAMMAR_INTERNAL_H

#include "text/grammar/fragment.h"
#include "text/grammar/stacks.h"

#include <pthread.h>

#define LLS_STATE_WORK    2000000 /* of the stacks, for one token: some 20 ms */
#define LLS_STATE_THREADS LLS_GRAMMAR_THREADS
#define LLS_STATE_FRAMES  1024 /* calls that are open: how deeply a text may nest */
#define LLS_STATE_EDGES   1536

struct lls_grammar {
  atomic_uint references;
  char *key; /* (key_bytes) of the cache that it came from, or NULL */
  size_t key_bytes;
  const struct lls_vocabulary *vocabulary;
  uint64_t first_work; /* of the first mask, when it is not the first one made */
  struct lls_nfa nfa;
  pthread_mutex_t turn; /* to wait for the lock: who gave it back comes behind others */
  pthread_mutex_t lock; /* for all below */
  struct lls_dfa dfa;   /* grows */
  struct lls_stacks stacks;     /* of who has the lock; empty between two calls */
  struct lls_walk_memory *walk; /* of masks */
  struct lls_fragments fragments;
};

struct lls_grammar_state {
  struct lls_grammar *grammar;
  uint32_t n_threads, n_frames, n_edges;
  bool may_end;
  bool finished; /* a token that ends a text came */
  uint64_t work; /* that was done for it; while it is open, less what the grammar's was */
  struct lls_thread threads[LLS_STATE_THREADS]; /* (n_threads) */
  struct lls_frame frames[LLS_STATE_FRAMES];    /* (n_frames) [0] is the text's */
  struct lls_edge edges[LLS_STATE_EDGES];       /* (n_edges) [0] is none */
};

/* Under its lock: all that was ever done with it, in units of
 * lls_grammar_fill_mask_some. */
uint64_t lls_grammar_work(const struct lls_grammar *grammar);

/* Takes the grammar's lock and puts the state into its stacks. */
struct lls_configuration lls_state_open(struct lls_grammar_state *state);
/* 0, or -E2BIG where a bound was met since; gives the lock back. */
int lls_state_close(struct lls_grammar_state *state);

#endif
