/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block tables that are kept from one step to the next, for a device that computes beside
 * the host (lls_device.asynchronous): table_cache.c.
 */
#ifndef LLS_ENGINE_TABLE_CACHE_H
#define LLS_ENGINE_TABLE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include <llmserve/types.h>

#include "core/base/error.h"

struct lls_engine;
struct lls_engine_batch;
struct lls_step_sequence;

enum lls_table_cache_which { LLS_TABLE_K, LLS_TABLE_V, LLS_TABLE_X, LLS_TABLE_LISTS };

struct lls_table_cache_list {
  uint32_t first, room; /* its place in the arena, in entries */
  uint32_t n;           /* entries, checked; 0 = none */
  bool tidy_before;     /* all but the last are whole blocks in order, from the left */
  bool tidy;            /* all of them; the last may be part filled */
};

struct lls_table_cache_sequence {
  struct lls_table_cache_list lists[LLS_TABLE_LISTS];
  const void *hint; /* where the caller had its first list */
  bool taken;       /* by a sequence of this step */
};

struct lls_table_cache {
  struct lls_block_entry *arena; /* (room) pinned; NULL: nothing is kept */
  size_t room, used, live;       /* entries; live: what the last step's lists take */
  struct lls_table_cache_sequence *before, *now; /* (max_sequences) */
  uint32_t n_before, n_now;
  uint32_t next;                  /* in before: whose turn it is if nothing has changed */
  uint32_t looks;                 /* that searches may still take in this step */
  struct lls_block_table *tables; /* (max_sequences) the step's, in the arena */
  size_t scratch_at;              /* restored lists of the step, behind `used` */
};

/* 0 or -ENOMEM. */
int lls_table_cache_init(struct lls_engine *);
void lls_table_cache_free(struct lls_engine *);

/* A step's sequences one after another: begin for all, table for each, its lists, end. */
void lls_table_cache_begin(struct lls_engine *);
void lls_table_cache_next(struct lls_engine *, const struct lls_block_table *);
/* Checks a list of it as lls_engine_check_entries does, and keeps it. */
int lls_table_cache_put(struct lls_engine *, enum lls_table_cache_which,
                        const struct lls_block_entry *list, uint32_t n, uint32_t context,
                        uint32_t needed, struct lls_error *err);
/* Leaves room for the step's scratch lists. */
int lls_table_cache_end(struct lls_engine *, const struct lls_engine_batch *,
                        struct lls_error *err);
/* A sequence of the step with its kept lists. */
void lls_table_cache_lay_out(const struct lls_table_cache *, uint32_t index,
                             struct lls_step_sequence *);
/* The step was refused. */
void lls_table_cache_forget(struct lls_engine *);

#endif
