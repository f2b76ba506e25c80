/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index of all that earlier requests have computed, and who holds it: full blocks of
 * every group of layers, in every tier, found by the key of their last token.
 *
 * A key (struct lls_key) names its tokens and all before them, so a *node* is found by
 * its key alone; its parent is the node of the key before. A node has a block or none for
 * each group and tier, and at least one in all. A block of the tree is never written, and
 * only blocks of the tree are ever shared. One that nobody holds is *kept*: it stays
 * until its memory is needed, and counts as free.
 *
 * Each tier has its slabs (slabs.h), which count the holders of all blocks; the tree has,
 * for each size of block in a tier, the list of those that are kept, the one that was
 * held last at its end. What leaves first, when memory is short:
 *   - of a group of which a token reads all tokens before it, the first of the list. A
 *     sequence lets go its last block first, so a node leaves after its children. The
 *     node's blocks of other groups leave with it: without it they are of no use.
 *   - of other groups, the first of the list, whatever comes after it
 *
 * A request may begin behind n blocks if in each group all blocks are there that are read
 * from there on: all n; those of a window or a chunk; the one state after exactly n
 * blocks.
 *
 * Every word that a transaction changes goes through the journal. A node is made between
 * two transactions only. All functions run on the [step] thread, init and destroy on
 * [main]. The manager `paged` is the first that moves onto this, from prefixes.h.
 */
#ifndef LLS_POL_TREE_H
#define LLS_POL_TREE_H

#include <llmserve/policy/slabs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_POL_MAX_GROUPS 8
#define LLS_POL_MAX_TIERS  3

/* Which tokens before its own a token reads in a group. */
enum lls_pol_reads {
  LLS_POL_READS_ALL = 1,
  LLS_POL_READS_WINDOW, /* the `window` tokens that end with its own */
  LLS_POL_READS_CHUNK,  /* those in its chunk of `window` tokens */
  LLS_POL_READS_STATE,  /* one state, which stands for all of them */
};

struct lls_pol_tree_group {
  uint32_t reads; /* enum lls_pol_reads */
  uint32_t window;
};

struct lls_pol_node {
  uint32_t parent;      /* node; LLS_POL_NIL: it is the first of a prompt, or unknown */
  uint32_t children;    /* nodes of which it is the parent */
  uint32_t n_blocks;    /* 0: the node is free */
  uint32_t bucket_next; /* in the index; of free nodes: the next of them */
};

/* A node's block of one group in one tier: its *place*. */
struct lls_pol_tree_place {
  uint32_t unit;           /* its first one; LLS_POL_NIL: there is no block */
  uint32_t previous, next; /* places, in the list of kept blocks */
  uint32_t since;          /* the clock when it was let go */
};

struct lls_pol_kept { /* blocks of one size in one tier that nobody holds */
  uint32_t first, last, n;
};

struct lls_pol_tree_tier {
  struct lls_pol_tree *tree;
  struct lls_pol_slabs *slabs;
  uint32_t number;
  uint32_t *place_of; /* (blocks of the slabs) LLS_POL_NIL: not in the tree */
  struct lls_pol_kept kept[LLS_POL_MAX_CLASSES];
};

struct lls_pol_tree {
  struct lls_pol_journal *journal;
  uint32_t block_tokens, n_groups, n_tiers;
  struct lls_pol_tree_group groups[LLS_POL_MAX_GROUPS];
  struct lls_pol_tree_tier tiers[LLS_POL_MAX_TIERS];

  uint32_t n_nodes;                  /* as many as there are blocks */
  struct lls_pol_node *nodes;        /* (n_nodes) */
  struct lls_key *keys;              /* (n_nodes) */
  struct lls_pol_tree_place *places; /* (n_nodes, n_groups, n_tiers) */
  uint32_t *buckets;                 /* (bucket_mask + 1) */
  uint32_t *marks;                   /* (n_nodes) for audits and lists */
  uint32_t bucket_mask, free_node, n_used, clock;
};

struct lls_pol_match {
  uint32_t n;     /* leading blocks that need not be computed */
  uint32_t known; /* of groups that read all; more than n where another group lacks one */
};

/* The members up to groups, and the tiers' slabs, which are made, are set before: init
 * makes itself the slabs' owner, but for what is moved. -ENOMEM. Then make_empty. */
int lls_pol_tree_init(struct lls_pol_tree *);
void lls_pol_tree_destroy(struct lls_pol_tree *);
void lls_pol_tree_make_empty(struct lls_pol_tree *);

/* The node of a key, or LLS_POL_NIL. */
uint32_t lls_pol_tree_find(const struct lls_pol_tree *, const struct lls_key *);
/* A node's block: its first unit, or LLS_POL_NIL. */
uint32_t lls_pol_tree_block(const struct lls_pol_tree *, uint32_t node, uint32_t group,
                            uint32_t tier);
/* Looks up a request's keys, of which it may use all n; `tiers`: 1u << each that counts.
 */
void lls_pol_tree_match(const struct lls_pol_tree *, const struct lls_key *keys,
                        uint32_t n, uint32_t tiers, struct lls_pol_match *);
/* The first block of a group that is read from behind n blocks on. */
uint32_t lls_pol_tree_begin(const struct lls_pol_tree *, uint32_t group, uint32_t n);

/* A block that is held, full and computed becomes known as the i-th of these keys. The
 * unit of the block that is known from now on: another one's, if there was one already,
 * to which the caller may go over. Where a group reads all, its block is put first, and
 * nothing becomes known where that group's block before is not. Not in a transaction. */
uint32_t lls_pol_tree_put(struct lls_pol_tree *, const struct lls_key *keys, uint32_t i,
                          uint32_t group, uint32_t tier, uint32_t unit);
/* One more holds a block, of the tree or not; one less does, and a block that is not in
 * the tree is freed. */
void lls_pol_tree_hold(struct lls_pol_tree *, uint32_t tier, uint32_t unit);
void lls_pol_tree_let_go(struct lls_pol_tree *, uint32_t tier, uint32_t unit);
/* Is the block in the tree? Then it may not be written. */
bool lls_pol_tree_has(const struct lls_pol_tree *, uint32_t tier, uint32_t unit);
/* A block that nobody holds, and that nothing needs, leaves the tree; others stay. */
void lls_pol_tree_forget(struct lls_pol_tree *, uint32_t tier, uint32_t unit);
/* A block has moved within its tier (owner of slabs.h); its holders are told by others.
 */
void lls_pol_tree_moved(struct lls_pol_tree *, uint32_t tier, uint32_t from, uint32_t to);

void lls_pol_tree_pass(struct lls_pol_tree *, struct lls_pol_state_walk *);
/* After the slabs' audit. False, and nothing may be looked up, where numbers lead
 * elsewhere. */
bool lls_pol_tree_audit(struct lls_pol_tree *, struct lls_pol_report *);

#ifdef __cplusplus
}
#endif

#endif
