/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grammar compiled for a vocabulary, and the position of a text in the grammar.
 *
 * One compiled grammar serves any number of requests. Its automaton, and the parts of
 * masks that do not depend on the earlier text, are built on first use under the
 * grammar's lock, in memory reserved when it was compiled: lls_grammar_compile is the
 * only function here that allocates. Two threads wait for each other only if they use
 * the same grammar at the same moment, for the time of one mask.
 *
 * A state (struct lls_grammar_state) is a block of memory without pointers into itself:
 * a copy made with memcpy is a point to return to. A state holds no reference to its
 * grammar; the owner of the state holds one.
 */
#ifndef LLS_GRAMMAR_COMPILED_GRAMMAR_H
#define LLS_GRAMMAR_COMPILED_GRAMMAR_H

#include "text/grammar/grammar_tree.h"
#include "text/grammar/vocabulary.h"

#include <stdatomic.h>

struct lls_grammar;
struct lls_grammar_state;

/* Bounds of what compiling costs, and of what the automaton grows to in use. */
struct lls_grammar_limits {
  uint32_t positions; /* positions in the grammar, repetitions written out */
  uint32_t states;    /* states of the deterministic automaton, which is built as texts
                       * need it. A grammar gets this many, plus one for each of its
                       * NFA states, at most positions / 8 */
  int64_t time_ns;    /* LLS_NEVER: no time limit */
  const atomic_bool *cancelled; /* NULL, or compiling ends with -ECANCELED once this is
                                 * set */
  bool flat; /* for callers that walk the states themselves: every rule is written out,
              * none called */
};

#define LLS_GRAMMAR_LIMITS                                                               \
  ((struct lls_grammar_limits){                                                          \
      .positions = 1u << 20, .states = 1u << 15, .time_ns = INT64_C(2000000000)})

/*
 * [any] Compiles the tree, which may be destroyed afterwards; the vocabulary must
 * outlive the grammar. *out receives a reference that the caller owns. Returns 0;
 * -EINVAL with the tree's error, or if no text matches; -E2BIG for more positions than
 * the limit, or if the beginning of a text may be at more places of the grammar than a
 * state has room for; -ETIME; -ECANCELED; or -ENOMEM.
 */
int lls_grammar_compile(const struct lls_grammar_tree *tree,
                        const struct lls_vocabulary *vocabulary,
                        const struct lls_grammar_limits *limits, struct lls_grammar **out,
                        struct lls_error *err);
struct lls_grammar *lls_grammar_ref(struct lls_grammar *grammar);
void lls_grammar_unref(struct lls_grammar *grammar); /* NULL is allowed */

/* Returns the memory that the grammar holds now, for caches; and the vocabulary of its
 * masks. */
size_t lls_grammar_bytes(const struct lls_grammar *grammar);
const struct lls_vocabulary *lls_grammar_vocabulary(const struct lls_grammar *grammar);

/* Returns the key that the grammar was compiled for (grammar_cache.h), with which
 * another process compiles the same grammar; NULL if it has none. The grammar owns the
 * key. */
const char *lls_grammar_key(const struct lls_grammar *grammar, size_t *bytes);

/* Returns the size of a state, which is the same for all grammars; states are aligned
 * as by malloc. */
size_t lls_grammar_state_bytes(void);
/* Puts the state at the beginning of a text. Returns 0: a grammar for which this would
 * fail with -E2BIG does not compile. */
int lls_grammar_state_init(struct lls_grammar_state *state, struct lls_grammar *grammar);

/*
 * The functions below return 0 or a count; -EINVAL if the grammar does not allow the
 * text to continue so (the state is unchanged); or -E2BIG if the grammar needs more
 * states, nesting or ambiguity than the bounds allow (the state must not be used any
 * more). A state belongs to one thread at a time.
 */

/* Appends a token to the text. An end-of-text token is accepted where the text may end;
 * after it no token is. */
int lls_grammar_accept_token(struct lls_grammar_state *state, int32_t token);
int lls_grammar_accept_bytes(struct lls_grammar_state *state, const char *bytes,
                             size_t n);

/* Return true if the bytes so far are a complete text; and if, further, only the end of
 * the text may follow. */
bool lls_grammar_may_end(const struct lls_grammar_state *state);
bool lls_grammar_complete(const struct lls_grammar_state *state);

/*
 * Sets the bits of the tokens that may follow, and clears all other bits. bits:
 * (lls_vocabulary_words) words. Returns the number of bits set, counted up to 1: 0
 * means a dead end (no token of the vocabulary can continue the text).
 */
int lls_grammar_fill_mask(struct lls_grammar_state *state, uint32_t *bits);

#define LLS_GRAMMAR_THREADS 256 /* threads of a state */

/* The progress of a mask that takes several calls; zeroed at the beginning. Valid as
 * long as the state does not move in memory. */
struct lls_mask_progress {
  uint32_t thread;  /* the state's next thread; beyond the last one: all threads walk
                     * the trie together */
  uint32_t node;    /* next node of the walked trie; 0: its beginning */
  uint32_t cleared; /* how often the grammar's fragments had been cleared at the last
                     * call */
  uint32_t walks[LLS_GRAMMAR_THREADS / 32]; /* bits of the threads without a fragment */
  uint64_t work;                            /* work done for this mask */
};

/*
 * Fills the mask as above, but stops after *work units. A unit is one visited item: a
 * thread that a byte leads to, an edge, a node of a trie, an entry of a set; some 5 to
 * 20 ns each. The work done is subtracted from *work; the last piece, of one trie node
 * and its followers, may exceed it. Each call does at least one node. Returns -EAGAIN
 * if the mask is incomplete: call again with the same bits and progress. A mask that
 * needs more than LLS_MASK_MOST units in all fails with -E2BIG.
 */
#define LLS_MASK_MOST UINT64_C(30000000)
int lls_grammar_fill_mask_some(struct lls_grammar_state *state, uint32_t *bits,
                               struct lls_mask_progress *progress, uint64_t *work);

/* Returns the work, in the same units, that all functions here have done for the state
 * so far. */
uint64_t lls_grammar_state_work(const struct lls_grammar_state *state);

/* Returns the units that the mask at the beginning of a text takes once the fragments
 * are built: it is measured when the grammar is compiled. */
uint64_t lls_grammar_first_work(const struct lls_grammar *grammar);

/*
 * Writes the tokens that every text continues with from here, at most `room`, and
 * returns their number. The state does not advance. All texts share the bytes of these
 * tokens; forced.c chooses how the bytes are cut into tokens.
 */
int lls_grammar_forced(struct lls_grammar_state *state, int32_t *tokens, uint32_t room);

#endif
