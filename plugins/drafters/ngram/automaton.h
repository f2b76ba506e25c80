/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A suffix automaton of a text of tokens, extended by one token at a time (Blumer et al.,
 * "The smallest automaton recognizing the subwords of a text", 1985): after each token it
 * knows the longest end of the text that occurs earlier in it, and where. Extending takes
 * constant time on average; a text of n tokens has at most 2 n states and 3 n edges, so
 * it takes at most 108 bytes a token, 70 for texts in English.
 *
 * Negative numbers separate texts: no end of a text reaches across one.
 */
#ifndef NGRAM_AUTOMATON_H
#define NGRAM_AUTOMATON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct state {
  uint32_t length; /* of the longest text that ends here */
  uint32_t link;   /* the state of its longest end that is in another state */
  uint32_t end;    /* tokens of the text up to the end of an occurrence */
  uint32_t edges;  /* the first edge; NONE: there is none */
};

struct edge {
  uint32_t from, to; /* states */
  int32_t token;
  uint32_t next;    /* edge of the same state */
  uint32_t chained; /* edge of the same bucket */
};

#define NONE UINT32_MAX

struct automaton {
  int32_t *text; /* (capacity) */
  uint32_t n, capacity;
  struct state *states; /* (2 capacity) */
  uint32_t used_states;
  struct edge *edges; /* (3 capacity) */
  uint32_t used_edges;
  uint32_t *buckets; /* (used_edges + 1) of edges by state and token */
  uint32_t used_buckets;
  uint32_t round; /* a power of two: buckets from 0 to round - 1 are being split */
  uint32_t last;  /* state of the whole text */
  int32_t separators;
};

/* Returns the bytes of an automaton for a text of `capacity` tokens, a power of two. */
size_t automaton_bytes(uint32_t capacity);
/* Sets the room, which may only grow. Returns 0 or -ENOMEM; then nothing has changed. */
int automaton_reserve(struct automaton *, uint32_t capacity);
void automaton_clear(struct automaton *); /* empties it; the room stays */
void automaton_free(struct automaton *);

/* Appends a token, or a separator; there must be room for it. */
void automaton_add(struct automaton *, int32_t token);
void automaton_separate(struct automaton *);

/* Returns the length of the longest end of the text that occurs earlier, 0 if there is
 * none, and in `at` the place behind its newest known occurrence. */
uint32_t automaton_match(const struct automaton *, uint32_t *at);

#endif
