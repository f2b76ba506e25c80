/* SPDX-License-Identifier: Apache-2.0 */
/* The step of an instance that is under way: transaction, batch, and what a change of
 * policies left to it. */
#ifndef LLS_INSTANCE_STEP_STATE_H
#define LLS_INSTANCE_STEP_STATE_H

#include <llmserve/cache.h>
#include <llmserve/scheduler.h>

#include "core/plugin/kinds.h"

struct lls_engine_sequence;
struct lls_live;

/* One thing done to the cache in the open transaction, so that rollback can undo marks.
 */
struct lls_placement {
  struct lls_live *live;
  uint32_t mark_before; /* the manager's mark when it was done */
};

struct lls_transaction {
  bool open;
  struct lls_placement *done; /* (capacity) in order, each request once */
  uint32_t n_done, capacity;
  bool displaced; /* slots of requests that the plan does not name, maybe */
};

/* The plan of this step, carried out: rows of the engine's batch. */
struct lls_step_batch {
  struct lls_live **live;                /* (max_sequences) */
  struct lls_engine_sequence *sequences; /* (max_sequences) */
  struct lls_block_table *tables;        /* (max_sequences) */
  struct lls_step_result *results;       /* (max_sequences) */
  struct lls_chunk_shape *chunks;        /* (max_sequences) scratch for the cost model */
  uint32_t *decode_context;              /* (max_sequences) likewise */
  uint32_t n;
  /* (max_sequences) whose last row waits for its mask: mask_turns.c */
  struct lls_live **held;
  uint32_t n_held;
  bool swaps; /* something is copied from or to the host */
};

/* Which policies took over in a reload and are to be told of what is alive. */
struct lls_succession {
  bool replaced, imported; /* imported: it knows them from its predecessor */
};

struct lls_adoption {
  bool any;
  LLS_EACH_KIND_OF(struct lls_succession);
};

/* The copies that a scheduler gets (core/step/plan_memory.h). */
struct lls_plan_memory {
  void *map;
  size_t map_bytes;
  uint32_t max_items;
  struct lls_plan *plan;
  struct lls_plan_item *items; /* (max_items) */
  struct lls_step_view *view;
  struct lls_cache_service *service;
  const struct lls_request **lists;      /* (max_listed) the view's, one after another */
  struct lls_instance_load *loads;       /* (n_loads) */
  const struct lls_instance_load **list; /* (n_loads) pointers to `loads` */
  struct lls_step_result *results;       /* (max_results) of the report of a step */
  uint32_t max_listed, n_loads, max_results;
};

#endif
