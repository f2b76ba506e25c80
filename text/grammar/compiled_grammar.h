/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grammar compiled for a vocabulary, and where a text is in it.
 *
 * One compiled grammar serves any number of requests. Its automaton and the parts of
 * masks that do not depend on what came before are found when they are first needed, in
 * memory that was reserved when it was compiled, under its lock: nothing below allocates
 * but lls_grammar_compile. Two threads wait for each other only where they use the same
 * grammar in the same moment, for the time of one mask.
 *
 * A state is a block of memory without pointers into itself: copying it with memcpy keeps
 * a point to go back to. It holds no reference to its grammar; who owns it does.
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
  uint32_t positions; /* places of the grammar, its repetitions written out */
  uint32_t states;    /* of the deterministic automaton, built as texts need it: so many,
                       * and as many more as it has places, up to an eighth of them all */
  int64_t time_ns;    /* LLS_NEVER: as long as it takes */
  const atomic_bool *cancelled; /* or NULL: gives up with -ECANCELED where it is set */
  bool flat; /* for who walks the states itself: all is written out, nothing is called */
};

#define LLS_GRAMMAR_LIMITS                                                               \
  ((struct lls_grammar_limits){                                                          \
      .positions = 1u << 20, .states = 1u << 15, .time_ns = INT64_C(2000000000)})

/*
 * [any] The tree may go afterwards; the vocabulary stays. -EINVAL: the tree's error, or
 * no text matches; -E2BIG: more positions than allowed, or its beginning may be in more
 * places at once than a state has room for; -ETIME; -ECANCELED; -ENOMEM. *out
 * is the caller's reference.
 */
int lls_grammar_compile(const struct lls_grammar_tree *tree,
                        const struct lls_vocabulary *vocabulary,
                        const struct lls_grammar_limits *limits, struct lls_grammar **out,
                        struct lls_error *err);
struct lls_grammar *lls_grammar_ref(struct lls_grammar *grammar);
void lls_grammar_unref(struct lls_grammar *grammar); /* NULL: nothing */

/* The memory that it holds now, for caches; and the vocabulary that its masks are for. */
size_t lls_grammar_bytes(const struct lls_grammar *grammar);
const struct lls_vocabulary *lls_grammar_vocabulary(const struct lls_grammar *grammar);

/* The key that it was compiled for (grammar_cache.h), by which another process compiles
 * the same; NULL: it has none. The grammar's. */
const char *lls_grammar_key(const struct lls_grammar *grammar, size_t *bytes);

/* Bytes of any state of any grammar, aligned as malloc's. */
size_t lls_grammar_state_bytes(void);
/* At the beginning of the text: 0, since what would be -E2BIG is not compiled. */
int lls_grammar_state_init(struct lls_grammar_state *state, struct lls_grammar *grammar);

/*
 * Below: 0 or a count, or -EINVAL: the text may not go on like this, and the state is as
 * before; -E2BIG: the grammar needs more states, nesting or ambiguity than the bounds
 * allow, and the state is not to be used any more. A state belongs to one thread at a
 * time.
 */

/* One that ends a text is taken where the text may end; nothing follows it. */
int lls_grammar_accept_token(struct lls_grammar_state *state, int32_t token);
int lls_grammar_accept_bytes(struct lls_grammar_state *state, const char *bytes,
                             size_t n);

/* The bytes so far are a whole text; and nothing but its end may follow. */
bool lls_grammar_may_end(const struct lls_grammar_state *state);
bool lls_grammar_complete(const struct lls_grammar_state *state);

/*
 * Sets the bits of the tokens that may follow, and clears all others. bits:
 * (lls_vocabulary_words) words. Returns how many are set, not counting beyond 1: 0 is a
 * dead end (the vocabulary lacks what would have to follow).
 */
int lls_grammar_fill_mask(struct lls_grammar_state *state, uint32_t *bits);

#define LLS_GRAMMAR_THREADS 256 /* of a state */

/* Where a mask that takes several calls goes on; zeroed: at its beginning. Valid as long
 * as the state stays where it is. */
struct lls_mask_progress {
  uint32_t thread;  /* of the state's threads, the next; beyond them: all that walk */
  uint32_t node;    /* of the trie that is walked, the next; 0: at its beginning */
  uint32_t cleared; /* so many times the grammar's fragments were lost until then */
  uint32_t walks[LLS_GRAMMAR_THREADS / 32]; /* bits of the threads without a fragment */
  uint64_t work;                            /* that was done for it */
};

/*
 * The same, but no further than *work allows. A unit is what was looked at once: a thread
 * that a byte leads to, an edge, a node of a trie, an entry of a set; some 5 to 20 ns.
 * What was done is taken off; the last piece may take more, by what follows one node. At
 * least one node is done. -EAGAIN: the bits are not all there, and the next call with
 * them and the same progress goes on. A mask has LLS_MASK_MOST in all: -E2BIG.
 */
#define LLS_MASK_MOST UINT64_C(30000000)
int lls_grammar_fill_mask_some(struct lls_grammar_state *state, uint32_t *bits,
                               struct lls_mask_progress *progress, uint64_t *work);

/* The same units, of all that was ever done for the state, by whatever is above and
 * below. */
uint64_t lls_grammar_state_work(const struct lls_grammar_state *state);

/* The units that the mask at the beginning of a text takes: it was made once when the
 * grammar was compiled. */
uint64_t lls_grammar_first_work(const struct lls_grammar *grammar);

/*
 * Writes the tokens that every text goes on with from here, at most `room`; how many. The
 * state stays where it is. Their bytes are what every text has; which tokens these are is
 * chosen here (forced.c).
 */
int lls_grammar_forced(struct lls_grammar_state *state, int32_t *tokens, uint32_t room);

#endif
