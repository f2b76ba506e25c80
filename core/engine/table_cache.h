/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps block tables from one step to the next, for a device that computes concurrently
 * with the host (lls_device.asynchronous): table_cache.c.
 */
#ifndef LLS_ENGINE_TABLE_CACHE_H
#define LLS_ENGINE_TABLE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include <llmserve/types.h>

#include "core/base/error.h"
#include "core/device/pool_shape.h"

struct lls_engine;
struct lls_engine_batch;
struct lls_list_check;
struct lls_step_sequence;

/* A sequence's lists; OTHERS: those of the groups after the first. */
enum lls_table_cache_which { LLS_TABLE_ENTRIES, LLS_TABLE_RESTORED, LLS_TABLE_OTHERS };

struct lls_table_cache_list {
  uint32_t first, room; /* place of the list in the arena and its capacity, in entries */
  uint32_t n;           /* checked entries; 0 = none */
  /* all entries but the last are whole blocks in order, left to right */
  bool tidy_before;
  bool tidy; /* tidy_before, and the last entry is in order as well; it may be partly
                filled */
};

struct lls_table_cache_sequence {
  struct lls_table_cache_list lists[LLS_TABLE_OTHERS + LLS_MAX_GROUPS - 1];
  const void *hint; /* the caller's address of its first list */
  bool taken;       /* a sequence of this step uses it */
};

struct lls_table_cache {
  struct lls_block_entry *arena; /* (room) pinned; NULL: lists are not kept */
  /* entries: capacity, used, and those of the last step's lists */
  size_t room, used, live;
  struct lls_table_cache_sequence *before, *now; /* (max_sequences) */
  uint32_t n_before, n_now;
  uint32_t next; /* index in `before` of the next candidate */
  /* kept sequences that searches may still visit in this step */
  uint32_t looks;
  /* offset of the step's lists of restored blocks, after `used` */
  size_t scratch_at;
};

/* Returns 0 or -ENOMEM. */
int lls_table_cache_init(struct lls_engine *);
void lls_table_cache_free(struct lls_engine *);

/* Takes a step's sequences in turn: begin, then for each sequence next and a put for
 * each of its lists, then end. */
void lls_table_cache_begin(struct lls_engine *);
void lls_table_cache_next(struct lls_engine *, const struct lls_group_list *);
/* Checks a list of the current sequence, of those of enum lls_table_cache_which, like
 * lls_engine_check_entries and keeps a copy. */
int lls_table_cache_put(struct lls_engine *, uint32_t which,
                        const struct lls_block_entry *list, uint32_t n,
                        const struct lls_list_check *, struct lls_error *err);
/* Ends the step's lists and makes room for its scratch lists. */
int lls_table_cache_end(struct lls_engine *, const struct lls_engine_batch *,
                        struct lls_error *err);
/* Points a sequence of the step to its kept lists in a group. */
void lls_table_cache_lay_out(const struct lls_table_cache *, uint32_t index,
                             uint32_t group, struct lls_step_sequence *);
/* Forgets the step's lists; for a step that was refused. */
void lls_table_cache_forget(struct lls_engine *);

#endif
