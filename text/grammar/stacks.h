/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a text is in a grammar: a set of threads. A thread is a state of the automaton
 * and the call that it is in; a call (a frame) knows its rule, how many times of a
 * counted rule are done, and to where it returns: some states, each in a call of its own.
 * Calls of one rule at the same place of the text are one frame, so that ambiguity and
 * left recursion share it, as in Earley's parser; calls at a rule's end return to where
 * that would have returned, so that right recursion needs no stack.
 *
 * A configuration (the threads after some byte) is a range of the threads; frames and
 * edges are only added to. What is behind a mark can be dropped to go back: masks walk
 * the trie of the vocabulary like that.
 */
#ifndef LLS_GRAMMAR_STACKS_H
#define LLS_GRAMMAR_STACKS_H

#include "text/grammar/dfa.h"

#define LLS_STACKS_ROOT 0 /* the frame of the whole text */

struct lls_thread {
  uint32_t state, frame;
  uint32_t arrived; /* 1 by a byte or a return, 0 at the beginning of a rule */
};

struct lls_edge {
  uint32_t state, frame; /* what it returns to */
  uint32_t next;         /* edge of the same frame; 0: none */
};

struct lls_frame {
  uint32_t rule;
  uint32_t done; /* times of a counted rule */
  uint32_t edges;
  uint32_t hash; /* of all these, or 0: not computed yet */
};

struct lls_configuration {
  uint32_t first, n; /* threads */
  bool ended;        /* the text may end here */
};

struct lls_stacks_mark {
  uint32_t threads, frames, edges;
};

/* Entries since some time of the clock, found by their hash. */
struct lls_stacks_slot {
  uint64_t clock;
  uint32_t index;
  uint32_t owner; /* the frame of an edge */
};

struct lls_stacks {
  struct lls_dfa *dfa;
  struct lls_thread *threads; /* (thread_capacity) */
  struct lls_frame *frames;   /* (frame_capacity) */
  struct lls_edge *edges;     /* (edge_capacity) [0] is none */
  uint32_t n_threads, n_frames, n_edges;
  uint32_t thread_capacity, frame_capacity, edge_capacity;
  uint32_t *frame_of_rule; /* (rules) that was called after the last byte ... */
  uint64_t *called_at;     /* (rules) ... if this is the clock's time */
  uint32_t *edges_of_rule; /* (rules) of that frame, how many */
  uint64_t clock;          /* of bytes, and of what closes them */
  struct lls_stacks_slot *thread_slots; /* of a configuration with many threads */
  struct lls_stacks_slot *edge_slots;   /* of frames with many edges */
  uint32_t old_frames;                  /* those that were there before the last byte */
  uint32_t noted_edges;                 /* since then, in the slots */
  bool is_open;      /* nothing is known of the root frame: where its rule ends ... */
  bool root_reached; /* ... after the last byte, somebody else has to go on */
  uint64_t work;     /* threads and edges that were come by, since it was made */
  uint64_t most;     /* work beyond it: full */
  bool full;
};

int lls_stacks_create(struct lls_stacks *stacks, struct lls_dfa *dfa);
void lls_stacks_free(struct lls_stacks *stacks);

/* Empty, with one thread at the beginning of the rule, in the root frame. */
struct lls_configuration lls_stacks_begin(struct lls_stacks *stacks, uint32_t rule);
/* ... or in the state alone, without the calls that it may make, and open. */
struct lls_configuration lls_stacks_begin_in(struct lls_stacks *stacks, uint32_t state);
/* The configuration after a byte, behind all others. */
struct lls_configuration lls_stacks_step(struct lls_stacks *stacks,
                                         const struct lls_configuration *from,
                                         uint8_t byte);
/* The configuration after some calls were left at once; or after they have ended, once if
 * they are counted: then they may come again. Calls: the frames of the threads of `from`
 * that are in the state, and of which so many times are done if done is not NULL. */
struct lls_configuration lls_stacks_leave(struct lls_stacks *stacks,
                                          const struct lls_configuration *from,
                                          uint32_t state, const uint32_t *done);
struct lls_configuration lls_stacks_complete(struct lls_stacks *stacks,
                                             const struct lls_configuration *from,
                                             uint32_t state);

/* Two configurations that go on in the same way, and are seen to: their threads stand in
 * the same order, and their frames return to the same ones. The hash of such is one. Both
 * are complete. */
uint32_t lls_stacks_hash(struct lls_stacks *stacks, const struct lls_configuration *c);
bool lls_stacks_same(const struct lls_stacks *stacks, const struct lls_configuration *a,
                     const struct lls_configuration *b);

static inline struct lls_stacks_mark lls_stacks_mark(const struct lls_stacks *s)
{
  return (struct lls_stacks_mark){s->n_threads, s->n_frames, s->n_edges};
}

static inline void lls_stacks_back(struct lls_stacks *s, struct lls_stacks_mark mark)
{
  s->n_threads = mark.threads;
  s->n_frames = mark.frames;
  s->n_edges = mark.edges;
}

#endif
