/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole instance in a test, or several: a model folder, a device and an engine of each,
 * four real plugin files, and the step loop driven by hand. C tests and benchmarks of
 * the loop share it.
 */
#ifndef LLS_HARNESS_H
#define LLS_HARNESS_H

#include "core/engine/engine.h"
#include "core/loop/loop.h"
#include "core/obs/log.h"
#include "kernels/sim/sim.h"
#include "t/policy.h"

#define HARNESS_INSTANCES 4

struct harness_options {
  const char *model;      /* a folder, relative to the source root */
  bool dummy;             /* random weights of the model's shape */
  enum lls_dtype element; /* element of the cache */
  uint32_t max_tokens, max_sequences, max_requests, block_tokens, max_context;
  uint32_t device_units, host_units; /* halves of blocks in KV form */
  uint32_t max_drafts;               /* guesses verified for a sequence in a step */
  /* A draft model: a folder like `model`, NULL: none; rows of its passes, blocks of its
   * cache. */
  const char *draft_model;
  uint32_t draft_rows, draft_blocks;
  enum lls_weight_format weights; /* of the model, and of heads */
  /* the draft model is the layer of `model` that guesses, or the EAGLE-3 layer in the
   * folder draft_model */
  bool heads;
  bool groups;     /* as many groups of layers as the cache manager keeps; else one */
  uint32_t window; /* of every layer, tokens; 0: the model's own */
  uint32_t int8;   /* enum lls_int8 */
  bool no_hidden;  /* the engine has no hidden form */
  bool kv_only;    /* no hidden form on a device with its own memory either */
  struct harness_policy scheduler, cache, predictor, drafter; /* drafter: none */
  const struct lls_cost_rates *cost;                          /* as in lls_loop_options */
  const char *measurements;                                   /* likewise */
  bool measure_always;
  uint32_t strikes;
  struct lls_lease_limits leases; /* [cache] lease_tool and lease_end, but 0 by default */
  bool block_events;              /* the caller takes them (lls_loop_block_events) */
  uint32_t mask_work;             /* [plugins], but 0 by default */
  bool no_jump;                   /* [plugins] jump_ahead = false */
  int64_t draft_budget;           /* [plugins], but 0 by default */
  uint64_t seed;
  bool threaded;      /* with a step thread instead of lls_loop_step */
  uint32_t threads;   /* of the device; 1 by default */
  uint32_t log_level; /* enum lls_log_level, LLS_LOG_ERROR by default */
  /* The simulated device and its clock instead of the CPU; dummy should be set. */
  const struct lls_sim_options *sim;
  /* plans are timed on a simulated device, as they always are on others */
  bool time_plans;
  /* A clock for the CPU device of one instance, instead of the machine's; both members
   * or none. */
  int64_t (*clock)(void *context);
  void *clock_context;
  /* Creates another device; NULL: the CPU. */
  int (*create_device)(const struct lls_device_options *, struct lls_device **,
                       struct lls_error *);
  struct lls_loop_observer observer;
  uint32_t instances;                /* 1 by default */
  uint32_t roles[HARNESS_INSTANCES]; /* enum lls_role */
  /* Called after the policies are loaded, and may replace them; NULL: it is not. */
  void (*replace)(void *context, struct lls_loop_policies *);
  void *replace_context;
};

struct harness {
  struct lls_log log;
  struct lls_model_config config;
  struct lls_device *device; /* device of the first instance */
  struct lls_engine *engine;
  struct lls_device *devices[HARNESS_INSTANCES];
  struct lls_engine *engines[HARNESS_INSTANCES];
  struct lls_model_config draft_config;
  struct lls_device *draft_devices[HARNESS_INSTANCES];
  struct lls_engine *draft_engines[HARNESS_INSTANCES];
  struct harness_loaded scheduler, cache, predictor, drafter;
  struct lls_loop *loop;
};

/* The costs of a model's steps on a slow device whose link to the host transfers
 * host_gigabytes_per_s GB a second. */
struct lls_cost_rates harness_rates(const char *model, double host_gigabytes_per_s);

/* Returns 0, or -errno with an error; on failure everything is undone. */
int harness_open(struct harness *, const struct harness_options *, struct lls_error *err);
void harness_close(struct harness *);

/* Returns a submission with every member at its default. */
struct lls_submission harness_submission(const int32_t *tokens, uint32_t n_tokens,
                                         uint32_t max_new_tokens, void *owner);

#endif
