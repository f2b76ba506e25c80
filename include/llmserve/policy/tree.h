/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index of everything that earlier requests have computed, with the holders of it:
 * full blocks of every group of layers, in every tier, found by the key of their last
 * token.
 *
 * A key (struct lls_key) identifies its tokens and all earlier ones, so a *node* is
 * found by its key alone; its parent is the node of the preceding key. For each group
 * and tier a node has a block or none, and at least one in all. A block of the tree is
 * never written, and only blocks of the tree are ever shared. A block without holders
 * is *kept*: it stays until its memory is needed, and counts as free.
 *
 * Each tier has its slabs (slabs.h), which count the holders of all blocks. For each
 * block size in a tier, the tree has the list of kept blocks, the one released last at
 * its end. When memory is short, these leave first:
 *   - in a group in which a token reads all earlier tokens, the first of the list. A
 *     sequence releases its last block first, so a node leaves after its children. The
 *     node's blocks of other groups leave with it: without it they are useless. A block
 *     that the node has in another tier too leaves at any time. A block that others
 *     follow leaves as well if no other is found soon, or with its slab: these have no
 *     parent then.
 *   - in other groups, the first of the list, whatever follows it
 *
 * A request may begin after n blocks if in each group all blocks exist that are read
 * from there on: all n; those of a window or a chunk; the one state after exactly n
 * blocks.
 *
 * Every word that a transaction changes goes through the journal. Nodes are only made
 * between two transactions. All functions run on the [step] thread, init and destroy on
 * [main].
 */
#ifndef LLS_POL_TREE_H
#define LLS_POL_TREE_H

#include <llmserve/cache.h>
#include <llmserve/policy/slabs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_POL_MAX_GROUPS 8
#define LLS_POL_MAX_TIERS  3

struct lls_pol_node {
  uint32_t parent;      /* node; LLS_POL_NIL: the first of a prompt, or unknown */
  uint32_t parent_made; /* the parent's `made`; another: the parent has left */
  uint32_t made;        /* number of nodes made before it */
  uint32_t children;    /* nodes with this one as parent */
  uint32_t n_blocks;    /* 0: the node is free */
  uint32_t bucket_next; /* next node in the same bucket of the index; of a free node: the
                           next free one */
};

/* A node's block of one group in one tier: its *place*. */
struct lls_pol_tree_place {
  uint32_t unit;           /* first unit of the block; LLS_POL_NIL: no block */
  uint32_t previous, next; /* places, in the list of kept blocks */
  uint32_t since;          /* the clock when its last holder released it */
};

/* The part of a place that lls_pol_tree_changes needs. */
struct lls_pol_tree_shown {
  struct lls_key key; /* of the block that was shown there, if is_shown */
  bool is_shown;
  bool is_due;             /* the place is in the list of those that may have changed */
  bool may_leave;          /* it is also in the list of those that were shown */
  uint32_t previous, next; /* places, in the first list */
  uint32_t next_leaving;   /* place, in the second one */
};

struct lls_pol_kept { /* kept blocks of one size in one tier */
  uint32_t first, last, n;
  uint32_t ahead; /* the manager's mark: it moves to the next block if this one leaves,
                   * and from the end to the next that comes */
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
  const struct lls_group *const *groups; /* (n_groups) the engine's */
  void *manager;                         /* its own use; found by slabs' `moved` */
  /* NULL, or called in a transaction when the kept block of a place is about to leave the
   * device for want of memory. The manager may copy it to another tier. */
  void (*leaves)(void *manager, uint32_t place);
  bool shows_changes; /* lls_pol_tree_changes is called */
  bool is_hidden;     /* nothing is found: it shows no block */
  struct lls_pol_tree_tier tiers[LLS_POL_MAX_TIERS];

  uint32_t n_nodes;                  /* number of blocks */
  struct lls_pol_node *nodes;        /* (n_nodes) */
  struct lls_key *keys;              /* (n_nodes) */
  struct lls_pol_tree_place *places; /* (n_nodes, n_groups, n_tiers) */
  uint32_t *buckets;                 /* (bucket_mask + 1) */
  uint32_t *marks;                   /* (n_nodes) for audits and lists */
  struct lls_pol_tree_shown *shown;  /* (places), NULL without shows_changes */
  uint32_t due_first, due_last; /* places that may have changed since they were shown */
  uint32_t leaving;             /* the first of those with a block that was shown */
  uint32_t bucket_mask, free_node, n_used, n_made, clock;
  uint32_t n_dropped; /* blocks that left for want of memory; the manager resets it */
};

struct lls_pol_match {
  uint32_t n;     /* leading blocks that need not be computed */
  uint32_t known; /* leading blocks in groups that read all; more than n if another
                   * group lacks one */
};

/* The members up to leaves must be set, and the tiers' slabs made: init becomes the
 * slabs' owner, except for `moved`. Returns 0 or -ENOMEM. Call make_empty afterwards. */
int lls_pol_tree_init(struct lls_pol_tree *);
void lls_pol_tree_destroy(struct lls_pol_tree *);
void lls_pol_tree_make_empty(struct lls_pol_tree *);

/* Returns the node of a key, or LLS_POL_NIL. */
uint32_t lls_pol_tree_find(const struct lls_pol_tree *, const struct lls_key *);
/* Returns a node's parent, or LLS_POL_NIL if it has none or it has left. */
static inline uint32_t lls_pol_tree_parent(const struct lls_pol_tree *t, uint32_t node)
{
  uint32_t parent = t->nodes[node].parent;
  bool is_there = parent < t->n_nodes && t->nodes[parent].n_blocks > 0 &&
                  t->nodes[parent].made == t->nodes[node].parent_made;
  return is_there ? parent : LLS_POL_NIL;
}
/* Returns the first unit of a node's block, or LLS_POL_NIL. */
uint32_t lls_pol_tree_block(const struct lls_pol_tree *, uint32_t node, uint32_t group,
                            uint32_t tier);
/* Looks up n keys of a request, all of which it may use; `tiers`: the bit 1u << tier
 * for each tier to search. */
void lls_pol_tree_match(const struct lls_pol_tree *, const struct lls_key *keys,
                        uint32_t n, uint32_t tiers, struct lls_pol_match *);
/* Returns the first block of a group that is read when a request begins after n
 * blocks. */
uint32_t lls_pol_tree_begin(const struct lls_pol_tree *, uint32_t group, uint32_t n);

/*
 * Inserts a held, full and computed block as that of the i-th of these keys. Returns
 * the unit of the block in the tree from now on: if the tree had one already, that
 * block's, which the caller may use instead. If a group reads all, a node's block of it
 * must be inserted before the node's other blocks, and is not inserted if the group's
 * preceding block is not in the tree. Not in a transaction.
 */
uint32_t lls_pol_tree_put(struct lls_pol_tree *, const struct lls_key *keys, uint32_t i,
                          uint32_t group, uint32_t tier, uint32_t unit);
/* Makes a held block that of a node, which has it in another tier. In a transaction or
 * not. */
void lls_pol_tree_add(struct lls_pol_tree *, uint32_t node, uint32_t group, uint32_t tier,
                      uint32_t unit);
/* Makes a kept block the last to leave: as if it was released at `since`. */
void lls_pol_tree_touch(struct lls_pol_tree *, uint32_t tier, uint32_t unit,
                        uint32_t since);
/* Makes a kept block the first to leave. */
void lls_pol_tree_offer(struct lls_pol_tree *, uint32_t tier, uint32_t unit);
/* Add a holder to a block, in the tree or not; remove a holder: the last one's release
 * frees a block that is not in the tree. */
void lls_pol_tree_hold(struct lls_pol_tree *, uint32_t tier, uint32_t unit);
void lls_pol_tree_let_go(struct lls_pol_tree *, uint32_t tier, uint32_t unit);
/* Returns true if the block is in the tree, and so must not be written. */
bool lls_pol_tree_has(const struct lls_pol_tree *, uint32_t tier, uint32_t unit);
/* Removes a block from the tree, unless it has holders or other blocks need it. */
void lls_pol_tree_forget(struct lls_pol_tree *, uint32_t tier, uint32_t unit);
/* Removes a block that may have holders, of a group that does not read all tokens. */
void lls_pol_tree_remove(struct lls_pol_tree *, uint32_t tier, uint32_t unit);
/* Call it when a block has moved within its tier (owner in slabs.h); its holders are
 * updated by their owner. */
void lls_pol_tree_moved(struct lls_pol_tree *, uint32_t tier, uint32_t from, uint32_t to);

/* tree_changes.c. Notes that a place got or lost its block, which a rollback may undo. A
 * place that changes again becomes the last one: so a block is shown after the one that
 * it follows, unless that has left and come again in between. */
void lls_pol_tree_note(struct lls_pol_tree *, uint32_t place);
/* Notes all places that differ from what was shown: after an import. */
void lls_pol_tree_note_all(struct lls_pol_tree *);
/* Hides all blocks, which then have left for lls_pol_tree_changes, or shows them again.
 */
void lls_pol_tree_hide(struct lls_pol_tree *, bool hidden);
/* A vtable's `changes`. Between two transactions. Compares places with what was shown of
 * them, so that nothing is shown of what a rollback took back. */
size_t lls_pol_tree_changes(struct lls_pol_tree *, struct lls_block_change *out,
                            size_t max);

void lls_pol_tree_pass(struct lls_pol_tree *, struct lls_pol_state_walk *);
/* Call it after the slabs' audit. Returns false if numbers are out of range: nothing
 * may then be looked up. */
bool lls_pol_tree_audit(struct lls_pol_tree *, struct lls_pol_report *);

#ifdef __cplusplus
}
#endif

#endif
