/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the cache's disk tier: records of equal size, each with the contents of one
 * block of tokens in all groups of layers, in slots. Kept prompts have the same file,
 * with a record for each part of a group's block.
 *
 *   head      magic, identity of model, device, settings and version; sizes
 *   entries   one of 64 bytes for each slot: key, sums
 *   slots     whole pages
 *
 * Invariant: what a read returns as good was written for that key as a whole. A write
 * first replaces a slot's record, then its entry; an entry has the sum of its record, and
 * one of itself, so that a write that broke off at any point, or a record that the disk
 * changed, does not fit its entry. So nothing needs to be synced. The file is read on the
 * machine that wrote it: numbers have its byte order. One process has it at a time.
 *
 * Functions that read and write run on the store's thread, open and close on [main].
 */
#ifndef LLS_DISK_BLOCK_FILE_H
#define LLS_DISK_BLOCK_FILE_H

#include <llmserve/types.h>

#include <stddef.h>
#include <sys/types.h>

#include "core/base/error.h"

#define LLS_BLOCK_IDENTITY 1024
#define LLS_BLOCK_PAGE     4096

struct lls_block_entry_on_disk {
  struct lls_key key;
  uint64_t sequence; /* number of the write, from 1 on; 0: the slot is empty */
  uint64_t sum;      /* of the record */
  uint32_t groups;   /* bits of the groups that the record has */
  /* of kept prompts (core/record/persistent_prompts.c), else 0 */
  uint32_t part;   /* number of the record within its block */
  uint32_t parent; /* number of the block before */
  uint32_t unused[3];
  uint64_t entry_sum; /* of all above */
};

/* Calls of the system; tests replace them. */
struct lls_block_io {
  ssize_t (*read)(int fd, void *to, size_t bytes, off_t at);
  ssize_t (*write)(int fd, const void *from, size_t bytes, off_t at);
};

struct lls_block_file {
  struct lls_block_io io;
  int fd;      /* through the page cache: head and entries */
  int data_fd; /* past it where the file system can (O_DIRECT), else fd: slots */
  uint32_t n_slots;
  size_t record_bytes, slot_bytes;
  off_t slots_at;
};

/* Sets the sizes and number of slots in a file of at most `bytes` bytes. Returns 0, or
 * -ENOSPC: not one slot fits. */
int lls_block_file_size(size_t record_bytes, uint64_t bytes, struct lls_block_file *,
                        struct lls_error *err);
/* Opens or makes the file, of at most `bytes` bytes. One of another identity or size is
 * emptied: *emptied says so. Returns 0; -EWOULDBLOCK: another process has it; -ENOSPC:
 * not one slot fits into `bytes`; another -errno. io: NULL = the system's. */
int lls_block_file_open(const char *path, const char identity[LLS_BLOCK_IDENTITY],
                        size_t record_bytes, uint64_t bytes,
                        const struct lls_block_io *io, struct lls_block_file *out,
                        bool *emptied, struct lls_error *err);
/* Opens an existing file, with the size that it was made with. Returns 0; -ENOENT;
 * -ESTALE: of another identity; -EINVAL: none of this version, or cut short; another
 * -errno. */
int lls_block_file_open_found(const char *path, const char identity[LLS_BLOCK_IDENTITY],
                              size_t record_bytes, struct lls_block_file *out,
                              struct lls_error *err);
void lls_block_file_close(struct lls_block_file *);
/* Returns the bytes of a file with n_slots slots. */
uint64_t lls_block_file_bytes(size_t record_bytes, uint32_t n_slots);

/* Reads the entries of all slots to (n_slots) entries; those that do not hold together
 * are empty. */
int lls_block_file_entries(const struct lls_block_file *,
                           struct lls_block_entry_on_disk *out);
/* Writes a record of slot_bytes, aligned to a page, and its entry, whose sums it sets. */
int lls_block_file_write(struct lls_block_file *, uint32_t slot,
                         struct lls_block_entry_on_disk *, const void *record);
/* Reads the record of an entry. Returns 0; -EBADMSG: it is not what was written for the
 * entry; another -errno. */
int lls_block_file_read(struct lls_block_file *, uint32_t slot,
                        const struct lls_block_entry_on_disk *, void *record);

#endif
