/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quad-tree over lengths (AlignedServe, section 3.3, figure 5): how many requests of
 * the pool have so many cached tokens, and how many blocks they hold.
 *
 * A node covers a range of lengths, its four children a quarter of it each; a leaf covers
 * leaf_width lengths. The tree is complete and lies in one array, level by level, so that
 * nothing is allocated while it is used: 5,461 nodes of 24 bytes for 65,536 lengths in
 * leaves of 16. Entries are by slot. Those of one length are a list in the order in which
 * they came in, and one bit tells which lengths have any; all of them are in another
 * list, in the order of their arrival. Lengths beyond the last one count as the last one.
 *
 * Invariants: a node's counters are the sums over the entries in its range. Its time is
 * when it last became non-empty, or when a batch was last taken out of it; times never go
 * back, so `since_ns` is a lower bound of all that are not empty.
 */
#ifndef TREE_H
#define TREE_H

#include <stdbool.h>
#include <stdint.h>

#define TREE_NIL UINT32_MAX

struct tree_node {
  uint64_t blocks;
  int64_t since_ns;
  uint32_t requests;
};

struct tree_entry { /* of a slot */
  uint64_t id;      /* in order of arrival */
  int64_t entered_ns;
  uint32_t length; /* 0: not in the tree */
  uint32_t blocks;
  uint32_t previous, next; /* slots of the same length */
  uint32_t older, newer;   /* slots of all */
};

struct tree_ends {
  uint32_t first, last;
};

struct tree {
  uint32_t len_max, leaf_width;
  uint32_t n_nodes, first_leaf;
  struct tree_node *nodes;    /* (n_nodes) the root first; children of i from 4 i + 1 */
  struct tree_entry *entries; /* (max_requests) */
  struct tree_ends *lengths;  /* (len_max + 1) */
  uint64_t *any;              /* (len_max / 64 + 1) a bit a length */
  uint32_t oldest, newest;    /* by arrival */
  int64_t since_ns;
};

/* -EINVAL: len_max is no power of four times leaf_width. */
int tree_init(struct tree *, uint32_t len_max, uint32_t leaf_width,
              uint32_t max_requests);
void tree_free(struct tree *);
bool tree_fits(uint32_t len_max, uint32_t leaf_width);

/* The slot's entry is new, and its length at least 1. */
void tree_insert(struct tree *, uint32_t slot, uint64_t id, uint32_t length,
                 uint32_t blocks, int64_t now_ns);
void tree_remove(struct tree *, uint32_t slot);

static inline bool tree_has(const struct tree *t, uint32_t slot)
{
  return t->entries[slot].length > 0;
}

static inline bool tree_is_leaf(const struct tree *t, uint32_t node)
{
  return node >= t->first_leaf;
}

static inline uint32_t tree_parent(uint32_t node)
{
  return (node - 1) / 4;
}

/* Lengths first to last, both included. */
struct tree_range {
  uint32_t first, last;
};

struct tree_range tree_range_of(const struct tree *, uint32_t node);

/* The smallest and the largest length in the range that has entries; 0 if none has. */
uint32_t tree_lowest(const struct tree *, struct tree_range);
uint32_t tree_highest(const struct tree *, struct tree_range);

#endif
