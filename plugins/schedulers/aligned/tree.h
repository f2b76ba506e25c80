/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quad-tree over lengths (AlignedServe, section 3.3, figure 5): for each range of
 * cached tokens, how many requests of the pool are in it and how many blocks they hold.
 *
 * A node covers a range of lengths, its four children a quarter of it each; a leaf covers
 * leaf_width lengths. The tree is complete and lies in one array, level by level, so that
 * nothing is allocated while it is used: 5,461 nodes of 24 bytes for 65,536 lengths in
 * leaves of 16. Entries are indexed by slot. Entries of one length form a list in the
 * order of their insertion, and a bit per length is set if the list has entries. A second
 * list links all entries in order of arrival. Lengths above len_max count as len_max.
 *
 * Invariants: a node's counters are the sums over the entries in its range. Its time is
 * when it last became non-empty, or when a batch was last taken out of it; times never go
 * back, so the tree's `since_ns` is a lower bound for all nodes that are not empty.
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

struct tree_entry { /* one for each slot */
  uint64_t id;      /* in order of arrival */
  int64_t entered_ns;
  uint32_t length; /* 0: not in the tree */
  uint32_t blocks;
  uint32_t previous, next; /* slots of the same length */
  uint32_t older, newer;   /* slots, by arrival */
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
  uint64_t *any;              /* (len_max / 64 + 1) bit of a length: it has entries */
  uint32_t oldest, newest;    /* first and last entry in order of arrival */
  int64_t since_ns;
};

/* Returns 0; -EINVAL if len_max is no power of four times leaf_width; -ENOMEM. */
int tree_init(struct tree *, uint32_t len_max, uint32_t leaf_width,
              uint32_t max_requests);
void tree_free(struct tree *);
bool tree_fits(uint32_t len_max, uint32_t leaf_width);

/* Inserts a slot which is not in the tree; its length is at least 1. */
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

/* Return the smallest and the largest length in the range with entries; 0 if there are
 * none. */
uint32_t tree_lowest(const struct tree *, struct tree_range);
uint32_t tree_highest(const struct tree *, struct tree_range);

#endif
