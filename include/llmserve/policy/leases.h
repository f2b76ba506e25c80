/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: chains of blocks of a tree (tree.h) that stay in a tier until a time, even if
 * others need their memory. A lease belongs to a session, which has one at most in each
 * tier, and is one more holder of each of its blocks. So it never counts as free memory,
 * and when it ends, its blocks are kept as those of a request that has just ended.
 *
 * A lease has the blocks from which a request with these keys could begin: up to the
 * first that is not in the tier, and of other groups than those that read all, those
 * alone that such a request reads.
 *
 * All leases together have at most `share` of a tier. Blocks of several leases count
 * once.
 *
 * Every word that a transaction changes goes through the journal. All functions run on
 * the [step] thread, init and destroy on [main]. Times are those of lls_host.now.
 */
#ifndef LLS_POL_LEASES_H
#define LLS_POL_LEASES_H

#include <llmserve/policy/tree.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_lease {
  uint64_t session;
  int64_t until_ns;
  uint32_t tier, blocks;
  uint32_t first; /* hold of its last block; LLS_POL_NIL: the lease is free */
  uint32_t next;  /* next lease in the same bucket; of a free lease: the next free one */
};

struct lls_pol_lease_hold { /* a block of a lease */
  uint32_t place;           /* of the tree */
  uint32_t next;            /* hold of the block before; of a free hold: the next one */
};

struct lls_pol_leases {
  struct lls_pol_tree *tree;
  double share;                     /* of a tier's units, for all leases of that tier */
  struct lls_pol_lease *leases;     /* (max) */
  struct lls_pol_lease_hold *holds; /* (n_holds) */
  uint32_t *buckets;                /* (bucket_mask + 1) by session */
  uint32_t *of_place;               /* (places of the tree) leases that have the block */
  uint32_t max, n_holds, bucket_mask;
  uint32_t n, free_lease, free_hold, holds_left;
  uint32_t units[LLS_POL_MAX_TIERS]; /* of all leases of a tier */
  int64_t soonest_ns;                /* no lease ends before */
};

/* `tree` and `share` must be set, and the tree made. Returns 0 or -ENOMEM. Call
 * make_empty afterwards. */
int lls_pol_leases_init(struct lls_pol_leases *);
void lls_pol_leases_destroy(struct lls_pol_leases *);
void lls_pol_leases_make_empty(struct lls_pol_leases *);

/*
 * Gives the session a lease in place of the one that it has in the tier, if any. Returns
 * how many blocks of its keys a request finds there. 0: it has none now. -ENOSPC: the
 * share does not suffice; -EBUSY: a request that runs has the last state, and may write
 * over it; -ENOBUFS: the journal is full; then nothing has changed. In a transaction.
 */
int lls_pol_leases_take(struct lls_pol_leases *, uint64_t session, uint32_t tier,
                        const struct lls_key *keys, uint32_t n_keys, int64_t until_ns);
/* Ends leases whose time has come. */
void lls_pol_leases_expire(struct lls_pol_leases *, int64_t now_ns);
/* Ends all of the tier's leases, whatever their time. Not in a transaction. */
void lls_pol_leases_end(struct lls_pol_leases *, uint32_t tier);
/* Ends the tier's leases, those of the soonest end first, until so many blocks of each
 * class fit; false: they do not, or the journal is full. */
bool lls_pol_leases_make_room(struct lls_pol_leases *, uint32_t tier,
                              const uint32_t *blocks);

/* Adds the holders that leases are to `marks`, by lls_pol_slabs_number. */
void lls_pol_leases_mark(const struct lls_pol_leases *, uint32_t tier, uint32_t *marks);
int lls_pol_leases_pass(struct lls_pol_leases *, struct lls_pol_state_walk *);
void lls_pol_leases_audit(struct lls_pol_leases *, struct lls_pol_report *);

#ifdef __cplusplus
}
#endif

#endif
