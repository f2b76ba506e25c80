/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases on disk: blocks that a session left stay there until a time, whatever is
 * written. A session has one lease at most. Blocks of several leases count once; all
 * leases together have at most a share of the disk. Between tenants it is divided as the
 * memory is (leases.c): a lease that finds no room ends the oldest one of the tenant with
 * the most leased blocks, as long as that has more than this one's would have.
 *
 * All functions are [step], init and free [main]. Only init allocates.
 */
#ifndef LLS_STEP_DISK_LEASES_H
#define LLS_STEP_DISK_LEASES_H

#include "core/disk/block_store.h"
#include "core/instance/session.h"

struct lls_disk_lease {
  uint64_t session; /* 0: the lease is free */
  uint64_t number;  /* later leases have higher ones */
  int64_t until_ns;
  uint32_t tenant, blocks;
  uint32_t first; /* its last block's hold */
  uint32_t next;  /* in its bucket; of a free one: the next free one */
};

struct lls_disk_hold {
  struct lls_block_hold block;
  uint32_t next; /* of the same lease; of a free one: the next free one */
};

struct lls_disk_leases {
  struct lls_block_store *store;
  uint32_t most;                  /* blocks of all leases together */
  struct lls_disk_lease *leases;  /* (LLS_IDLE_SESSIONS + 1) */
  struct lls_disk_hold *holds;    /* (2 most) */
  uint32_t *buckets;              /* (LLS_SESSION_BUCKETS) by session */
  uint32_t free_lease, free_hold; /* UINT32_MAX: none */
  uint32_t n, holds_left;
  uint64_t blocks[LLS_SESSION_TENANTS]; /* leased blocks of each tenant */
  uint64_t last;                        /* number of the latest lease */
  int64_t soonest_ns;                   /* no lease ends before */
};

/* most: blocks of all leases together; fewer than the store has slots, so that others
 * always find room. Returns 0 or -ENOMEM; free is due in both cases. */
int lls_disk_leases_init(struct lls_disk_leases *, struct lls_block_store *,
                         uint32_t most);
void lls_disk_leases_free(struct lls_disk_leases *);

/* Gives the session a lease of its first n_keys blocks, which the store has and of which
 * there is at least one, in place of the one that it has. Returns 0; -ENOSPC: the share
 * does not suffice, and the session has none. */
int lls_disk_leases_take(struct lls_disk_leases *, const struct lls_session *,
                         uint32_t n_keys, int64_t until_ns);
/* Ends the session's lease, if it has one. */
void lls_disk_leases_end(struct lls_disk_leases *, uint64_t session);
/* Ends leases whose time has come. */
void lls_disk_leases_expire(struct lls_disk_leases *, int64_t now_ns);

#endif
