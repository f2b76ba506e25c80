/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a trie of bytes (the vocabulary's, or a fragment's suffixes) in preorder with a
 * configuration. The most frequent configuration, one thread in the middle of a rule,
 * is stored by its depth. Other configurations are cached by the previous configuration
 * and the kind of the byte (lls_nfa class_of), since most bytes of a kind lead to the
 * same configuration: an ambiguous grammar of letters has one configuration for all
 * words of a length, where the trie has ten thousand nodes. When the cache is full it
 * is cleared, and the path from the root is walked again.
 */
#ifndef LLS_GRAMMAR_TRIE_WALK_H
#define LLS_GRAMMAR_TRIE_WALK_H

#include "text/grammar/stacks.h"

#define LLS_WALK_DEPTH 1025 /* depth of a trie, including the root */

struct lls_walk_memory;                               /* used by one walk at a time */
struct lls_walk_memory *lls_walk_memory_create(void); /* free() */

struct lls_walk {
  struct lls_stacks *stacks;
  struct lls_walk_memory *memory;
  struct lls_stacks_mark before,
      mark;       /* the stacks at the beginning, and after the threads stored by depth */
  uint32_t first; /* index of the root's thread among these */
  struct lls_configuration at[LLS_WALK_DEPTH];
  bool reached[LLS_WALK_DEPTH]; /* the walk reached the end of an open root frame */
  uint8_t bytes[LLS_WALK_DEPTH];
};

/* Puts the walk at the root. depth: the greatest depth of the trie. */
void lls_walk_begin(struct lls_walk *walk, struct lls_walk_memory *memory,
                    struct lls_stacks *stacks, const struct lls_configuration *from,
                    uint32_t depth);
/* Computes at[depth] from at[depth - 1] and the byte. */
void lls_walk_step(struct lls_walk *walk, uint32_t depth, uint8_t byte);
/* Drops everything added to the stacks since lls_walk_begin. */
void lls_walk_end(struct lls_walk *walk);

#endif
