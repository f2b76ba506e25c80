/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a compiled grammar and of a state, for the files that implement
 * compiled_grammar.h. */
#ifndef LLS_GRAMMAR_GRAMMAR_INTERNAL_H
#define LLS_GRAMMAR_GRAMMAR_INTERNAL_H

#include "text/grammar/fragment.h"
#include "text/grammar/stacks.h"

#include <pthread.h>

#define LLS_STATE_WORK    2000000 /* work of the stacks for one token: some 20 ms */
#define LLS_STATE_THREADS LLS_GRAMMAR_THREADS
#define LLS_STATE_FRAMES  1024 /* open calls: how deeply a text may nest */
#define LLS_STATE_EDGES   1536

struct lls_grammar {
  atomic_uint references;
  char *key; /* (key_bytes) key of the grammar in the cache, or NULL */
  size_t key_bytes;
  const struct lls_vocabulary *vocabulary;
  uint64_t first_work; /* work of the first mask, when its fragments are already built */
  struct lls_nfa nfa;
  pthread_mutex_t turn; /* taken to wait for the lock: makes waiting threads take turns */
  pthread_mutex_t lock; /* guards all members below */
  struct lls_dfa dfa;   /* grows in use */
  struct lls_stacks stacks;     /* used by the holder of the lock; empty between two
                                 * calls */
  struct lls_walk_memory *walk; /* memory for building masks */
  struct lls_fragments fragments;
};

struct lls_grammar_state {
  struct lls_grammar *grammar;
  uint32_t n_threads, n_frames, n_edges;
  bool may_end;
  bool finished; /* an end-of-text token was accepted */
  uint64_t work; /* work done for it; while the state is open, minus the grammar's work
                  * at opening */
  struct lls_thread threads[LLS_STATE_THREADS]; /* (n_threads) */
  struct lls_frame frames[LLS_STATE_FRAMES];    /* (n_frames) [0] is the frame of the
                                                 * text */
  struct lls_edge edges[LLS_STATE_EDGES];       /* (n_edges) [0] is unused */
};

/* [lock held] Returns all work ever done with the grammar, in units of
 * lls_grammar_fill_mask_some. */
uint64_t lls_grammar_work(const struct lls_grammar *grammar);

/* Takes the grammar's lock and copies the state into the grammar's stacks. */
struct lls_configuration lls_state_open(struct lls_grammar_state *state);
/* Copies the stacks back and releases the lock. Returns 0, or -E2BIG if a bound was
 * reached since. */
int lls_state_close(struct lls_grammar_state *state);

#endif
