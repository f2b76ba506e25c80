/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk through a trie of bytes by a configuration: the vocabulary's, or that of a
 * fragment's suffixes, in preorder. The one configuration that is most frequent, of one
 * thread in the middle of a rule, is kept by its depth. All others are remembered by what
 * they came from and the kind of the byte (lls_nfa class_of), since most bytes of a kind
 * lead to the same: an ambiguous grammar of letters has one configuration for all words
 * of a length, where the trie has ten thousand nodes. When the memory for them is full
 * they are forgotten, and the way from the root is made again.
 */
#ifndef LLS_GRAMMAR_TRIE_WALK_H
#define LLS_GRAMMAR_TRIE_WALK_H

#include "text/grammar/stacks.h"

#define LLS_WALK_DEPTH 1025 /* of a trie, with the root */

struct lls_walk_memory;                               /* of one walk at a time */
struct lls_walk_memory *lls_walk_memory_create(void); /* free() */

struct lls_walk {
  struct lls_stacks *stacks;
  struct lls_walk_memory *memory;
  struct lls_stacks_mark before,
      mark;       /* where it began, and behind the threads by depth */
  uint32_t first; /* of these threads, the root's */
  struct lls_configuration at[LLS_WALK_DEPTH];
  bool reached[LLS_WALK_DEPTH]; /* the end of an open root */
  uint8_t bytes[LLS_WALK_DEPTH];
};

/* At the root. depth: the most bytes of a way. */
void lls_walk_begin(struct lls_walk *walk, struct lls_walk_memory *memory,
                    struct lls_stacks *stacks, const struct lls_configuration *from,
                    uint32_t depth);
/* at[depth], from at[depth - 1] by the byte. */
void lls_walk_step(struct lls_walk *walk, uint32_t depth, uint8_t byte);
/* Takes back all that was added to the stacks since it began. */
void lls_walk_end(struct lls_walk *walk);

#endif
