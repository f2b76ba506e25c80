/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of an instance that migrate to or from other instances. Two words are
 * used throughout: a request is `incoming` at the instance that may take it, until it
 * takes or refuses it; it is `offered` at the instance that its scheduler migrates it
 * away from, which has its blocks until it has been taken or has ended.
 */
#ifndef LLS_INSTANCE_MIGRATION_H
#define LLS_INSTANCE_MIGRATION_H

#include <llmserve/cache.h>

#include <stdatomic.h>

#include "core/device/pool_shape.h"
#include "core/instance/request_list.h"

struct lls_engine_pull;
struct lls_live;
struct lls_pull;

/* Block copies from one instance's pool to another's. */
struct lls_pulls {
  struct lls_pull *list; /* (max) */
  uint32_t n, max;
};

/* A sequence's lists of blocks, which outlive the manager's: the entries of all groups
 * follow one another in one array. */
struct lls_block_lists {
  uint32_t n_groups; /* 0: there are none */
  struct lls_group_list lists[LLS_MAX_GROUPS];
};

enum lls_offered_place { LLS_OFFERED_DEVICE, LLS_OFFERED_HOST, LLS_OFFERED_MOVING };

/* The place of the blocks of an offered request; offered.c says which thread may use it
 * when. */
struct lls_offered_blocks {
  _Atomic uint32_t place; /* enum lls_offered_place */
  int64_t since_ns;       /* time by the clock of the instance that has the blocks */
  uint64_t transfer;      /* the cache manager's, if started */
  uint32_t target;        /* instance that it is offered to */
  bool to_host, started;
  bool shifted;                  /* `blocks` is its place, not the earlier lists */
  struct lls_block_lists blocks; /* in entries; none: they cannot be copied */
};

/* Requests between two instances; migrate.c, offered.c. */
struct lls_migration {
  struct lls_request_list incoming; /* offered by other instances, not yet taken */
  /* incoming requests with memory reserved here, whose blocks are being fetched from
   * another process; meanwhile no policy but the cache manager sees them */
  struct lls_request_list fetching;
  struct lls_request *offered; /* (slots) copies of their views, for the cache manager */
  uint32_t n_offered;
  struct lls_live *late; /* requests to offer after this step; linked by next */
  /* (slots) where the blocks of offered requests are; other instances read it */
  struct lls_offered_blocks *offered_blocks;
  /* (max_requests) slots whose blocks another instance wants moved, oldest first */
  uint32_t *shifting;
  uint32_t n_shifting;
  struct lls_block_entry *entries; /* (slots, max_entries) */
  uint32_t max_entries;
  struct lls_live **taken;       /* (max_taken) requests taken in this step */
  struct lls_engine_pull *pulls; /* (max_taken) one for each */
  struct lls_pulls copies;       /* the copies of all `pulls` */
  uint32_t n_taken, max_taken, n_pulls;
};

#endif
