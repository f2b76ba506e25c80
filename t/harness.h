/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole instance in a test, or several: a model folder, a device and an engine of each,
 * three real plugin files, and the step loop driven by hand. What C tests and benchmarks
 * of the loop share.
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
  const char *model;      /* folder, from the source root */
  bool dummy;             /* random weights of its shape */
  enum lls_dtype element; /* of the cache */
  uint32_t max_tokens, max_sequences, max_requests, block_tokens, max_context;
  uint32_t device_units, host_units;
  uint32_t window; /* of every layer, tokens; 0: the model's own */
  uint32_t int8;   /* enum lls_int8 */
  bool no_hidden;  /* the engine has no hidden form */
  bool kv_only;    /* nor on a device with memory of its own */
  struct harness_policy scheduler, cache, predictor;
  const struct lls_cost_rates *cost; /* as in lls_loop_options */
  const char *measurements;          /* likewise */
  bool measure_always;
  uint32_t strikes;
  uint32_t mask_work; /* [plugins], but 0 by default */
  bool no_jump;       /* [plugins] jump_ahead = false */
  uint64_t seed;
  bool threaded;      /* with a step thread instead of lls_loop_step */
  uint32_t threads;   /* of the device; 1 by default */
  uint32_t log_level; /* enum lls_log_level, LLS_LOG_ERROR by default */
  /* The simulated device and its clock instead of the CPU; dummy should be set. */
  const struct lls_sim_options *sim;
  bool time_plans; /* of a simulated device; of others they always are */
  /* A clock for the CPU, of one instance, in place of the machine's; both or none. */
  int64_t (*clock)(void *context);
  void *clock_context;
  /* Or another one; NULL = the CPU. */
  int (*create_device)(const struct lls_device_options *, struct lls_device **,
                       struct lls_error *);
  struct lls_loop_observer observer;
  uint32_t instances;                /* 1 by default */
  uint32_t roles[HARNESS_INSTANCES]; /* enum lls_role */
  /* May put other policies in the place of the loaded ones; NULL: they stay. */
  void (*replace)(void *context, struct lls_loop_policies *);
  void *replace_context;
};

struct harness {
  struct lls_log log;
  struct lls_model_config config;
  struct lls_device *device; /* of the first instance */
  struct lls_engine *engine;
  struct lls_device *devices[HARNESS_INSTANCES];
  struct lls_engine *engines[HARNESS_INSTANCES];
  struct harness_loaded scheduler, cache, predictor;
  struct lls_loop *loop;
};

/* Cost of a model's steps on a slow device, whose link to the host carries so many GB
 * a second. */
struct lls_cost_rates harness_rates(const char *model, double host_gigabytes_per_s);

/* 0, or -errno with the sentence; everything is undone on failure. */
int harness_open(struct harness *, const struct harness_options *, struct lls_error *err);
void harness_close(struct harness *);

/* A submission with every default set. */
struct lls_submission harness_submission(const int32_t *tokens, uint32_t n_tokens,
                                         uint32_t max_new_tokens, void *owner);

#endif
