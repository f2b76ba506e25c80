/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of an instance that are on their way from or to others. */
#ifndef LLS_INSTANCE_MIGRATION_H
#define LLS_INSTANCE_MIGRATION_H

#include <llmserve/cache.h>

#include <stdatomic.h>

#include "core/instance/request_list.h"

struct lls_engine_pull;
struct lls_live;
struct lls_pull;

/* Copies that bring sequences from the blocks of one instance into those of another. */
struct lls_pulls {
  struct lls_pull *list; /* (max) */
  uint32_t n, max;
};

enum lls_left_place { LLS_LEFT_HERE, LLS_LEFT_HOST, LLS_LEFT_MOVING };

/* Where the blocks are of a request that has left; left.c says who may touch it when. */
struct lls_left {
  _Atomic uint32_t place; /* enum lls_left_place */
  int64_t since_ns;       /* by the clock of the instance that has the blocks */
  uint64_t transfer;      /* the cache manager's, if started */
  uint32_t target;        /* instance that it is offered to */
  bool to_host, started;
  bool shifted;                  /* so `blocks` is where it is, and no list before */
  struct lls_block_table blocks; /* its lists are in entries */
};

/* Requests between two instances; migrate.c, left.c. */
struct lls_migration {
  struct lls_request_list offered; /* by others, not yet here */
  /* of these, those that have room here and whose blocks come from another process, which
   * takes as long as it takes; no policy but the cache manager sees them meanwhile */
  struct lls_request_list fetching;
  struct lls_request *left; /* (slots) of those that left: as the manager knows them */
  uint32_t n_left;          /* whose blocks are still here */
  struct lls_live *late;    /* that are offered after this step; linked by next */
  struct lls_left *shelf;   /* (slots) where those are; others read it too */
  uint32_t *shifting; /* (max_requests) slots of those asked for, the oldest first */
  uint32_t n_shifting;
  struct lls_block_entry *entries; /* (slots, max_entries) */
  uint32_t max_entries;
  struct lls_live **taken;       /* (max_taken) in this step */
  struct lls_engine_pull *pulls; /* (max_taken) of each */
  struct lls_pulls copies;       /* of all */
  uint32_t n_taken, max_taken, n_pulls;
};

#endif
