/* SPDX-License-Identifier: Apache-2.0 */
/* The state of an instance's current step: transaction, batch, and the work that a
 * change of policies left to it. */
#ifndef LLS_INSTANCE_STEP_STATE_H
#define LLS_INSTANCE_STEP_STATE_H

#include <llmserve/cache.h>
#include <llmserve/scheduler.h>

#include "core/plugin/kinds.h"

struct lls_draft_ask;
struct lls_draft_model;
struct lls_engine;
struct lls_engine_sequence;
struct lls_grammar_state;
struct lls_live;
struct lls_sampling;

/* One change to the cache in the open transaction, for rollback. */
struct lls_placement {
  struct lls_live *live;
  uint32_t mark_before; /* the manager's mark before the change */
};

struct lls_transaction {
  bool open;
  struct lls_placement *done; /* (capacity) in order, each request at most once */
  uint32_t n_done, capacity;
  bool displaced; /* requests that the plan does not name may have lost slots */
};

/* Memory for the draws of a step that verifies guesses (core/step/drafts.h). A row is a
 * guess. */
struct lls_step_drafts {
  struct lls_sampling *draws;     /* (2 max_rows) of which n_draws are used */
  uint32_t *masks;                /* (max_rows, words) of which n_rows are used */
  struct lls_grammar_state *walk; /* scratch: a grammar behind some guesses */
  size_t words;
  uint32_t max_rows, n_rows, n_draws;
};

/* The step's plan as rows of the engine's batch. */
struct lls_step_batch {
  struct lls_live **live;                /* (max_sequences) */
  struct lls_engine_sequence *sequences; /* (max_sequences) */
  struct lls_block_table *tables;        /* (max_sequences) */
  struct lls_step_result *results;       /* (max_sequences) */
  struct lls_chunk_shape *chunks;        /* (max_sequences) scratch for the cost model */
  uint32_t *decode_context;              /* (max_sequences) scratch, too */
  uint32_t n;
  /* (max_sequences) requests whose last row waits for its mask: mask_turns.c */
  struct lls_live **held;
  uint32_t n_held;
  struct lls_step_drafts drafts;
  bool swaps; /* there are copies from or to the host */
};

/* Limits the work for grammar masks in a step; see core/step/mask_budget.c. */
struct lls_mask_budget {
  int64_t device_ns; /* duration of the last step with tokens */
  int64_t mask_ns;   /* time of the grammar masks in the last step that filled any */
  uint64_t debt;     /* units of mask work beyond the limits of earlier steps */
};

/* The calls of the drafter between two steps; see core/step/drafter.c. */
struct lls_drafting {
  bool on;         /* the scheduler plans drafts, and the drafter makes some */
  int64_t debt_ns; /* time beyond the budgets of earlier steps */
  /* The draft model (core/draft): its engine, which is the loop's creator's; what it is
   * asked; its own debt. NULL: there is none. */
  struct lls_engine *engine;
  struct lls_draft_model *model;
  struct lls_draft_ask *asks;   /* (max_requests) */
  struct lls_draft_read *reads; /* (caps.max_sequences) of heads */
  int64_t model_debt_ns;
  uint32_t model_turn; /* place in the running list of the first request asked about */
  uint32_t turn;       /* place in the running list of the next request to be drafted */
};

/* How a reload changed one policy. A replaced one must learn of live requests. */
struct lls_succession {
  bool replaced, imported; /* imported: it knows them from its predecessor's state */
};

struct lls_adoption {
  bool any;
  LLS_EACH_KIND_OF(struct lls_succession);
};

/* The copies that a scheduler gets (core/policy/plan_memory.h). */
struct lls_plan_memory {
  void *map;
  size_t map_bytes;
  uint32_t max_items;
  struct lls_plan *plan;
  struct lls_plan_item *items; /* (max_items) */
  struct lls_step_view *view;
  struct lls_cache_service *service;
  const struct lls_request **lists;      /* (max_listed) all lists of the view */
  const struct lls_session **sessions;   /* (LLS_IDLE_SESSIONS + 1) */
  struct lls_instance_load *loads;       /* (n_loads) */
  const struct lls_instance_load **list; /* (n_loads) pointers to `loads` */
  struct lls_step_result *results;       /* (max_results) results of a step's report */
  uint32_t max_listed, n_loads, max_results;
};

#endif
