/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a step loop: engines, policies, limits, clocks, other processes. They
 * are defined here, below core/loop/loop.h, since several folders read their own part.
 */
#ifndef LLS_INSTANCE_LOOP_OPTIONS_H
#define LLS_INSTANCE_LOOP_OPTIONS_H

#include <llmserve/types.h>

#include "core/base/error.h"
#include "core/config/limits.h"
#include "core/instance/block_keys.h"
#include "core/instance/observer.h"
#include "core/plugin/kinds.h"

struct lls_channel;
struct lls_cost_rates;
struct lls_devices;
struct lls_engine;
struct lls_grammar;
struct lls_log;
struct lls_loop_prepared;
struct lls_plugin_module;

/* A plugin with its parameters; both stay valid until lls_loop_destroy. */
struct lls_loop_policy {
  const struct lls_plugin_module *module;
  const void *params;
};

/* One policy of each kind. In a reload a policy without a module is not changed. */
struct lls_loop_policies {
  LLS_EACH_KIND_OF(struct lls_loop_policy);
};

/*
 * The changes of a reload. A policy whose module is the running one is reconfigured with
 * the new parameters (its plugin must have reconfigure); one with another module takes
 * over from the running policy. Modules and parameters stay valid until the reload after
 * the next, or until lls_loop_destroy.
 */
struct lls_loop_change {
  struct lls_loop_policies policies;
  struct lls_loop_limits limits;
};

struct lls_loop_instance {
  struct lls_engine *engine; /* from create to destroy only its step thread uses it */
  uint32_t role;             /* enum lls_role */
  struct lls_engine *draft_engine; /* likewise, of the draft model; NULL: none */
  void *clock_context; /* argument of the instance's own clock; NULL: the options' clock
                          is used */
  /* [step] called first on the step thread; NULL: not called */
  void (*begin)(void *context, uint32_t index);
  void *begin_context;
};

/* Where prompt prefixes are kept between runs (persistent_prompts.h). */
struct lls_disk_rates; /* core/disk/block_store.h */
struct lls_loop_prompts {
  const char *folder;  /* copied; NULL: none */
  uint64_t most_bytes; /* most bytes kept for each instance; 0: none are kept */
  bool int8;           /* blocks on disk are int8 (core/disk/block_int8.h) */
};

/* [any] Compiles a grammar from the lls_grammar_key of another process. */
typedef int (*lls_loop_grammar)(void *context, const char *key, size_t n,
                                struct lls_grammar **out, struct lls_error *err);

struct lls_lora;
/* [any] Finds the adapter that another process has read from a path, by the SHA-256 of
 * its matrices; reads the files, if need be. The caller has a reference. Returns -EINVAL
 * if the files have another digest, and lls_lora_load's errors. */
typedef int (*lls_loop_adapter)(void *context, const char *path,
                                const unsigned char digest[32], struct lls_lora **out,
                                struct lls_error *err);

/* [main] In a process other than 0: its part in a change of policies, besides its
 * instance. */
struct lls_loop_change_ops {
  void *context;
  /* With data: begins to prepare the change that process 0 sent; without: continues.
   * Returns 0 if it is prepared; -EINPROGRESS: to be called again; another -errno:
   * refused. */
  int (*prepare)(void *context, const char *data, size_t n,
                 struct lls_loop_prepared **out, struct lls_error *err);
  /* Called when the change has ended. runs: the new policies run; else the change was
   * refused. */
  void (*over)(void *context, bool runs);
};

/* Instances of other processes, which the list has without an engine (remote.h). */
struct lls_loop_remote {
  struct lls_channel *channel; /* NULL: no other processes. Outlives the loop */
  /* to the other ranks of this process's engine, outlives the loop; NULL: it has one */
  struct lls_channel *within;
  bool gpu_aware;     /* the channel can send a GPU's memory */
  int links;          /* enum lls_link_use of fetch.h */
  int64_t timeout_ns; /* a process silent for this long is given up */
  lls_loop_grammar grammar;
  lls_loop_adapter adapter;
  void *context; /* argument of grammar and adapter */
  /* [any] becomes true when this process is to leave an elastic channel: from then on it
   * has drain_ns to finish the requests that it serves; NULL: never */
  const _Atomic(bool) *leaves;
  int64_t drain_ns;
  int64_t join_ns; /* process 0 of an elastic channel: longest time from a process's
                    * coming until it is ready; 0: no limit */
  /* process 0 of an elastic channel: (config_bytes) the data of
   * lls_loop_prepared_share for processes that join, copied; NULL: none */
  const char *config;
  size_t config_bytes;
  struct lls_loop_change_ops change;
};

/* How an arrival's instance is chosen (core/loop/placing.h). Servers choose by WORK: the
 * others are what simulations compare it with. */
enum lls_placing_rule {
  LLS_PLACING_BY_WORK,   /* what waits there, and what it has not cached of the prompt */
  LLS_PLACING_BY_LOAD,   /* what waits there */
  LLS_PLACING_BY_SESSION /* a hash of the session's name; without a session by load */
};

struct lls_loop_options {
  /* the built-in devices, which must outlive the loop: encoders run on the CPU device */
  const struct lls_devices *builtin;
  /* the only instance's engine, if there is no list; its role is mixed */
  struct lls_engine *engine;
  /* (n_instances) the instances, whose engines are alike; NULL: see engine */
  const struct lls_loop_instance *instances;
  uint32_t n_instances;
  struct lls_loop_remote remote; /* zeroed: no other processes */
  struct lls_loop_policies policies;
  uint32_t max_requests; /* alive at once */
  struct lls_loop_limits limits;
  struct lls_lease_limits leases;
  uint64_t seed; /* seeds the policies' random streams */
  /* The secret of block keys (block_keys.h); zeroed in a simulation, so that it can be
   * repeated. */
  struct lls_key_secret key_secret;
  const char *model_name; /* copied; the name for clients, the folder; or NULL */
  const char *model_folder;
  const int32_t *eos_tokens; /* (n_eos_tokens); copied */
  uint32_t n_eos_tokens;
  /* Rates for the policies' estimates (core/cost/model.h), copied; NULL: measured while
   * serving. */
  const struct lls_cost_rates *cost;
  /* Folder of measurements of earlier starts (measured.h); "" or NULL: none. */
  const char *measurements;
  bool measure_always; /* measure even if the folder has measurements */
  uint32_t placing;    /* enum lls_placing_rule */
  struct lls_loop_prompts prompts;
  bool block_events;                           /* lls_loop_block_events is called */
  struct lls_loop_prompts disk;                /* of blocks: core/step/disk_tier.h */
  const struct lls_disk_rates *simulated_disk; /* each instance's; NULL: a file each */
  bool trial; /* nothing is measured or run: only checks that the parts go together */
  const struct lls_log *log;
  struct lls_loop_observer observer; /* zeroed: none */
  /* [main] Observes only arrivals and ends, as main sees them. For instances in several
   * processes, where `observer` sees its own process only. */
  struct lls_loop_observer front;
  void (*wake)(
      void *context); /* [step] there are events; must be quick and never block */
  void *wake_context;
  /* No step threads: the loop's creator calls lls_loop_step (tests, the simulator). */
  bool manual;
  int64_t (*clock)(void *context); /* nanoseconds, NULL = CLOCK_MONOTONIC */
  /* Clock of plan calls; NULL: the thread's CPU time, two system calls a step. */
  int64_t (*plan_clock)(void *context);
  void *clock_context; /* argument of both clocks */
};

#endif
