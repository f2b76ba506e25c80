/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small host for tests of policies: real plugin files over no engine at all. It steps
 * as the core does (see cache.h), checks plans, and stands in for the engine with memory
 * that holds, in the place of each token's K and V, a digest of all tokens up to it. What
 * attention would read is compared with what it should be, so sharing, copy-on-write and
 * swapping are checked by their effect.
 *
 * Everything is single-threaded and repeatable. What is wrong fails the running cmocka
 * test.
 */
#ifndef LLS_T_FAKE_H
#define LLS_T_FAKE_H

#include "t/policy.h"

#define FAKE_VOCABULARY 50

struct fake_options {
  struct harness_policy scheduler, cache, predictor; /* predictor: none by default */
  uint32_t block_tokens, device_units, host_units;
  uint32_t int8; /* enum lls_int8 */
  uint32_t max_tokens, max_sequences, max_context, max_requests;
  bool no_mixed_batch, no_chunked_prefill;
  int64_t prefill_ns;   /* a token, as the cost service says; 0: it does not know */
  bool audit;           /* audit the cache at every turn */
  bool expect_refusals; /* a refused plan is no failure */
  uint64_t seed;
};

/* What fake_submit gives to the next requests; the tests set it as they like. */
struct fake_next {
  uint32_t request_class, tenant;
  struct lls_slo slo;      /* none at first */
  uint32_t predicted;      /* length of the answer; 0: as the predictor says */
  uint32_t max_new_tokens; /* 0: the output itself */
};

enum fake_placed { PLACED_NOT, PLACED_RESERVED, PLACED_PREEMPTED };

struct fake_request {
  struct lls_request view; /* first */
  int32_t *tokens;         /* (max_context + 1) */
  uint64_t *digests;       /* (max_context + 1) of tokens 0..i */
  uint64_t user[LLS_USER_WORDS];
  uint32_t output; /* tokens it will say */
  /* in the open transaction */
  enum fake_placed placed;
  uint32_t mark_before, mode, context, run_tokens, asked_tokens;
  bool named, doomed;
};

struct fake_list {
  const struct lls_request **items; /* (max_requests) */
  uint32_t n;
};

struct fake_memory {  /* two tiers of unit blocks */
  uint64_t *slots[2]; /* (units, 2 halves, block_tokens) by enum lls_tier */
  uint32_t units[2], block_tokens;
};

struct fake_counter {
  const char *name; /* static string of the plugin */
  double value;
};

struct fake {
  struct fake_options o;
  struct lls_host host;
  struct lls_engine_caps caps;
  struct lls_instance_info instance;
  struct lls_topology topology;
  struct lls_cost cost;
  struct lls_cache_service service;
  struct harness_loaded scheduler, cache, predictor;
  void *scheduler_self, *cache_self, *predictor_self;
  const struct lls_scheduler_vtable *s; /* shorthands into the modules */
  const struct lls_cache_vtable *c;
  const struct lls_predictor_vtable *p;

  struct fake_next next;
  int64_t now_ns;
  uint64_t random_state;
  uint32_t streams; /* bits of those that policies have drawn from */
  uint64_t next_id;
  struct fake_request **by_slot; /* (max_requests) NULL where nobody lives */
  struct fake_list waiting, running, preempted;
  struct fake_memory memory;

  bool refuse_next; /* the next plan, however good it is */
  bool plan_itself; /* random requests are run or preempted, nobody asks the scheduler */
  bool in_transaction;
  uint64_t step;
  uint32_t preempt_mode;
  struct lls_plan plan;
  struct lls_step_result *results; /* (max_requests) */

  char *text; /* of the last audit */
  size_t text_length, text_capacity;
  struct fake_counter counters[32]; /* (n_counters) what policies have counted */
  uint32_t n_counters;
  char failure[512];      /* host->fail's last sentence */
  char misbehaviour[512]; /* the first line at LLS_LOG_HOST_MISBEHAVING, or "" */

  /* counters for tests */
  uint32_t finished[LLS_FINISH_ERROR + 1];
  uint32_t refused_plans, refused_items, preempted_recompute, preempted_swap;
  uint32_t displaced; /* requests that a step left partly resident */
  uint32_t copies[LLS_COPY_DEVICE_TO_DEVICE + 1];
  uint64_t shared_tokens; /* that were not computed, others had them */
};

/* ---- fake.c: creation, services */
/* 0 or what a create returned, f->failure says why; then nothing is open. */
int fake_open(struct fake *, const struct fake_options *);
void fake_close(struct fake *);
uint64_t fake_random(struct fake *);
/* Between low and high, both included. */
uint32_t fake_between(struct fake *, uint32_t low, uint32_t high);
/* Audits the cache; f->text has the state. */
int fake_audit(struct fake *);
/* f->text has what the scheduler dumps, a line each. */
void fake_dump(struct fake *);
/* f->text has what scheduler and cache say of themselves, and all they have counted. */
void fake_stats(struct fake *);
double fake_figure(struct fake *,
                   const char *name); /* of stats; NaN: none is called so */

/* ---- fake_step.c */
/* A request that will say `output` tokens; NULL if all slots are taken. */
struct fake_request *fake_submit(struct fake *, const int32_t *tokens, uint32_t n,
                                 uint32_t output);
void fake_cancel(struct fake *, struct fake_request *);
void fake_free(struct fake_request *); /* without telling anybody */
/* One step; how many requests ran. */
uint32_t fake_step(struct fake *);
uint32_t fake_alive(const struct fake *);
/* Steps until nothing is alive; fails the test after most_steps. */
void fake_finish(struct fake *, uint32_t most_steps);
/* "0:60 1:50 -2:r": runs with their tokens, preemptions with their mode, by id. */
const char *fake_plan_text(const struct fake *, char *buffer, size_t size);

/* ---- fake_place.c: the transaction */
void fake_service_init(struct fake *);
int fake_reserve(struct fake *, struct fake_request *, uint32_t tokens, uint32_t form,
                 uint32_t flags);
int fake_preempt(struct fake *, struct fake_request *, uint32_t mode);
int fake_rollback(struct fake *, uint32_t mark);
struct fake_request *fake_find(const struct fake *, uint64_t id);
/* NULL if the plan is good, else what is wrong with it. */
const char *fake_check_plan(struct fake *, struct fake_request **culprit);

/* ---- fake_memory.c */
void fake_memory_copy(struct fake_memory *, const struct lls_copy *);
/* Fails unless the table is well formed and covers n tokens. */
void fake_memory_write(struct fake_memory *, const struct lls_block_table *,
                       const uint64_t *digests, uint32_t from, uint32_t to);
void fake_memory_check(const struct fake_memory *, const struct lls_block_table *,
                       const uint64_t *digests, uint32_t n);

#endif
