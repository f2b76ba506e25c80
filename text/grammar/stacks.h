/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The position of a text in a grammar: a set of threads. A thread is a state of the
 * automaton and the call that it runs in. A call (a frame) has its rule, the
 * repetitions done of a counted rule, and the places it returns to (edges): states,
 * each in a call of its own. Calls of one rule at the same place of the text share one
 * frame, so that ambiguity and left recursion share work, as in Earley's parser. A call
 * at the end of a rule returns directly to the rule's own return places, so that right
 * recursion needs no stack.
 *
 * A configuration (the threads after some byte) is a range of the thread array; frames
 * and edges are only appended. To go back, everything after a mark is dropped: masks
 * walk the vocabulary's trie this way.
 */
#ifndef LLS_GRAMMAR_STACKS_H
#define LLS_GRAMMAR_STACKS_H

#include "text/grammar/dfa.h"

#define LLS_STACKS_ROOT 0 /* the frame of the whole text */

struct lls_thread {
  uint32_t state, frame;
  uint32_t arrived; /* 1: reached by a byte or a return; 0: at the beginning of a rule */
};

struct lls_edge {
  uint32_t state, frame; /* the place that it returns to */
  uint32_t next;         /* next edge of the same frame; 0: none */
};

struct lls_frame {
  uint32_t rule;
  uint32_t done; /* repetitions done of a counted rule */
  uint32_t edges;
  uint32_t hash; /* hash of all edges, or 0: not computed yet */
};

struct lls_configuration {
  uint32_t first, n; /* threads */
  bool ended;        /* the text may end here */
};

struct lls_stacks_mark {
  uint32_t threads, frames, edges;
};

/* Entries added since some value of the clock, found by their hash. */
struct lls_stacks_slot {
  uint64_t clock;
  uint32_t index;
  uint32_t owner; /* frame of the edge, in slots of edges */
};

struct lls_stacks {
  struct lls_dfa *dfa;
  struct lls_thread *threads; /* (thread_capacity) */
  struct lls_frame *frames;   /* (frame_capacity) */
  struct lls_edge *edges;     /* (edge_capacity) [0] is none */
  uint32_t n_threads, n_frames, n_edges;
  uint32_t thread_capacity, frame_capacity, edge_capacity;
  uint32_t *frame_of_rule; /* (rules) the rule's frame, called after the last byte ... */
  uint64_t *called_at;     /* (rules) ... valid if this equals the clock */
  uint32_t *edges_of_rule; /* (rules) the number of edges of that frame */
  uint64_t clock;          /* advances with each byte, and when a step is closed */
  struct lls_stacks_slot *thread_slots; /* threads of a configuration with many threads */
  struct lls_stacks_slot *edge_slots;   /* edges of frames with many edges */
  uint32_t old_frames;                  /* number of frames that existed before the
                                         * last byte */
  uint32_t noted_edges;                 /* edges since then, in the slots */
  bool is_open; /* the callers of the root frame are unknown, so the end of its rule is
                   reported */
  bool root_reached; /* the rule of the open root frame ended at the last byte: the user
                        of the stacks continues */
  uint64_t work;     /* threads and edges visited since creation */
  uint64_t most;     /* limit on work: beyond it `full` is set */
  bool full;
};

int lls_stacks_create(struct lls_stacks *stacks, struct lls_dfa *dfa);
void lls_stacks_free(struct lls_stacks *stacks);

/* Empties the stacks and returns one thread at the beginning of the rule, in the root
 * frame. */
struct lls_configuration lls_stacks_begin(struct lls_stacks *stacks, uint32_t rule);
/* Like lls_stacks_begin, but in the given state alone, without the calls that it may
 * make; and open. */
struct lls_configuration lls_stacks_begin_in(struct lls_stacks *stacks, uint32_t state);
/* Returns the configuration after a byte, appended after all others. */
struct lls_configuration lls_stacks_step(struct lls_stacks *stacks,
                                         const struct lls_configuration *from,
                                         uint8_t byte);
/*
 * Returns the configuration after some calls were left at once; or after they ended,
 * once if they are counted (they may then repeat). The calls are the frames of the
 * threads of `from` that are in `state`, and whose repetitions are *done if done is not
 * NULL.
 */
struct lls_configuration lls_stacks_leave(struct lls_stacks *stacks,
                                          const struct lls_configuration *from,
                                          uint32_t state, const uint32_t *done);
struct lls_configuration lls_stacks_complete(struct lls_stacks *stacks,
                                             const struct lls_configuration *from,
                                             uint32_t state);

/* Compare two complete configurations. They are the same if they continue in the same
 * way and this is cheap to see: the threads have the same order, and their frames
 * return to the same places. Same configurations have the same hash. */
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
