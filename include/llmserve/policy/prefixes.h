/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Automatic prefix sharing for a cache manager: an index of full blocks by (parent block,
 * key), who holds them, and those that nobody does.
 *
 * The index is a tree of blocks laid out in a hash table. Two blocks are the same if
 * their parents are the same block and their keys are equal: the core makes keys (struct
 * lls_key) of all that the contents depend on and of who may share them. With a window,
 * or where blocks are let go first one first, a block may leave the index before those
 * that come after it, which then are not found any more, and go when their turn comes.
 *
 * A block is a number below n_blocks; what memory that is, and which blocks are free, is
 * the manager's. Invariants:
 *   1. Only a full block is in the index, and a block in the index is never written. So
 *      only blocks of the index are ever shared.
 *   2. A block that leaves the index begins another generation, so that no block comes
 *      after what is in it next. Without a window that never matters: a sequence that
 *      holds a block of the index holds its parent too, and blocks are let go last one
 *      first, so a parent is never older in the reusable list than its children.
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
  /* in the list of reusable blocks; of others, the manager may use next */
  uint32_t previous, next;
  uint32_t parent;            /* block or LLS_POL_ROOT; LLS_POL_NIL = not in the index */
  uint32_t generation;        /* how often it has left the index */
  uint32_t parent_generation; /* of the parent when this came after it */
  uint32_t bucket_next;       /* in the index */
  uint32_t children; /* blocks in the index whose parent it is, of this generation */
};

struct lls_pol_prefixes {
  struct lls_pol_journal *journal;
  uint32_t block_tokens, n_blocks;
  bool orphans;                 /* children may outlive their parent: with a window */
  struct lls_pol_block *blocks; /* (n_blocks) */
  struct lls_key *keys;         /* (n_blocks) of what is in the index */
  uint32_t *buckets;            /* (bucket_mask + 1) of the index */
  uint32_t *marks;              /* (n_blocks) for audits and lists */
  uint32_t bucket_mask;
  /* not held but in the index, the one that was let go first comes first */
  uint32_t reusable_first, reusable_last, n_reusable;
};

/* The members up to orphans are set before; -ENOMEM. Then make_empty. */
int lls_pol_prefixes_init(struct lls_pol_prefixes *);
void lls_pol_prefixes_free(struct lls_pol_prefixes *);
void lls_pol_prefixes_make_empty(struct lls_pol_prefixes *);

/* The block that comes after `parent` with this key, or LLS_POL_NIL. */
uint32_t lls_pol_prefixes_find(const struct lls_pol_prefixes *, uint32_t parent,
                               const struct lls_key *);
/* That of a request's i-th block. */
uint32_t lls_pol_prefixes_next(const struct lls_pol_prefixes *,
                               const struct lls_request *, uint32_t i, uint32_t parent);
/* How many leading blocks of the request the index has, at most `most`. */
uint32_t lls_pol_prefixes_match(const struct lls_pol_prefixes *,
                                const struct lls_request *, uint32_t most);

/* A full block that is held, and not known yet, becomes known. Not in a transaction. */
void lls_pol_prefixes_insert(struct lls_pol_prefixes *, uint32_t block, uint32_t parent,
                             const struct lls_key *);
/* A block that was free is held by one. */
void lls_pol_prefixes_own(struct lls_pol_prefixes *, uint32_t block);
/* One more holds a block of the index. */
void lls_pol_prefixes_hold(struct lls_pol_prefixes *, uint32_t block);
/* One less; true: nobody does, it is not in the index, and the manager frees it. */
bool lls_pol_prefixes_let_go(struct lls_pol_prefixes *, uint32_t block);
/* The reusable block that was let go first leaves the index; there must be one. The
 * manager frees it, or its next owner owns it. */
uint32_t lls_pol_prefixes_evict(struct lls_pol_prefixes *);
/* One that nobody holds and nothing comes after leaves the index: then true. */
bool lls_pol_prefixes_forget(struct lls_pol_prefixes *, uint32_t block);
/* Is `block` what came before `next` in the index, and still there? */
bool lls_pol_prefixes_is_parent(const struct lls_pol_prefixes *, uint32_t block,
                                uint32_t next);

/* How many of the blocks [begin, end) of a list of K entries more than one holds; a
 * block's number is that of its entry's unit >> shift. */
uint32_t lls_pol_prefixes_shared(const struct lls_pol_prefixes *,
                                 const struct lls_block_entry *k, uint32_t shift,
                                 uint32_t begin, uint32_t end);

/* For a manager's own state, and its audit: false, and nothing may be looked up, where
 * numbers lead elsewhere. */
void lls_pol_prefixes_pass(struct lls_pol_prefixes *, struct lls_pol_state_walk *);
bool lls_pol_prefixes_audit_index(struct lls_pol_prefixes *, struct lls_pol_report *);
/* Lists, children and keys; leaves in marks which blocks are reusable. */
void lls_pol_prefixes_audit(struct lls_pol_prefixes *, struct lls_pol_report *);

#ifdef __cplusplus
}
#endif

#endif
