/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing batches from the tree: Density First Search (AlignedServe, section 3.3,
 * Algorithm 1) and starving subtrees (section 3.5). Searches do not change the tree;
 * search_take removes a batch from it.
 */
#ifndef SEARCH_H
#define SEARCH_H

#include "tree.h"

struct search_limits {
  uint64_t bmax;     /* most blocks of a batch */
  uint32_t rmin;     /* a node with fewer requests is widened */
  bool full;         /* widen up to bmax, not just to rmin requests */
  int64_t starve_ns; /* a node starves after; 0: never */
};

enum search_case {
  SEARCH_NONE,     /* the tree is empty */
  SEARCH_DENSE,    /* case 1: all requests of a node */
  SEARCH_WIDENED,  /* case 3: a node and requests of the nearest lengths; if memory ends
                      it, it may have fewer than rmin requests */
  SEARCH_SPLIT,    /* the oldest requests of a leaf that has more than bmax blocks */
  SEARCH_OVERSIZE, /* one request that alone has more than bmax blocks */
  SEARCH_SMALL,    /* all requests of the tree, fewer than rmin */
  SEARCH_STARVING, /* the oldest requests of a starving node, and the nearest lengths */
  SEARCH_FIFO,     /* the oldest requests of the tree */
};

/* Slots are in no order. */
struct search_batch {
  uint32_t *slots; /* (max_requests) owned by the caller */
  uint32_t n;
  uint64_t blocks;
  uint32_t found; /* enum search_case */
  uint32_t node;  /* search_mark marks it and its ancestors */
};

/* True if a node with requests has had no batch for starve_ns. */
bool search_starves(struct tree *, int64_t starve_ns, int64_t now_ns);
void search_dense(struct tree *, const struct search_limits *, int64_t now_ns,
                  struct search_batch *);
/* Requests of any length in order of arrival, up to bmax blocks: the ablation. */
void search_fifo(const struct tree *, const struct search_limits *,
                 struct search_batch *);
/* Requests in order of arrival, at most `requests` with at most `blocks` together. */
void search_oldest(const struct tree *, uint64_t blocks, uint32_t requests,
                   struct search_batch *);
/* Requests in a range of lengths, then those in `around` nearest to it, at most
 * `requests` with at most `blocks` together. */
void search_near(const struct tree *, struct tree_range, struct tree_range around,
                 uint64_t blocks, uint32_t requests, struct search_batch *);

/* Sets the time of the last batch of the batch's node and its ancestors to now_ns. */
void search_mark(struct tree *, const struct search_batch *, int64_t now_ns);
/* search_mark, and removes the batch's requests from the tree. */
void search_take(struct tree *, const struct search_batch *, int64_t now_ns);

#endif
