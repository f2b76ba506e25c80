/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Automatic prefix sharing for a cache manager: an index of full blocks by (parent
 * block, key), the number of sequences that hold each, and a list of blocks that none
 * holds.
 *
 * The index is a tree of blocks stored in a hash table. Two blocks are equal if their
 * parents are the same block and their keys are equal: the core makes keys (struct
 * lls_key) from everything that the contents depend on, and from who may share them.
 * With a window, or if blocks are released first one first, a block may leave the index
 * before the blocks that follow it; these are then not found any more, and leave when
 * they are evicted.
 *
 * A block is a number below n_blocks; its memory, and the list of free blocks, are the
 * manager's. To *hold* a block is to have a reference to it. Invariants:
 *   1. Only a full block is in the index, and a block in the index is never written. So
 *      only blocks of the index are ever shared.
 *   2. A block that leaves the index begins another generation, so that no block follows
 *      its next contents. Without a window this never matters: a sequence that holds a
 *      block of the index holds its parent, too, and blocks are released last one first,
 *      so a parent is never older in the reusable list than its children.
 *   3. Every word that a transaction changes goes through the journal.
 */
#ifndef LLS_POL_PREFIXES_H
#define LLS_POL_PREFIXES_H

#include <llmserve/policy/journal.h>
#include <llmserve/policy/report.h>
#include <llmserve/policy/state.h>
#include <llmserve/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_POL_ROOT (UINT32_MAX - 1) /* parent of a sequence's first block */

struct lls_pol_block {
  uint32_t references; /* sequences that hold it */
  /* in the list of reusable blocks; for other blocks, the manager may use next */
  uint32_t previous, next;
  uint32_t parent;            /* block or LLS_POL_ROOT; LLS_POL_NIL = not in the index */
  uint32_t generation;        /* how often it has left the index */
  uint32_t parent_generation; /* the parent's generation when this block was inserted */
  uint32_t bucket_next;       /* next block in the same bucket of the index */
  uint32_t children;          /* blocks in the index whose parent is this block in this
                               * generation */
};

struct lls_pol_prefixes {
  struct lls_pol_journal *journal;
  uint32_t block_tokens, n_blocks;
  bool orphans;                 /* children may outlive their parent: with a window */
  struct lls_pol_block *blocks; /* (n_blocks) */
  struct lls_key *keys;         /* (n_blocks) for blocks in the index */
  uint32_t *buckets;            /* (bucket_mask + 1) of the index */
  uint32_t *marks;              /* (n_blocks) for audits and lists */
  uint32_t bucket_mask;
  /* blocks in the index that no sequence holds; the one released first comes first */
  uint32_t reusable_first, reusable_last, n_reusable;
};

/* The members up to orphans must be set. Returns 0 or -ENOMEM. Call make_empty
 * afterwards. */
int lls_pol_prefixes_init(struct lls_pol_prefixes *);
void lls_pol_prefixes_free(struct lls_pol_prefixes *);
void lls_pol_prefixes_make_empty(struct lls_pol_prefixes *);

/* Returns the block that follows `parent` with this key, or LLS_POL_NIL. */
uint32_t lls_pol_prefixes_find(const struct lls_pol_prefixes *, uint32_t parent,
                               const struct lls_key *);
/* Like lls_pol_prefixes_find, for a request's i-th block. */
uint32_t lls_pol_prefixes_next(const struct lls_pol_prefixes *,
                               const struct lls_request *, uint32_t i, uint32_t parent);
/* Returns how many leading blocks of the request are in the index, at most `most`. */
uint32_t lls_pol_prefixes_match(const struct lls_pol_prefixes *,
                                const struct lls_request *, uint32_t most);

/* Inserts a full, held block that is not in the index. Not in a transaction. */
void lls_pol_prefixes_insert(struct lls_pol_prefixes *, uint32_t block, uint32_t parent,
                             const struct lls_key *);
/* Gives a free block its first reference. */
void lls_pol_prefixes_own(struct lls_pol_prefixes *, uint32_t block);
/* Adds a reference to a block of the index. */
void lls_pol_prefixes_hold(struct lls_pol_prefixes *, uint32_t block);
/* Removes a reference. Returns true if it was the last one and the block is not in the
 * index: the manager must then free it. */
bool lls_pol_prefixes_let_go(struct lls_pol_prefixes *, uint32_t block);
/* Removes the reusable block that was released first from the index; there must be one.
 * The manager frees it, or gives it to a new owner. */
uint32_t lls_pol_prefixes_evict(struct lls_pol_prefixes *);
/* Removes a block from the index. Returns false if it is held or has children. */
bool lls_pol_prefixes_forget(struct lls_pol_prefixes *, uint32_t block);
/* Returns true if `block` is still in the index as the parent of `next`. */
bool lls_pol_prefixes_is_parent(const struct lls_pol_prefixes *, uint32_t block,
                                uint32_t next);

/* How many of the blocks [begin, end) of a list more than one holds; a block's number is
 * its entry's first unit / units. */
uint32_t lls_pol_prefixes_shared(const struct lls_pol_prefixes *,
                                 const struct lls_block_entry *list, uint32_t units,
                                 uint32_t begin, uint32_t end);

/* For a manager's own state and its audit. Returns false if numbers are out of range:
 * nothing may then be looked up. */
void lls_pol_prefixes_pass(struct lls_pol_prefixes *, struct lls_pol_state_walk *);
bool lls_pol_prefixes_audit_index(struct lls_pol_prefixes *, struct lls_pol_report *);
/* Checks lists, children and keys; sets marks for the reusable blocks. */
void lls_pol_prefixes_audit(struct lls_pol_prefixes *, struct lls_pol_report *);

#ifdef __cplusplus
}
#endif

#endif
