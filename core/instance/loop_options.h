/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step loop is made of these options: engines, policies, limits, clocks, other
 * processes. The loop (core/loop/loop.h) is above all rooms that read their own part of
 * these options.
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
struct lls_engine;
struct lls_grammar;
struct lls_log;
struct lls_loop_prepared;
struct lls_plugin_module;

/* A plugin with its bound parameters; both stay valid until lls_loop_destroy. */
struct lls_loop_policy {
  const struct lls_plugin_module *module;
  const void *params;
};

/* One of each; in a reload a policy without a module stays as it is. */
struct lls_loop_policies {
  LLS_EACH_KIND_OF(struct lls_loop_policy);
};

struct lls_loop_instance {
  struct lls_engine *engine; /* used by its step thread alone from create to destroy */
  uint32_t role;             /* enum lls_role */
  void *clock_context;       /* where each has a clock of its own, else the options' */
  /* [step] first thing on its thread; NULL: nothing to do */
  void (*begin)(void *context, uint32_t index);
  void *begin_context;
};

/* Where prefixes of prompts are kept from one start to the next (kept_prompts.h). */
struct lls_loop_prompts {
  const char *folder;  /* copied; NULL: none */
  uint64_t most_bytes; /* of each instance; 0 = none are kept */
};

/* [any] Compiles what lls_grammar_key gave in another process. */
typedef int (*lls_loop_grammar)(void *context, const char *key, size_t n,
                                struct lls_grammar **out, struct lls_error *err);

/* [main] A change of policies in a process that is not 0, besides its instance. */
struct lls_loop_change_ops {
  void *context;
  /* Begins to prepare what process 0 sends, or, without data, goes on: -EINPROGRESS; or
   * it is prepared; or why it cannot be. */
  int (*prepare)(void *context, const char *data, size_t n,
                 struct lls_loop_prepared **out, struct lls_error *err);
  /* It runs now; or it never will. */
  void (*over)(void *context, bool runs);
};

/* Instances of the list in other processes: those that have no engine here (remote.h). */
struct lls_loop_remote {
  struct lls_channel *channel; /* NULL: all are here. Outlives the loop */
  struct lls_channel *within;  /* likewise, to the engine's other ranks; NULL: none */
  bool gpu_aware;              /* the channel takes what is in a GPU's memory */
  int links;                   /* enum lls_link_use of fetch.h */
  int64_t timeout_ns;          /* of a process that is silent: it is taken for dead */
  lls_loop_grammar grammar;
  void *grammar_context;
  struct lls_loop_change_ops change;
};

struct lls_loop_options {
  struct lls_engine *engine; /* of the only instance, mixed, where there is no list */
  const struct lls_loop_instance *instances; /* (n_instances); of engines alike */
  uint32_t n_instances;
  struct lls_loop_remote far; /* zeroed: all are here */
  struct lls_loop_policies policies;
  uint32_t max_requests; /* alive at once */
  struct lls_loop_limits limits;
  uint64_t seed; /* of the policies' random streams */
  /* The cache's keys are made with it (block_keys.h); zeroed where nobody guesses, so
   * that a simulation repeats. */
  struct lls_key_secret key_secret;
  const char *model_name; /* as clients know it, and its folder, or NULL; copied */
  const char *model_folder;
  const int32_t *eos_tokens; /* (n_eos_tokens); copied */
  uint32_t n_eos_tokens;
  /* Rates for the policies' estimates (core/cost/model.h), NULL = as measured while
   * serving; copied. */
  const struct lls_cost_rates *cost;
  /* Folder of what was measured at earlier starts, "" or NULL = none (measured.h). */
  const char *measurements;
  bool measure_always; /* whatever is there */
  struct lls_loop_prompts prompts;
  bool trial; /* nothing is measured: do the parts go together? None will be run. */
  const struct lls_log *log;
  struct lls_loop_observer observer; /* zeroed: none */
  /* [main] Of its arrivals and ends alone, as they pass here: for instances in several
   * processes, each of which has an observer of its own otherwise. */
  struct lls_loop_observer front;
  void (*wake)(
      void *context); /* [step] there are events; must be cheap and never block */
  void *wake_context;
  /* No step thread: the creator of the loop calls lls_loop_step (tests, the simulator).
   */
  bool manual;
  int64_t (*clock)(void *context); /* nanoseconds, NULL = CLOCK_MONOTONIC */
  /* Clock of plan calls; NULL = CPU time of the thread, which takes two system calls a
   * step. */
  int64_t (*plan_clock)(void *context);
  void *clock_context; /* of both */
};

#endif
