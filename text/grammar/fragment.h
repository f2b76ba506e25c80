/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fragment is the part of a mask that a state of the automaton decides by itself,
 * independent of the rule's callers: the tokens that stay in the rule; and, for tokens
 * in the middle of which the rule ends, the remaining bytes, as a trie of suffixes. A
 * mask is assembled from the fragments of the state's threads: their tokens are set,
 * and their suffix tries are walked from the states that the calls return to.
 *
 * A counted repetition that calls no rule has one fragment for all counts: it says how
 * many repetitions each token needs.
 *
 * A fragment never changes. It lies in its grammar's memory, which is cleared as a
 * whole when it is full. All grammars of a vocabulary share the fragments of
 * repetitions, such as the inside of strings.
 */
#ifndef LLS_GRAMMAR_FRAGMENT_H
#define LLS_GRAMMAR_FRAGMENT_H

#include "text/grammar/stacks.h"

#include <pthread.h>

/* Sets of the tokens that need at most 1, 2, 4 ... repetitions; the last set has all
 * tokens. */
#define LLS_FRAGMENT_CUTS 7

/* A node of the suffix trie, which is in preorder like the vocabulary's. */
struct lls_suffix {
  uint32_t end;    /* the first node after its subtree */
  uint32_t tokens; /* the first of its tokens; 0: none */
  uint16_t depth;
  uint8_t byte;
};

struct lls_suffix_token {
  uint32_t token, times; /* times: repetitions done when the rule ended */
  uint32_t next;
};

struct lls_fragment {
  uint32_t n_tokens, most_times; /* most_times: repetitions that any of them needs */
  const uint32_t *tokens;        /* (n_tokens) sorted by the repetitions they need; or
                                  * NULL, and only bits */
  const uint32_t *up_to;         /* (most_times + 1) how many tokens need at most this
                                  * many repetitions */
  /* sets of the list's tokens; NULL: the list is shorter */
  const uint32_t *bits[LLS_FRAGMENT_CUTS];
  uint32_t n_suffixes;
  const struct lls_suffix *suffixes;            /* (n_suffixes) */
  const struct lls_suffix_token *suffix_tokens; /* (n) entry 0 is unused */
  bool counts;                                  /* the tokens need different numbers of
                                                 * repetitions */
};

/* An arena: memory is handed out piece by piece, and reclaimed only as a whole. */
struct lls_fragment_memory {
  char *base;
  size_t used, size;
};

/* [any] The fragments that grammars share. */
struct lls_fragment_store;
int lls_fragment_store_create(struct lls_fragment_store **out);
void lls_fragment_store_destroy(struct lls_fragment_store *store);

struct lls_fragments {
  struct lls_dfa *dfa;
  const struct lls_vocabulary *vocabulary;
  struct lls_stacks stacks; /* stacks for walks in one rule */
  struct lls_fragment_memory memory;
  const struct lls_fragment **of_state; /* (dfa capacity) NULL: not built */
  struct lls_fragment_draft *draft;
  struct lls_fragment_job *job; /* the fragment under construction, in the draft */
  struct lls_walk_memory *walk;
  uint32_t cleared; /* how often the memory was cleared */
  uint64_t *stays;  /* (rules) computed or not, and the kinds of bytes that an
                     * unbounded repetition may contain any number of */
};

int lls_fragments_create(struct lls_fragments *f, struct lls_dfa *dfa,
                         const struct lls_vocabulary *vocabulary);
void lls_fragments_free(struct lls_fragments *f);
/* Returns the bytes in use. */
size_t lls_fragments_bytes(const struct lls_fragments *f);

/* Returns true if the state's fragment was built, or was found not to exist. */
static inline bool lls_fragment_is_known(const struct lls_fragments *f, uint32_t state)
{
  return f->of_state[state] != NULL;
}

/* Returns the fragment of a state for which lls_fragment_is_known. NULL: it has none,
 * since too much can follow its rule, and masks must walk the vocabulary's trie. */
const struct lls_fragment *lls_fragment_of(const struct lls_fragments *f, uint32_t state);

/*
 * Works on the state's fragment until it is known, or until the total work
 * (lls_fragments_work) reaches `until`; a later call continues. Returns true if the
 * fragment is known. A grammar builds one fragment at a time: a request for a second
 * one first completes the one under construction.
 */
bool lls_fragment_make(struct lls_fragments *f, uint32_t state, uint64_t until);

#endif
