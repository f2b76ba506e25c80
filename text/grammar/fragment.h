/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a mask that a state of the automaton decides by itself, whatever called its
 * rule: the tokens that stay in the rule, and for those in the middle of which the rule
 * ends, the bytes after that, as a trie. A mask is put together from the fragments of its
 * threads: the tokens as they are, the tries walked in what the calls return to.
 *
 * Repetitions that are counted, and call nothing, have one fragment for all counts: it
 * says how many times a token needs.
 *
 * A fragment never changes. It lies in its grammar's memory, which is cleared when it is
 * full; those of repetitions, such as the inside of strings, are shared by all grammars
 * of a vocabulary.
 */
#ifndef LLS_GRAMMAR_FRAGMENT_H
#define LLS_GRAMMAR_FRAGMENT_H

#include "text/grammar/stacks.h"

#include <pthread.h>

#define LLS_FRAGMENT_CUTS                                                                \
  7 /* sets of tokens that need at most 1, 2, 4 ... times; and all */

/* A node of the trie, in preorder as the vocabulary's. */
struct lls_suffix {
  uint32_t end;    /* the first node behind its subtree */
  uint32_t tokens; /* the first of its tokens; 0: none */
  uint16_t depth;
  uint8_t byte;
};

struct lls_suffix_token {
  uint32_t token, times; /* that the rule was done in when it ended */
  uint32_t next;
};

struct lls_fragment {
  uint32_t n_tokens, most_times; /* that any of them needs */
  const uint32_t *tokens;        /* (n_tokens) by the times they need; or only bits */
  const uint32_t *up_to;         /* (most_times + 1) how many need at most so many */
  const uint32_t *bits[LLS_FRAGMENT_CUTS]; /* of the tokens; NULL: the list is shorter */
  uint32_t n_suffixes;
  const struct lls_suffix *suffixes;            /* (n_suffixes) */
  const struct lls_suffix_token *suffix_tokens; /* [0] is none */
  bool counts;                                  /* times matter */
};

/* Memory that is given out piece by piece, and only all at once taken back. */
struct lls_fragment_memory {
  char *base;
  size_t used, size;
};

/* Those that grammars share. [any] */
struct lls_fragment_store;
int lls_fragment_store_create(struct lls_fragment_store **out);
void lls_fragment_store_destroy(struct lls_fragment_store *store);

struct lls_fragments {
  struct lls_dfa *dfa;
  const struct lls_vocabulary *vocabulary;
  struct lls_stacks stacks; /* of walks in one rule */
  struct lls_fragment_memory memory;
  const struct lls_fragment **of_state; /* (dfa capacity) NULL: not built */
  struct lls_fragment_draft *draft;
  struct lls_fragment_job *job; /* what is in the draft */
  struct lls_walk_memory *walk;
  uint32_t cleared; /* how many times the memory was */
  uint64_t *stays;  /* (rules) known, and the kinds of bytes that a repetition
                     * without end may go on with for ever */
};

int lls_fragments_create(struct lls_fragments *f, struct lls_dfa *dfa,
                         const struct lls_vocabulary *vocabulary);
void lls_fragments_free(struct lls_fragments *f);
/* In use. */
size_t lls_fragments_bytes(const struct lls_fragments *f);

/* True if the state's fragment is known, or that there is none. */
static inline bool lls_fragment_is_known(const struct lls_fragments *f, uint32_t state)
{
  return f->of_state[state] != NULL;
}

/* The fragment of a state of which it is known. NULL: there is none, and the trie has to
 * be walked: too much can follow its rule. */
const struct lls_fragment *lls_fragment_of(const struct lls_fragments *f, uint32_t state);

/*
 * Does something for the state's fragment, and goes on until it is known, or so much was
 * done in all; what is left another call does. True if it is known. Of one grammar one is
 * made after the other: who asks for a second one completes the first.
 */
bool lls_fragment_make(struct lls_fragments *f, uint32_t state, uint64_t until);

#endif
