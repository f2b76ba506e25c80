/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks on disk, found by key: an index in memory over a block_file.h, and a thread that
 * reads and writes, so that no step waits for the disk. The block used longest ago makes
 * room for a new one.
 *
 * The thread works in the order of the calls, so a read sees the writes before it.
 * All functions are the [step] thread's, open and close [main]'s.
 *
 * A simulated store has neither file nor thread: its reads and writes take their time by
 * a virtual clock, one after the other as the thread's, and its records have no contents.
 */
#ifndef LLS_DISK_BLOCK_STORE_H
#define LLS_DISK_BLOCK_STORE_H

#include "core/disk/block_file.h"

struct lls_block_store;

struct lls_disk_rates {
  double read_byte_ns, write_byte_ns;
  double latency_ns; /* what each record takes besides its bytes */
};

struct lls_block_store_options {
  const char *path;
  const char *identity; /* (LLS_BLOCK_IDENTITY) */
  size_t record_bytes;
  uint64_t bytes; /* the largest size of the file */
  /* the largest total size of the records that wait to be written, and of the records
   * that were read and are not yet taken; each has room for one record at least */
  size_t writing_bytes, reading_bytes;
  const struct lls_block_io *io; /* NULL: the system's */
  /* NULL: a file. Else path and identity have no meaning, and clock is the time. */
  const struct lls_disk_rates *simulated;
  int64_t (*clock)(void *context);
  void *clock_context;
};

struct lls_block_store_status {
  uint32_t slots, used, held;
  uint64_t written_bytes, read_bytes;
  uint64_t failed_writes; /* the disk is full, or broken */
  uint64_t failed_reads;  /* damaged records included */
  int last_error;         /* of a write; 0: none */
};

struct lls_block_hold { /* names a block that is held */
  uint64_t write;
  uint32_t slot;
};

/* A read that has ended. */
struct lls_block_read {
  struct lls_key key;
  uint64_t ticket;
  const void *record; /* NULL: it failed, and the block is forgotten */
};

/* Returns 0, or -errno of lls_block_file_open, or -ENOMEM. */
int lls_block_store_open(const struct lls_block_store_options *,
                         struct lls_block_store **out, bool *emptied,
                         struct lls_error *err);
/* Waits for writes under way. */
void lls_block_store_close(struct lls_block_store *);

/* Returns the bits of the groups that the block has, or 0 if the store has no such block.
 * The block becomes the last to leave. */
uint32_t lls_block_store_find(struct lls_block_store *, const struct lls_key *);
/* Does so without a use: the block leaves no later for it. */
uint32_t lls_block_store_peek(const struct lls_block_store *, const struct lls_key *);
/* Keeps the block until let_go: no new block takes its slot, though a read or write of it
 * that fails does end it. One can be held several times. Returns false if the store does
 * not have it. */
bool lls_block_store_hold(struct lls_block_store *, const struct lls_key *,
                          struct lls_block_hold *out);
/* When the last hold is over, the block is the last to leave. */
void lls_block_store_let_go(struct lls_block_store *, const struct lls_block_hold *);
/* Returns how many blocks are held. */
uint32_t lls_block_store_held(const struct lls_block_store *);
/* Returns room for a record, or NULL if all is on its way to the disk, or all blocks on
 * it are held. put follows. */
void *lls_block_store_room(struct lls_block_store *);
/* Writes the record in that room, of a block that the store does not have. */
void lls_block_store_put(struct lls_block_store *, void *room, const struct lls_key *,
                         uint32_t groups);
/* Gives the room back, as nothing is written. */
void lls_block_store_unused(struct lls_block_store *, void *room);
/* Begins to read a block. Returns 0; -EAGAIN: later, since there is no room; -ENOENT. */
int lls_block_store_get(struct lls_block_store *, const struct lls_key *,
                        uint64_t ticket);
/* Takes the next read that has ended, in the order of the gets; false: none. The record
 * stays until done is called for it. */
bool lls_block_store_next(struct lls_block_store *, struct lls_block_read *out);
void lls_block_store_done(struct lls_block_store *, const struct lls_block_read *);
void lls_block_store_status(struct lls_block_store *, struct lls_block_store_status *);

#endif
