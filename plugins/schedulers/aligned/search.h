/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches out of the tree: Density First Search (AlignedServe, section 3.3, Algorithm 1)
 * and starving subtrees (section 3.5). A search changes nothing; search_take does.
 */
#ifndef SEARCH_H
#define SEARCH_H

#include "tree.h"

struct search_limits {
  uint64_t bmax;     /* most blocks of a batch */
  uint32_t rmin;     /* fewer requests are widened */
  bool full;         /* widened until bmax, not just until rmin */
  int64_t starve_ns; /* 0: none starves */
};

enum search_case {
  SEARCH_NONE,     /* none is there */
  SEARCH_DENSE,    /* case 1: all of a node */
  SEARCH_WIDENED,  /* case 3: a node and the nearest around it; ended by memory, it may
                      have fewer than rmin */
  SEARCH_SPLIT,    /* the oldest of a leaf that is too big */
  SEARCH_OVERSIZE, /* one alone has more than bmax */
  SEARCH_SMALL,    /* all there are, fewer than rmin */
  SEARCH_STARVING, /* the oldest of a starving node, and the nearest around it */
  SEARCH_FIFO,     /* the oldest of all */
};

/* Slots are in no order. */
struct search_batch {
  uint32_t *slots; /* (max_requests) the caller's */
  uint32_t n;
  uint64_t blocks;
  uint32_t found; /* enum search_case */
  uint32_t node;  /* whose path has had its batch */
};

/* Lengths have had no batch for so long. */
bool search_starves(struct tree *, int64_t starve_ns, int64_t now_ns);
void search_dense(struct tree *, const struct search_limits *, int64_t now_ns,
                  struct search_batch *);
/* In the order of arrival up to bmax, whatever their lengths: the ablation. */
void search_fifo(const struct tree *, const struct search_limits *,
                 struct search_batch *);
/* In the order of arrival, as long as they have no more than `blocks` and are no more
 * than `requests`. */
void search_oldest(const struct tree *, uint64_t blocks, uint32_t requests,
                   struct search_batch *);
/* All in a range of lengths, then the nearest to it in `around`, as long as they have
 * no more than `blocks` and are no more than `requests`. */
void search_near(const struct tree *, struct tree_range, struct tree_range around,
                 uint64_t blocks, uint32_t requests, struct search_batch *);

/* The batch's node and all above it have had one. */
void search_mark(struct tree *, const struct search_batch *, int64_t now_ns);
/* And none of it is in the tree any more. */
void search_take(struct tree *, const struct search_batch *, int64_t now_ns);

#endif
