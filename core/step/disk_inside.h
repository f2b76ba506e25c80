/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the disk tier, shared by its files; see disk_tier.h. */
#ifndef LLS_STEP_DISK_INSIDE_H
#define LLS_STEP_DISK_INSIDE_H

#include "core/device/pool_shape.h"
#include "core/disk/block_store.h"
#include "core/instance/request.h"
#include "core/step/disk_leases.h"

#define LLS_DISK_FETCHES 16 /* most sessions that are read at a time */

struct lls_disk_fetch { /* the reads for a session without a request */
  uint64_t session;     /* 0: there is none */
  struct lls_disk_wait wait;
};

struct lls_disk_tier {
  struct lls_block_store *store;
  /* where a record has the block of each group, and how large the block is */
  size_t offset[LLS_MAX_GROUPS], bytes[LLS_MAX_GROUPS];
  enum lls_dtype element;         /* type of a cached number */
  size_t numbers[LLS_MAX_GROUPS]; /* numbers in a block of each group */
  void *wide; /* room for a block as it is cached, where the disk has int8; else NULL */
  size_t record_bytes;
  uint32_t n_groups, all_groups; /* number; a bit for each */
  uint32_t form[LLS_MAX_GROUPS]; /* in which the manager takes a group's blocks */
  bool simulated;                /* blocks have no contents */

  uint64_t ticket; /* numbers the rounds of reads; the last round has this one */
  uint64_t coming; /* tokens that begun reads of requests and sessions still bring */
  bool said_full;

  struct lls_disk_leases leases;
  struct lls_disk_fetch fetches[LLS_DISK_FETCHES];
  uint32_t n_fetches;
  uint64_t fetched_tokens; /* counter: read for sessions without a request */
};

/* ---- disk_blocks.c */

/* Returns how many leading blocks the disk has in all groups, as far as later tokens read
 * them. */
uint32_t lls_disk_leading_blocks(const struct lls_instance *, const struct lls_key *,
                                 uint32_t most);
/* Counts as a use of the first n blocks. */
void lls_disk_use(struct lls_instance *, const struct lls_key *, uint32_t n);
/* Copies the unit's block from the pool to the record, in the disk's form. Returns 0 or
 * -errno; -ERANGE: int8 cannot have one of its numbers. */
int lls_disk_read_unit(struct lls_instance *, uint32_t group, uint32_t unit,
                       char *record);
/* Gives block `landed` to the manager, in the groups that need it, and fills what it
 * took. Returns true if it took the block in some group. */
bool lls_disk_land(struct lls_instance *, const struct lls_disk_wait *,
                   const struct lls_block_read *);
/* Returns true if blocks that were read for requests which have not run yet, and those
 * that come, take up so much of the device that the manager would lose them by reading
 * `tokens` more. */
bool lls_disk_is_far_ahead(const struct lls_instance *, uint64_t tokens);

/* ---- disk_fetch.c */

/* Ends the reads for sessions that have a request again, or are closed. The keys of the
 * others stay until the next change of sessions. */
void lls_disk_fetch_check(struct lls_instance *);
/* Takes a read if it is for a session. */
void lls_disk_fetch_take(struct lls_instance *, const struct lls_block_read *);
/* Asks for some blocks, if no request waits for any. */
void lls_disk_fetch_ask(struct lls_instance *);
/* The request's session is read no further. Returns true until the blocks that were asked
 * for have come. */
bool lls_disk_fetch_yields(struct lls_instance *, const struct lls_live *);
/* Ends the reads for all sessions. */
void lls_disk_fetch_stop(struct lls_instance *);

#endif
